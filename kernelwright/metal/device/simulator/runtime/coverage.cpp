// What clang's -fsanitize-coverage=trace-pc-guard calls at every basic block, and kw_count.
#include <dlfcn.h>

#include "meter.h"
#include "worker.h"

using namespace kw;

namespace {

struct Module {
  uint32_t* start;
  uint32_t* stop;
  Module* next;
};

pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
Module* modules = nullptr;
constexpr uint32_t MOST_MODULES = 4096;
Module storage[MOST_MODULES];
uint32_t module_count = 0;

}  // namespace

namespace kw {

void hold_modules() { pthread_mutex_lock(&loading); }
void release_modules() { pthread_mutex_unlock(&loading); }

}  // namespace kw

// Numbers the blocks of a library from 1, in the order of its LLVM listing.
KW_EXPORT void __sanitizer_cov_trace_pc_guard_init(uint32_t* start, uint32_t* stop) {
  if (start == stop || *start != 0) return;
  for (uint32_t* guard = start; guard < stop; guard++) *guard = (uint32_t)(guard - start) + 1;
  pthread_mutex_lock(&loading);
  if (module_count < MOST_MODULES) {
    Module* module = &storage[module_count++];
    *module = {start, stop, modules};
    modules = module;
  }
  pthread_mutex_unlock(&loading);
}

// Blocks of the library that a function lies in; 0 when it was not compiled for counting.
KW_EXPORT uint32_t kw_block_count(void* entry) {
  Dl_info mine, other;
  if (!dladdr(entry, &mine)) return 0;
  uint32_t count = 0;
  pthread_mutex_lock(&loading);
  for (Module* module = modules; module != nullptr && count == 0; module = module->next) {
    if (dladdr(module->start, &other) && other.dli_fbase == mine.dli_fbase)
      count = (uint32_t)(module->stop - module->start);
  }
  pthread_mutex_unlock(&loading);
  return count;
}

KW_EXPORT void __sanitizer_cov_trace_pc_guard(uint32_t* guard) {
  Worker* worker = current;
  if (worker == nullptr || worker->meter == nullptr || worker->running == nullptr) return;
  if (!worker->meter->is_on || *guard - 1 >= worker->launch->counting->block_count) return;
  log_run(*worker, *guard - 1);
}

KW_EXPORT void kw_count(kw_uint operation, kw_uint amount) {
  Worker* worker = current;
  if (worker == nullptr || worker->meter == nullptr || !worker->meter->is_on) return;
  worker->meter->tally.operations[operation] += amount;
}
