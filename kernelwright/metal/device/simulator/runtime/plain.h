// Runs kernels whose threads never wait for each other: one loop, no switch.
#pragma once

#include "worker.h"

namespace kw {

// Runs every thread of the worker's threadgroup, one after another, on the running fiber.
void run_in_order(Worker& worker);
// Runs `body` on a fiber of its own, from outside of any.
void run_alone(Worker& worker, void (*body)(Worker&));

}  // namespace kw
