// Runs kernels that were cut at their waits: each stretch between two waits is a loop over lanes.
#pragma once

#include <stdint.h>

#include "kw/abi.h"

namespace kw {

struct Worker;

// Runs the lanes `from` to `end` of a simdgroup from where they wait to where they wait next;
// next[lane] is the number of that stop, 0 at the end. `first` is the simdgroup's first thread;
// `findings` is for vetted launches, see vet.h.
using Region = void (*)(void* const* buffers, const kw_thread* first, char* frame, uint64_t from,
                        uint64_t end, uint32_t* next, struct Findings* findings);

enum class StopKind : uint32_t { END, SIMDGROUP, SIMDGROUP_BARRIER, BARRIER };

// `wide/widen.py` writes these two into the compiled library.
struct Stop {
  kw_combine combine;
  StopKind kind;
  uint32_t flags;
  uint32_t site;
  uint32_t in_size, out_size;
  // Where a simdgroup's frame holds what the lanes publish, and their results: side by side.
  uint32_t in, out;
  uint32_t padding;
};
struct Wide {
  uint64_t frame_bytes;  // of a simdgroup
  uint64_t region_count;
  const Region* regions;  // region n goes on after stop n; 0 is the beginning
  const Stop* stops;      // stop n is stops[n - 1]
};

// True when lanes of a simdgroup follow each other along x, which the loops rely on.
bool fits_wide(const Worker& worker);
// Makes room for the frames of a threadgroup; false without memory.
bool prepare_wide(Worker& worker);
// Runs every thread of the worker's threadgroup on the running fiber.
void run_wide(Worker& worker);

}  // namespace kw
