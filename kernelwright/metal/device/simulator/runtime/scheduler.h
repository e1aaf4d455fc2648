// Runs the threads of one threadgroup, and decides who runs next.
#pragma once

#include "worker.h"

namespace kw {

// Bits of a barrier's flags: Metal's mem_flags::mem_device and mem_threadgroup.
constexpr uint32_t ORDERS_DEVICE = 1, ORDERS_THREADGROUP = 2;

// Grows from line to line of the text, and with the column.
inline uint64_t order_in_text(uint32_t site) { return (uint64_t)(site & KW_LINES) << 32 | site; }

// Runs every thread of the worker's threadgroup as a fiber, until all have returned.
void run_fibers(Worker& worker);
// Parks the running fiber, which has noted what it waits for, until it is ready again.
void wait(Worker& worker, Fiber& fiber);
// Parks the running fiber until every other lane of its simdgroup has stopped somewhere.
void pause(Worker& worker);
// Computes the results of a simdgroup operation.
void perform(Worker& worker, Simdgroup& simdgroup, kw_combine combine, uint32_t lanes);
// Counts a simdgroup barrier that all its lanes have come to.
void pass_barrier(Simdgroup& simdgroup);
// Lets every thread that waits in the threadgroup barrier go on.
void release_barrier(Worker& worker, uint32_t flags);

}  // namespace kw
