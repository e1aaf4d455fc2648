// From an instrumented access to the sanitizer or the counters.
#pragma once

#include "access.h"

namespace kw {

inline void see(const void* address, uint32_t size, uint32_t kind, uint64_t pc) {
  Worker* worker = current;
  // Constructors of the library run outside any launch.
  if (worker == nullptr || worker->running == nullptr || size == 0) return;
  if (worker->launch->arena != nullptr)
    check_access(*worker, {(uint64_t)address, size, kind, pc});
}

}  // namespace kw
