// From an instrumented access to the sanitizer or the counters.
#pragma once

#include "access.h"
#include "meter.h"
#include "usual.h"

namespace kw {

[[gnu::noinline]] inline void judge(Worker& worker, uint64_t address, uint32_t size, uint32_t kind,
                                    uint64_t pc) {
  check_access(worker, {address, size, kind, pc});
}

KW_INLINE void see(const void* address, uint32_t size, uint32_t kind, uint64_t pc) {
  Worker* worker = current;
  // Constructors of the library run outside any launch.
  if (worker == nullptr || worker->running == nullptr || size == 0) return;
  if (worker->sanitizes) {
    if (!is_usual(*worker, {(uint64_t)address, size, kind, pc}))
      judge(*worker, (uint64_t)address, size, kind, pc);
  } else if (worker->meter != nullptr && worker->meter->is_on) {
    const bool is_kernels = !owns(*worker, (uint64_t)address) ||
                            worker->memory.contains((uint64_t)address);
    if (is_kernels) log_access(*worker, address, size, kind, pc);
  }
}

}  // namespace kw
