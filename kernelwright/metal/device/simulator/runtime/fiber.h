// One GPU thread: its attributes, and where it stopped.
#pragma once

#include <stdint.h>

#include "kw/abi.h"

extern "C" void kw_switch(void** save, void* resume);

namespace kw {

struct Simdgroup;

// Usable bytes of a fiber's stack, and the address space a stack takes; what lies between is
// never committed, so an overflow faults instead of spoiling a neighbour.
constexpr uint64_t STACK_BYTES = 64 * 1024;
constexpr uint64_t STACK_STRIDE = 128 * 1024;

// Of the path to a place: for each call on the way the loops around it, from the outermost on, with
// their rounds, then the place within them. path.py says how they are written.
constexpr uint32_t MOST_PARTS = 16;

// The scheduler needs the first cache line only, in which the first parts of the path are.
struct alignas(64) Fiber {
  void* stack_pointer;
  Simdgroup* simdgroup;
  uint32_t stack;      // index in the worker's stacks, NO_STACK unless it has started
  uint32_t lane;
  uint32_t wait_site;  // line and column of the operation that it waits in
  uint32_t parts;      // of the path to it; 0 where the build tells none
  kw_combine wait_combine;
  uint64_t* path_end;  // while it waits: behind the last part that it has written
  uint64_t path[MOST_PARTS];
  uint64_t wait_pc;    // of a sanitizing launch: the operation that it waits in, as an address
  uint64_t shape;      // of the threadgroup that `context` was made for
  uint64_t instance;   // of a vetting build, see instance.py
  alignas(64) kw_thread context;
};

constexpr uint32_t NO_STACK = ~0u;

inline uint32_t bit(uint32_t i) { return 1u << i; }

// The lanes of one simdgroup as bit masks, and the slots of its operations.
struct alignas(64) Simdgroup {
  uint32_t present;     // lanes that the ragged edge left
  uint32_t live;        // not returned yet
  uint32_t ready;       // can run now
  uint32_t paused;      // wait for the other lanes to stop too; only while counting
  uint32_t at_simd;     // wait in a simdgroup operation or simdgroup barrier
  uint32_t at_barrier;  // wait in a threadgroup barrier
  uint32_t index;
  // Simdgroup barriers passed that order the lanes' accesses to each memory.
  uint32_t device_epoch, threadgroup_epoch;
  // One of the lanes in at_simd; `differs` once they do not all wait for the same.
  const Fiber* first;
  uint32_t flags;       // of the simdgroup barrier: the memories that it orders
  bool differs;
  alignas(64) unsigned char in[KW_SIMD_WIDTH * KW_SLOT_BYTES];
  alignas(64) unsigned char out[KW_SIMD_WIDTH * KW_SLOT_BYTES];
};

}  // namespace kw
