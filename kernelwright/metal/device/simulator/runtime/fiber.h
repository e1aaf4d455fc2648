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

// The scheduler needs the first cache line only.
struct alignas(64) Fiber {
  void* stack_pointer;
  Simdgroup* simdgroup;
  uint32_t stack;      // index in the worker's stacks, NO_STACK unless it has started
  uint32_t lane;
  uint32_t wait_site;  // line and column of the operation that it waits in
  kw_combine wait_combine;
  uint64_t wait_pc;    // the same place, as an address
  uint64_t instance;   // of a sanitizing build: which dynamic instance of it, see instance.py
  uint64_t shape;      // of the threadgroup that `context` was made for
  alignas(64) kw_thread context;
};

constexpr uint32_t NO_STACK = ~0u;

inline uint32_t bit(uint32_t i) { return 1u << i; }

// An operation that some lanes have passed without others that might still come to it.
struct Passed {
  uint64_t instance;
  uint32_t site;
  uint32_t together, missing;  // lanes
};
constexpr uint32_t MOST_PASSED = 64;  // the latest of a simdgroup are kept

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
  // What the lanes in at_simd wait for; `differs` once they do not all wait for the same.
  kw_combine combine;
  uint32_t site;
  uint64_t instance;
  uint32_t flags;       // of the simdgroup barrier: the memories that it orders
  bool differs;
  uint32_t passed_count;  // of a sanitizing launch
  Passed passed[MOST_PASSED];
  alignas(64) unsigned char in[KW_SIMD_WIDTH * KW_SLOT_BYTES];
  alignas(64) unsigned char out[KW_SIMD_WIDTH * KW_SLOT_BYTES];
};

}  // namespace kw
