// What a kernel does wrong on the machine: faults become failures of the launch.
#pragma once

#include "worker.h"

namespace kw {

// Signal that the watchdog sends to a worker that does not come back.
extern const int WAKE_SIGNAL;

// Handles faults of worker threads until the matching call; others keep their handlers.
void catch_faults();
void leave_faults();
// Of a forked process, in which what ran at the fork does not end.
void forget_faults();
// Leaves signals to the process to threads that the process started itself.
void take_faults_only();
// Gives this worker thread a stack of its own for handlers, since its own may have overflowed.
void use_signal_stack(Worker& worker);

}  // namespace kw
