// From an instrumented access to the sanitizer or the counters.
#pragma once

#include "access.h"
#include "meter.h"

namespace kw {

inline void see(const void* address, uint32_t size, uint32_t kind, uint64_t pc) {
  Worker* worker = current;
  // Constructors of the library run outside any launch.
  if (worker == nullptr || worker->running == nullptr || size == 0) return;
  if (worker->meter != nullptr) {
    const bool is_kernels = !owns(*worker, (uint64_t)address) ||
                            worker->memory.contains((uint64_t)address);
    if (worker->meter->is_on && is_kernels) log_access(*worker, address, size, kind, pc);
  } else if (worker->launch->arena != nullptr) {
    check_access(*worker, {(uint64_t)address, size, kind, pc});
  }
}

}  // namespace kw
