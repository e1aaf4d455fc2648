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
  uint32_t missed;  // that those together read, and that are not among them
};
void report_divergent_simd(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                           const Meeting& meeting);
void report_lane_beyond(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                        uint32_t together);
void report_missing_at_barrier(Worker& worker);
void report_barrier_sites(Worker& worker);

inline void observe_divergent_simd(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                                   const Meeting& meeting) {
  if (sanitizes(worker)) report_divergent_simd(worker, simdgroup, first, meeting);
}

// An operation has been performed, perhaps with lanes that read what is not there.
inline void observe_missed_lanes(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                                 uint32_t together) {
  const uint32_t missed = worker.missed_lanes & simdgroup.present;
  if (missed != 0)
    observe_divergent_simd(worker, simdgroup, first, {together, 0, missed});
  else if (worker.readers != 0)
    report_lane_beyond(worker, simdgroup, first, together);
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
