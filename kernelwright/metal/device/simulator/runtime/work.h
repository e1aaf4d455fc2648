// What a metered launch has done, counted in units that are the same on every machine: one for a
// back edge of a loop, more for what the runtime does for a thread.
#pragma once

#include "worker.h"

namespace kw {

constexpr int64_t WAIT_UNITS = 16;
constexpr int64_t THREAD_UNITS = 4;

// Takes the next threadgroup's units from an account of its own, so that where it is refused does
// not depend on what its worker has run before.
void open_account(Worker& worker);
// Adds what the threadgroup has done to the launch's.
void close_account(Worker& worker);

void spend_metered(int64_t units);
// Counts units of a metered launch. Where too many have been spent the launch ends here.
inline void spend(const Worker& worker, int64_t units) {
  if (worker.launch->request.work_limit != 0) spend_metered(units);
}

}  // namespace kw
