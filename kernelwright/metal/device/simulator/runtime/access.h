// Judges one memory access of a sanitizing launch.
#pragma once

#include "worker.h"

namespace kw {

// ALIGNED: the access's type promises that its address is a multiple of its size, or of 8.
enum AccessKind : uint32_t { READ = 1, WRITE = 2, ATOMIC = 4, ALIGNED = 8 };

struct Access {
  uint64_t address;
  uint32_t size;
  uint32_t kind;  // bits of AccessKind
  uint64_t pc;
};

// Reports what is wrong with an access that is about to happen. Does not return when the access
// would hurt the process.
void check_access(Worker& worker, const Access& access);
// Reports that the worker's last access was not aligned as its machine instruction needs.
void report_misaligned(Worker& worker, const Access& access, uint32_t alignment);
// Reports an access so far beside a thread's own array that it had to be stopped.
void report_beyond_own(Worker& worker, uint64_t pc);
// Tells whether the worker's last conflicting write changed memory.
void settle(Worker& worker);
// Reports outputs that no thread has written; after the launch.
void report_unwritten(Launch& launch);

}  // namespace kw
