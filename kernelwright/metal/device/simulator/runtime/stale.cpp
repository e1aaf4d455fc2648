#include "stale.h"

#include <string.h>

#include "arena.h"
#include "shadow.h"

namespace kw {

namespace {

constexpr uint32_t PROBES = 8;
// So often a threadgroup may be told what was, before all that others wrote has come through: a
// relaxed store is seen in the end, so that a loop which waits for it does end.
constexpr uint32_t MOST_STALE = 1024;

// The place of an address in the table, or where it may be put; null where that is full.
uint64_t* find(OwnAtomics& own, uint64_t address) {
  const uint64_t hash = address * 0x9e3779b97f4a7c15ull >> 32;
  for (uint32_t i = 0; i < PROBES; i++) {
    uint64_t& place = own.addresses[(hash + i) % OwnAtomics::MOST];
    if (place == address || place == 0) return &place;
  }
  return nullptr;
}

bool has_fenced(const Launch& launch, uint32_t group) {
  if (launch.fenced == nullptr || group >= launch.group_count) return false;
  return __atomic_load_n(&launch.fenced[group / 8], __ATOMIC_RELAXED) >> group % 8 & 1;
}

}  // namespace

const void* stale_value(Worker& worker, uint64_t address, uint32_t size) {
  if (!worker.sanitizes || !worker.launch->arena->contains(address)) return nullptr;
  const Arena& arena = *worker.launch->arena;
  const uint64_t index = (address - (uint64_t)arena.base) >> arena.slot_shift;
  if (index >= arena.count) return nullptr;
  const Slot& slot = arena.slots[index];
  const uint64_t offset = address - (uint64_t)slot.start;
  if (!slot.writable || offset + size > slot.size) return nullptr;
  const Trace write = load_trace(&slot.shadow->writes[offset >> slot.grain_shift]);
  const uint32_t group = (uint32_t)(worker.group & GROUP_MASK);
  if (!write.has(Trace::ATOMIC) || write.group() == group) return nullptr;
  if (worker.own_atomics.has_fenced && has_fenced(*worker.launch, write.group())) return nullptr;
  const uint64_t* own = find(worker.own_atomics, address);
  // Of a threadgroup that writes very many places nothing more is known.
  if (own == nullptr || *own == address) return nullptr;
  if (worker.own_atomics.stale_count == MOST_STALE) return nullptr;
  worker.own_atomics.stale_count++;
  worker.own_atomics.is_used = true;
  return worker.launch->request.buffers[index].data + offset;
}

void note_own_atomic(Worker& worker, uint64_t address) {
  if (!worker.sanitizes) return;
  OwnAtomics& own = worker.own_atomics;
  uint64_t* place = find(own, address);
  if (place == nullptr || *place == address) return;
  *place = address;
  own.is_used = true;
  own.has_fenced = false;
}

void note_fence(Worker& worker) {
  const Launch& launch = *worker.launch;
  const uint64_t group = worker.group & GROUP_MASK;
  worker.own_atomics.has_fenced = worker.own_atomics.is_used = true;
  if (launch.fenced != nullptr && group < launch.group_count)
    __atomic_fetch_or(&launch.fenced[group / 8], (uint8_t)(1u << group % 8), __ATOMIC_RELAXED);
}

void forget_own_atomics(Worker& worker) {
  if (worker.own_atomics.is_used) memset(&worker.own_atomics, 0, sizeof worker.own_atomics);
}

}  // namespace kw
