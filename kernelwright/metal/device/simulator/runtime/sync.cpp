// Where compiled Metal text waits: barriers, simdgroup operations, threadgroup memory.
#include <string.h>

#include "observe.h"
#include "scheduler.h"
#include "stack.h"
#include "work.h"

using namespace kw;

#define PC ((uint64_t)__builtin_return_address(0))

namespace {

// Notes that the running lane waits at `site`; true when it is the last of its whole simdgroup
// and all wait for the same thing.
inline __attribute__((always_inline)) bool completes(Fiber& fiber, kw_combine combine, uint32_t site,
                                                      uint64_t pc) {
  Simdgroup& simdgroup = *fiber.simdgroup;
  fiber.wait_site = site;
  fiber.wait_combine = combine;
  if (current->sanitizes) fiber.wait_pc = pc;
  note_path(fiber);
  if (simdgroup.at_simd == 0) {
    simdgroup.first = &fiber;
    simdgroup.differs = false;
  } else if (!wait_together(fiber, *simdgroup.first)) {
    simdgroup.differs = true;
  }
  simdgroup.at_simd |= bit(fiber.lane);
  if (simdgroup.at_simd != simdgroup.present || simdgroup.differs) return false;
  simdgroup.at_simd = 0;
  simdgroup.ready |= simdgroup.present & ~bit(fiber.lane);
  return true;
}

// Most operations carry a word or two, for which a call of memcpy would cost more than the copy.
void copy(void* to, const void* from, uint32_t size) {
  if (size == 4)
    memcpy(to, from, 4);
  else if (size == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, size);
}

}  // namespace

KW_EXPORT const kw_thread* kw_current(void) { return &current->running->context; }

KW_EXPORT void kw_simdgroup(const void* in, kw_uint in_size, void* out, kw_uint out_size,
                            kw_combine combine, kw_uint site) {
  Worker& worker = *current;
  Fiber& fiber = *worker.running;
  worker.waits++;
  spend(worker, WAIT_UNITS);
  Simdgroup& simdgroup = *fiber.simdgroup;
  const uint64_t slot = fiber.lane * KW_SLOT_BYTES;
  observe_simd(worker);
  copy(simdgroup.in + slot, in, in_size);
  if (completes(fiber, combine, site, PC))
    perform(worker, simdgroup, fiber, simdgroup.present);
  else
    wait(worker, fiber);
  copy(out, simdgroup.out + slot, out_size);
}

KW_EXPORT void kw_simdgroup_barrier(kw_uint flags, kw_uint site) {
  Worker& worker = *current;
  Fiber& fiber = *worker.running;
  worker.waits++;
  spend(worker, WAIT_UNITS);
  observe_simdgroup_barrier(worker);
  fiber.simdgroup->flags = flags;
  if (completes(fiber, nullptr, site, PC))
    pass_barrier(*fiber.simdgroup);
  else
    wait(worker, fiber);
}

KW_EXPORT void kw_barrier(kw_uint flags, kw_uint site) {
  Worker& worker = *current;
  Fiber& fiber = *worker.running;
  worker.waits++;
  spend(worker, WAIT_UNITS);
  observe_barrier(worker);
  fiber.wait_site = site;
  if (worker.sanitizes) {
    fiber.wait_combine = nullptr;
    fiber.wait_pc = PC;
    note_path(fiber);
  }
  fiber.simdgroup->at_barrier |= bit(fiber.lane);
  if (++worker.waiting < worker.threads) {
    wait(worker, fiber);
    return;
  }
  observe_barrier_sites(worker);
  release_barrier(worker, flags);
  fiber.simdgroup->ready &= ~bit(fiber.lane);
}

// Behind the path of the call that has led to where the running thread is. path.py writes these calls,
// or what they do in their place.
KW_EXPORT uint64_t* kw_path(void) { return kw_path_end; }
KW_EXPORT void kw_enter_round(uint64_t* part, uint64_t loop, bool again) {
  *part = again ? *part + 1 : loop;
}
KW_EXPORT void kw_come_to(uint64_t* part, uint64_t place) {
  *part = place;
  kw_path_end = part + 1;
}
KW_EXPORT void kw_return_from(uint64_t* path) { kw_path_end = path; }

// The same as one number; instance.py writes these calls.
KW_EXPORT uint64_t kw_instance(void) { return current->running->instance; }
KW_EXPORT void kw_set_instance(uint64_t instance) { current->running->instance = instance; }

KW_EXPORT void kw_missed_lanes(kw_uint lanes, kw_uint readers) {
  current->missed_lanes |= lanes;
  current->readers |= readers;
}

KW_EXPORT void* kw_threadgroup_alloc(kw_uint id, kw_ulong size, kw_ulong alignment) {
  Worker& worker = *current;
  if (char* address = worker.memory.find(id, size)) return address;
  const uint32_t most = worker.launch->request.tracks_bytes ? 1 : 4;
  const uint32_t grain = alignment < most ? (uint32_t)alignment : most;
  char* address = worker.memory.allocate(id, size, alignment, grain);
  if (address != nullptr) {
    memset(address, (int)worker.launch->request.poison, size + ThreadgroupMemory::GAP);
    return address;
  }
  fail(*worker.launch, THREADGROUP_MEMORY, 0, worker.memory.used + size, &worker);
  abandon(worker);
}
