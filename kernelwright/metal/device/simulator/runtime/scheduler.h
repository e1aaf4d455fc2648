// Runs the threads of one threadgroup, and decides who runs next.
#pragma once

#include "worker.h"

extern "C" thread_local uint64_t* kw_path_end KW_TLS;

namespace kw {

// Bits of a barrier's flags: Metal's mem_flags::mem_device and mem_threadgroup.
constexpr uint32_t ORDERS_DEVICE = 1, ORDERS_THREADGROUP = 2;

// Grows from line to line of the text, and with the column.
inline uint64_t order_in_text(uint32_t site) { return (uint64_t)(site & KW_LINES) << 32 | site; }

// Whether two fibers wait at one place, in the same rounds of the loops around it and by the same calls.
inline bool wait_together(const Fiber& a, const Fiber& b) {
  if (a.wait_site != b.wait_site || a.wait_combine != b.wait_combine || a.parts != b.parts) return false;
  uint64_t differs = 0;
  for (uint32_t i = 0; i < a.parts; i++) differs |= a.path[i] ^ b.path[i];
  return differs == 0;
}
// Notes by which path the running fiber has come to where it waits.
inline void note_path(Fiber& fiber) { fiber.parts = (uint32_t)(kw_path_end - fiber.path); }

// Runs every thread of the worker's threadgroup as a fiber, until all have returned.
void run_fibers(Worker& worker);
// Parks the running fiber, which has noted what it waits for, until it is ready again.
void wait(Worker& worker, Fiber& fiber);
// Parks the running fiber until every other lane of its simdgroup has stopped somewhere.
void pause(Worker& worker);
// Computes the results of the simdgroup operation that `first` and other lanes wait in. It is told
// where one of them reads a lane that takes no part, which Metal leaves undefined.
void perform(Worker& worker, Simdgroup& simdgroup, const Fiber& first, uint32_t lanes);
// Counts a simdgroup barrier that all its lanes have come to.
void pass_barrier(Simdgroup& simdgroup);
// Lets every thread that waits in the threadgroup barrier go on.
void release_barrier(Worker& worker, uint32_t flags);

}  // namespace kw
