// Who last read and wrote each grain of memory, and whether a barrier lies between.
#pragma once

#include <stdint.h>

#include "worker.h"

namespace kw {

// One access in 64 bits, so that worker threads exchange them without tearing; 0 is none.
//
//   group 28 | thread + 1 11 | phase 15 | epoch 6 | reach 2 | none 1 | atomic 1
//
// phase counts threadgroup barriers, epoch the simdgroup's own, of those that order this kind of
// memory. Both wrap: after exactly 2^15 barriers without another access a race would go unseen. reach says
// for whom else the last of several readers stands.
struct Trace {
  uint64_t bits;

  static constexpr uint64_t ATOMIC = 1, FLAGS = 15;
  static constexpr uint32_t ALONE = 0, LANES = 1, SIMDGROUPS = 2, GROUPS = 3;

  bool exists() const { return bits != 0; }
  uint32_t group() const { return (uint32_t)(bits >> 36); }
  uint32_t thread() const { return ((uint32_t)(bits >> 25) & 0x7ff) - 1; }
  uint32_t phase() const { return (uint32_t)(bits >> 10) & 0x7fff; }
  uint32_t epoch() const { return (uint32_t)(bits >> 4) & 0x3f; }
  uint32_t reach() const { return (uint32_t)(bits >> 2) & 3; }
  bool has(uint64_t flag) const { return (bits & flag) != 0; }
};

constexpr uint64_t GROUP_MASK = (1u << 28) - 1;

inline Trace trace_of(uint64_t group, uint32_t thread, uint32_t phase, uint32_t epoch,
                      uint64_t flags) {
  return {(group & GROUP_MASK) << 36 | (uint64_t)(thread + 1) << 25 |
          (uint64_t)(phase & 0x7fff) << 10 | (epoch & 0x3f) << 4 | flags};
}

// What orders accesses to one kind of memory: the barriers passed before them.
struct Moment {
  uint32_t phase, epoch;
};

inline Moment device_moment(const Worker& worker) {
  return {worker.device_phase, worker.running->simdgroup->device_epoch};
}

inline Moment threadgroup_moment(const Worker& worker) {
  return {worker.threadgroup_phase, worker.running->simdgroup->threadgroup_epoch};
}

inline Trace trace_now(const Worker& worker, Moment moment, uint64_t flags) {
  const uint32_t thread = worker.running->context.index_in_threadgroup;
  return trace_of(worker.group, thread, moment.phase, moment.epoch, flags);
}

inline bool is_same_place(Trace a, Trace b) { return ((a.bits ^ b.bits) & ~Trace::FLAGS) == 0; }

// log2 of the bytes that are tracked as one in memory of such elements.
inline uint32_t grain_shift_of(uint32_t itemsize) {
  return itemsize >= 4 ? 2 : itemsize >= 2 ? 1 : 0;
}

// How far from each other two accesses run: by one thread, in one simdgroup, in one threadgroup.
inline uint32_t reach_over(Trace before, Trace now) {
  const bool in_one = before.thread() / KW_SIMD_WIDTH == now.thread() / KW_SIMD_WIDTH;
  const uint32_t apart = before.group() != now.group()     ? Trace::GROUPS
                         : !in_one                         ? Trace::SIMDGROUPS
                         : before.thread() != now.thread() ? Trace::LANES
                                                           : Trace::ALONE;
  return apart > before.reach() ? apart : before.reach();
}

// True when nothing orders an earlier access, or one for which it stands, before one that `now`
// describes.
inline bool concurrent(Trace before, Trace now) {
  const uint32_t reach = reach_over(before, now);
  if (reach == Trace::GROUPS) return true;
  if (before.phase() != now.phase()) return false;
  return reach == Trace::SIMDGROUPS || (reach == Trace::LANES && before.epoch() == now.epoch());
}

// The access itself, whatever else it stands for.
inline Trace alone(Trace trace) { return {trace.bits & ~Trace::FLAGS}; }

// A read that stands for the ones before it, which nothing orders before it, as well.
inline Trace joined(Trace before, Trace now) {
  return {now.bits | (uint64_t)reach_over(before, now) << 2};
}

// The last write and read of every grain, with the place in the code of each. In arrays of their
// own: most outputs are never read, and what nobody reads costs no memory then.
struct Shadow {
  uint64_t count;
  uint64_t* writes;
  uint64_t* reads;
  uint32_t* write_sites;
  uint32_t* read_sites;
  // Of several readers the one before the last, which names another thread where the last one
  // goes on to write.
  uint64_t* earlier_reads;
  uint32_t* earlier_sites;
  uint64_t bytes;     // of the whole allocation, which starts here
  uint32_t was_read;  // atomic; 0 while all of `reads` is still zero
};

// Null without memory. Memory is zeroed and costs nothing until it is touched.
Shadow* make_shadow(uint64_t size, uint32_t grain_shift);
void release_shadow(Shadow* shadow);
// Forgets everything.
void clear_shadow(Shadow& shadow);

// Before the first read is stored.
inline void note_reads(Shadow& shadow) {
  if (!__atomic_load_n(&shadow.was_read, __ATOMIC_RELAXED))
    __atomic_store_n(&shadow.was_read, 1, __ATOMIC_SEQ_CST);
}
// Of a read that stands for the one before it.
inline void keep_earlier(Shadow& shadow, uint64_t grain, Trace before) {
  __atomic_store_n(&shadow.earlier_reads[grain], before.bits, __ATOMIC_RELAXED);
  shadow.earlier_sites[grain] = shadow.read_sites[grain];
}
inline Trace load_trace(const uint64_t* cell) { return {__atomic_load_n(cell, __ATOMIC_RELAXED)}; }
inline void store_trace(uint64_t* cell, Trace trace) {
  __atomic_store_n(cell, trace.bits, __ATOMIC_RELAXED);
}

}  // namespace kw
