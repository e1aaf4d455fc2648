// The stacks that fibers run on.
#pragma once

#include "worker.h"

namespace kw {

// Gives a fiber one of the worker's free stacks, from which it will start in `body`.
void give_stack(Worker& worker, Fiber& fiber, void (*body)());
// Every stack is free again; what ran on them is gone.
void free_stacks(Worker& worker);
// Leaves the running fiber for good and continues the worker, from anywhere in the fiber.
[[noreturn]] void abandon(Worker& worker);

}  // namespace kw
