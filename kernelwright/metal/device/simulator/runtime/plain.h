// Runs kernels whose threads never wait for each other: one loop, no switch.
#pragma once

#include "worker.h"

namespace kw {

// Runs every thread of the worker's threadgroup, one after another.
void run_in_order(Worker& worker);

}  // namespace kw
