// What the scheduler tells the sanitizer and the counters; nothing in a plain launch.
#pragma once

#include "access.h"

namespace kw {

inline bool sanitizes(const Worker& worker) { return worker.launch->request.sanitizes != 0; }

// divergence.cpp
// Lanes that wait for one operation.
struct Meeting {
  uint32_t together;
  uint32_t astray;  // at the same place, in another round of a loop or by another call
  uint32_t missed;  // that those together need
};
void report_divergent_simd(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                           const Meeting& meeting);
void report_late_lane(Worker& worker, const Fiber& fiber, const Passed& passed);
void report_missing_at_barrier(Worker& worker);
void report_barrier_sites(Worker& worker);

inline void observe_divergent_simd(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                                   const Meeting& meeting) {
  if (sanitizes(worker)) report_divergent_simd(worker, simdgroup, first, meeting);
}

// Lanes perform an operation that Metal defines without the others, unless these come to it as well:
// on a GPU they might have joined them.
inline void observe_parted_lanes(Worker& worker, Simdgroup& simdgroup, const Fiber& first,
                                 uint32_t together) {
  const uint32_t missing = simdgroup.live & ~together;
  if (!sanitizes(worker) || missing == 0) return;
  simdgroup.passed[simdgroup.passed_count++ % MOST_PASSED] = {first.instance, first.wait_site,
                                                              together, missing};
}

inline void observe_late_lane(Worker& worker, const Fiber& fiber) {
  const Simdgroup& simdgroup = *fiber.simdgroup;
  const uint32_t count = simdgroup.passed_count;
  for (uint32_t i = 0; i < (count < MOST_PASSED ? count : MOST_PASSED); i++) {
    const Passed& passed = simdgroup.passed[i];
    if (passed.instance == fiber.instance && passed.site == fiber.wait_site &&
        passed.missing & bit(fiber.lane))
      report_late_lane(worker, fiber, passed);
  }
}

// Every live thread waits in a barrier that the others have left for good.
inline void observe_divergent_barrier(Worker& worker) {
  if (sanitizes(worker)) report_missing_at_barrier(worker);
}

// Every thread of the threadgroup has arrived, though perhaps at different barriers.
inline void observe_barrier_sites(Worker& worker) {
  if (sanitizes(worker)) report_barrier_sites(worker);
}

// The running thread is about to wait, or has returned: its last write has happened.
inline void observe_pause(Worker& worker) {
  if (worker.pending.size != 0) settle(worker);
}

inline void observe_barrier(Worker& worker) { observe_pause(worker); }
inline void observe_simd(Worker& worker) { observe_pause(worker); }
inline void observe_simdgroup_barrier(Worker& worker) { observe_pause(worker); }
inline void observe_return(Worker& worker, Fiber&) { observe_pause(worker); }

}  // namespace kw
