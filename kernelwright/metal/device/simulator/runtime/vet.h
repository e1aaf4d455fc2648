// Vetted launches: every access is watched while lanes run in loops, by code that can only say that
// something might be wrong. Most launches are right, and the sanitizer need not look at those.
#pragma once

#include <stdint.h>

#include "launch.h"
#include "wide.h"

namespace kw {

// `wide/widen.py` writes these two into the compiled library.
struct Tracked {
  uint32_t slot;  // among Findings::tracks
  uint32_t id, size, alignment;  // of a threadgroup variable
  uint32_t grain;  // bytes that one trace stands for
  uint32_t scale;  // log2 of a trace's offset over that of its grain; they are 4 bytes or more apart
  uint32_t is_read, is_written;
};
struct Vet {
  Wide wide;
  uint64_t lanes;  // that one call of a region may run, where nothing waits
  uint64_t count;
  const Tracked* tracked;
};

constexpr uint32_t MOST_VARIABLES = 32;
constexpr uint32_t FIRST_VARIABLE = MAXIMUM_BUFFERS + MAXIMUM_ARGUMENTS;

// A buffer, a threadgroup argument or a variable. A trace is the tag of the thread that came last;
// tags of threadgroup memory are new in each phase between two barriers, all are new in each launch.
struct Track {
  char* base;
  uint64_t size;
  char* writes;  // the traces of its first grain
  char* reads;
  const uint32_t* tag;    // of the first lane
  uint32_t lowest, span;  // a grain that is read has a writer's tag in lowest .. lowest + span
  // How often a trace was found to be another's, or nobody's. When as many traces are left behind,
  // every grain was one thread's own: lanes that meet in one grain count it more than once,
  // whatever the order in which they come.
  uint64_t write_claims, read_claims;
};

// What the compiled code reads and writes; vetting.py has the same layout.
struct Findings {
  uint32_t is_suspicious;
  uint32_t padding;
  // Bits of the instances of the waits that lanes have come to: of some lane, and of each.
  uint64_t instance_of_some, instance_of_each;
  uint64_t filling;
  Track tracks[FIRST_VARIABLE + MOST_VARIABLES];
};

// One worker's part; kept between launches.
struct Examiner {
  Findings findings;
  uint32_t device_tag, threadgroup_tag;  // of the first lane of what runs
  uint32_t phase;        // tag of the threadgroup's first thread since its last barrier
  uint32_t first_phase;  // of the threadgroup
  char *writes, *reads;  // traces of threadgroup memory
};

struct Worker;

// What the workers of a vetted launch share.
struct Vetting {
  const Vet* vet;
  uint32_t first_tag;  // of the grid's first thread
  uint32_t tags;
  bool is_copied[MAXIMUM_BUFFERS];
  char* data[MAXIMUM_BUFFERS];  // where the kernel finds each buffer
};

// False where there is no memory, or where the kernel cannot pass.
bool open_vetting(Vetting& vetting, const Request& request);
bool prepare_examiner(Worker& worker);
// Runs every thread of the worker's threadgroup on the running fiber.
void run_vetted(Worker& worker);
// Looks at what all workers have found; false when something might be wrong. Else the buffers get
// what the kernel has left.
bool conclude(const Vetting& vetting, const Request& request, Worker* const* workers,
              uint32_t count);
// Gives back what the next vetted launch should not find.
void close_vetting();

}  // namespace kw
