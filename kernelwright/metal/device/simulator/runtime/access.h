// Judges one memory access of a sanitizing launch.
#pragma once

#include "worker.h"

namespace kw {

enum AccessKind : uint32_t { READ = 1, WRITE = 2, ATOMIC = 4 };

struct Access {
  uint64_t address;
  uint32_t size;
  uint32_t kind;  // bits of AccessKind
  uint64_t pc;
};

// Reports what is wrong with an access that is about to happen. Does not return when the access
// would hurt the process.
void check_access(Worker& worker, const Access& access);
// Tells whether the worker's last conflicting write changed memory.
void settle(Worker& worker);
// Reports outputs that no thread has written; after the launch.
void report_unwritten(Launch& launch);

}  // namespace kw
