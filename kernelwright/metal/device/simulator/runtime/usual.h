// Most accesses of a sanitizing launch are right, and seen to be so here, without a call.
#pragma once

#include "access.h"
#include "arena.h"
#include "shadow.h"

namespace kw {

// Not to the compiler's judgement: the access must stay in registers.
#define KW_INLINE [[gnu::always_inline]] inline

// What distinguishes the kinds of memory that have a shadow.
struct Watched {
  Shadow& shadow;
  uint64_t first, last;  // grains accessed
  Moment moment;
  bool forgets;           // what other threadgroups did is void
  bool tracks_first_use;  // reading before writing is an error
};

// True when an earlier access cannot conflict with this one, whatever both do.
inline bool is_ordered(const Watched& watched, Trace before, Trace now) {
  if (before.bits == 0 || before.bits == now.bits) return true;
  return (watched.forgets && before.group() != now.group()) || !concurrent(before, now);
}

KW_INLINE bool is_usual_write(const Watched& watched, Trace now, uint32_t site) {
  Shadow& shadow = watched.shadow;
  for (uint64_t i = watched.first; i <= watched.last; i++)
    if (!is_ordered(watched, load_trace(&shadow.writes[i]), now)) return false;
  if (__atomic_load_n(&shadow.was_read, __ATOMIC_RELAXED)) {
    for (uint64_t i = watched.first; i <= watched.last; i++)
      if (!is_ordered(watched, load_trace(&shadow.reads[i]), now)) return false;
  }
  for (uint64_t i = watched.first; i <= watched.last; i++) {
    store_trace(&shadow.writes[i], now);
    shadow.write_sites[i] = site;
  }
  return true;
}

KW_INLINE bool is_usual_read(const Watched& watched, Trace now, uint32_t site) {
  Shadow& shadow = watched.shadow;
  for (uint64_t i = watched.first; i <= watched.last; i++) {
    const Trace write = load_trace(&shadow.writes[i]);
    if (!is_ordered(watched, write, now)) return false;
    const bool is_void = watched.forgets && write.group() != now.group();
    if (watched.tracks_first_use && (!write.exists() || is_void)) return false;
  }
  note_reads(shadow);
  for (uint64_t i = watched.first; i <= watched.last; i++) {
    const Trace read = load_trace(&shadow.reads[i]);
    if (is_same_place(read, now) && !read.has(Trace::ATOMIC)) continue;
    const bool is_alone = is_ordered(watched, read, now);
    if (!is_alone) keep_earlier(shadow, i, read);
    store_trace(&shadow.reads[i], is_alone ? now : joined(read, now));
    shadow.read_sites[i] = site;
  }
  return true;
}

KW_INLINE bool is_usual(Worker& worker, const Access& access, const Watched& watched) {
  const Trace now = trace_now(worker, watched.moment, 0);
  const uint32_t site = (uint32_t)(access.pc - worker.launch->module_low);
  const uint32_t kind = access.kind & ~ALIGNED;
  if (kind == READ) return is_usual_read(watched, now, site);
  return kind == WRITE && is_usual_write(watched, now, site);
}

// True when the access touches whole grains of its owner, and nothing beyond.
inline bool covers_grains(uint64_t offset, uint32_t size, uint64_t owner_size, uint32_t shift) {
  if (size > owner_size || offset > owner_size - size) return false;
  return ((offset | size) & ((1ull << shift) - 1)) == 0;
}

KW_INLINE bool is_usual_on_device(Worker& worker, const Access& access) {
  const Slot& slot = worker.launch->arena->slot_of(access.address);
  const uint64_t offset = access.address - (uint64_t)slot.start;
  if (!covers_grains(offset, access.size, slot.size, slot.grain_shift)) return false;
  if (!slot.writable) return (access.kind & WRITE) == 0;
  const uint64_t first = offset >> slot.grain_shift;
  const uint64_t last = (offset + access.size - 1) >> slot.grain_shift;
  return is_usual(worker, access, {*slot.shadow, first, last, device_moment(worker), false,
                                   !slot.initialised});
}

KW_INLINE bool is_usual_in_threadgroup(Worker& worker, const Access& access) {
  const ThreadgroupVariable* variable = worker.memory.owner(access.address);
  if (variable == nullptr) return false;
  const uint64_t offset = access.address - (uint64_t)variable->address;
  const uint32_t shift = grain_shift_of(variable->grain);
  if (!covers_grains(offset, access.size, variable->size, shift)) return false;
  const uint64_t base = (uint64_t)(variable->address - worker.memory.start());
  const uint64_t last = base + ((offset + access.size - 1) >> shift);
  return is_usual(worker, access, {*worker.shadow, base + (offset >> shift), last,
                                   threadgroup_moment(worker), true, true});
}

// True when nothing about the access is worth a report; it has been noted then.
KW_INLINE bool is_usual(Worker& worker, const Access& access) {
  const uint32_t alignment = access.size < 8 ? access.size : 8;
  const bool is_misaligned = access.kind & ALIGNED && access.address & (alignment - 1);
  if (worker.pending.size != 0 || is_misaligned) return false;
  worker.last_address = access.address;
  worker.last_pc = access.pc;
  if (access.address - worker.arena_low < worker.arena_size)
    return is_usual_on_device(worker, access);
  if (on_a_stack(worker, access.address)) return true;
  return worker.memory.contains(access.address) && is_usual_in_threadgroup(worker, access);
}

}  // namespace kw
