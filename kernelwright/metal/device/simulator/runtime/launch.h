// One launch as Python asks for it, and what the worker threads share while it runs.
#pragma once

#include <stdint.h>

#include "kw/abi.h"

namespace kw {

using Entry = void (*)(void* const* buffers, const kw_thread* thread);
using Row = void (*)(void* const* buffers, const kw_thread* thread, kw_uint count);

constexpr uint32_t MAXIMUM_BUFFERS = 64;
constexpr uint32_t MAXIMUM_ARGUMENTS = 32;
constexpr uint32_t MAXIMUM_THREADS = 1024;
constexpr uint32_t MAXIMUM_SIMDGROUPS = MAXIMUM_THREADS / KW_SIMD_WIDTH;

// The records below cross to Python; `native.py` declares the same layouts.

struct Buffer {
  char* data;
  uint64_t size;
  uint32_t itemsize;
  uint32_t writable;
  uint32_t initialised;  // 0 for a fresh output
  uint32_t element;      // bytes of what the text's pointer points to; 0 where it has no padding
  const unsigned char* taken;  // of an element's bytes, whether a member takes each
};

struct Argument {
  uint64_t size;
  uint64_t itemsize;
};

// One build of the kernel.
struct Code {
  Entry entry;
  Row row;  // may be null
  const struct Wide* wide;  // may be null
  const struct Vet* vet;  // may be null
  uint32_t waits;  // 0: no barrier or simdgroup operation can be reached
  uint32_t padding;
};

struct BlockRecord;
struct BlockTally;
struct SiteTally;
struct Reports;
struct Tally;

struct Request {
  Code code;
  Code uncounted;  // of a counting launch: runs the threadgroups that are not counted
  const Buffer* buffers;
  const Argument* arguments;
  uint32_t buffer_count, argument_count;
  kw_uint3 grid, threadgroup;
  uint32_t workers;
  uint32_t sanitizes, counts;
  uint32_t poison;
  uint32_t vets;  // see vet.h
  uint32_t sample;  // a counting launch counts one threadgroup of so many
  uint64_t order_seed;
  uint64_t threadgroup_bytes;  // the most that a threadgroup may take
  Reports* reports;  // zeroed; null unless sanitizing
  Tally* tally;      // zeroed; null unless counting
  BlockTally* blocks;
  uint64_t block_count;
  const BlockRecord* block_records;  // block_count of them
  SiteTally* sites;            // SITES of them, zeroed; null unless counting
  uint64_t sample_seed;        // draws the threadgroups that a counting launch counts
  // Units that a metered launch and one threadgroup of it may spend, see work.h; 0 elsewhere.
  uint64_t work_limit, group_work_limit;
  // Variables and threads in which what is not set holds a word, see unset.cpp.
  uint64_t unset_thread, unset_threads;
  uint32_t unset_first, unset_count, unset_word;
  uint32_t tracks_bytes;  // of threadgroup memory, each alone, not the elements of variables
  uint32_t fences;  // what becomes of the arrays that are written, see fence.h
  uint32_t padding;
};

enum Failure : uint32_t {
  NONE,
  TIMEOUT,
  STACK_OVERFLOW,
  INVALID_ADDRESS,
  ILLEGAL_INSTRUCTION,
  THREADGROUP_MEMORY,
  NO_MEMORY,
  PROTECTION,
  SUSPICION,  // of a vetted launch: the sanitizer should look at it
  WORK,       // of a metered launch: it does more than it may
  PART,       // of a sanitized launch: an access is to a part of what is tracked as one
  STRAY_WRITE,  // beside the array whose place is the address
  PARTED,       // of a launch that runs lanes in loops: they wait at different places
};

struct Outcome {
  uint64_t failure;
  uint64_t pc;       // where it failed, relative to the library's load address
  uint64_t address;  // that could not be accessed
  kw_uint3 thread;   // position in grid
  double elapsed_s;
  uint64_t work;   // of a metered launch, its units
  uint64_t waits;  // of threads on fibers
};

struct Arena;
struct Counting;
struct Fencing;
struct Vetting;

struct Launch {
  Request request;
  kw_uint3 groups;
  uint64_t group_count;
  uint64_t group_batch;  // threadgroups that a worker takes at a time
  uint64_t next_group;   // atomic
  uint64_t work;         // atomic; units that a metered launch has taken, see work.h
  uint32_t stop;         // atomic; not zero once the launch must end
  uint32_t failed;       // atomic; the first failure writes the outcome
  Outcome outcome;
  uint64_t module_low;  // load address of the kernel's library
  Arena* arena;         // of a sanitizing launch, else null
  Reports* reports;     // null unless sanitizing
  Counting* counting;   // null unless counting
  Vetting* vetting;     // null unless vetted
  Fencing* fencing;     // null where arrays are written in place
  uint8_t* fenced;      // atomic; of a sanitizing launch, a bit for each threadgroup that has fenced
};

struct Worker;

// Of a forked process: the launch of another thread, which ran at the fork, does not end.
void forget_launch();
bool stops(const Launch& launch);
// Ends the launch; the first caller's failure is the one that is told.
void fail(Launch& launch, Failure failure, uint64_t pc, uint64_t address, const Worker* worker);

}  // namespace kw
