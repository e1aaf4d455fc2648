// Integer division by zero does not trap on a GPU, so it must not here.
#pragma once

#include <signal.h>

namespace kw {

// Steps over the division that raised SIGFPE with 0 as its result, as AArch64 divides; false when
// the instruction is not one.
bool skip_division(ucontext_t* context);

}  // namespace kw
