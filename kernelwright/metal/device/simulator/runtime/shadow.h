// Who last read and wrote each grain of memory, and whether a barrier lies between.
#pragma once

#include <stdint.h>

#include "worker.h"

namespace kw {

// One access in 64 bits, so that worker threads exchange them without tearing; 0 is none.
//
//   group 28 | thread + 1 11 | phase 16 | epoch 6 | several 1 | part 1 | atomic 1
//
// phase counts threadgroup barriers that order this kind of memory, epoch the simdgroup's own.
// Both wrap: after exactly 2^16 barriers without another access a race would go unseen.
struct Trace {
  uint64_t bits;

  static constexpr uint64_t SEVERAL = 4, PART = 2, ATOMIC = 1, FLAGS = 7;

  bool exists() const { return bits != 0; }
  uint32_t group() const { return (uint32_t)(bits >> 36); }
  uint32_t thread() const { return ((uint32_t)(bits >> 25) & 0x7ff) - 1; }
  uint32_t phase() const { return (uint32_t)(bits >> 9) & 0xffff; }
  uint32_t epoch() const { return (uint32_t)(bits >> 3) & 0x3f; }
  bool has(uint64_t flag) const { return (bits & flag) != 0; }
};

constexpr uint64_t GROUP_MASK = (1u << 28) - 1;

inline Trace trace_of(uint64_t group, uint32_t thread, uint32_t phase, uint32_t epoch,
                      uint64_t flags) {
  return {(group & GROUP_MASK) << 36 | (uint64_t)(thread + 1) << 25 |
          (uint64_t)(phase & 0xffff) << 9 | (epoch & 0x3f) << 3 | flags};
}

inline Trace trace_now(const Worker& worker, uint32_t phase, uint64_t flags) {
  const Fiber& fiber = *worker.running;
  return trace_of(worker.group, fiber.context.index_in_threadgroup, phase, fiber.simdgroup->epoch,
                  flags);
}

inline bool is_same_place(Trace a, Trace b) { return ((a.bits ^ b.bits) & ~Trace::FLAGS) == 0; }

// log2 of the bytes that are tracked as one in memory of such elements.
inline uint32_t grain_shift_of(uint32_t itemsize) {
  return itemsize >= 4 ? 2 : itemsize >= 2 ? 1 : 0;
}

// True when nothing orders an earlier access before one that `now` describes.
inline bool concurrent(Trace before, Trace now) {
  if (before.group() != now.group()) return true;
  if (before.phase() != now.phase()) return false;
  if (before.thread() / KW_SIMD_WIDTH != now.thread() / KW_SIMD_WIDTH) return true;
  if (before.epoch() != now.epoch()) return false;
  return before.thread() != now.thread() || before.has(Trace::SEVERAL);
}

// The last write and read of every grain, with the place in the code of each. In arrays of their
// own: most outputs are never read, and what nobody reads costs no memory then.
struct Shadow {
  uint64_t count;
  uint64_t* writes;
  uint64_t* reads;
  uint32_t* write_sites;
  uint32_t* read_sites;
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
inline Trace load_trace(const uint64_t* cell) { return {__atomic_load_n(cell, __ATOMIC_RELAXED)}; }
inline void store_trace(uint64_t* cell, Trace trace) {
  __atomic_store_n(cell, trace.bits, __ATOMIC_RELAXED);
}

}  // namespace kw
