// Memory for arrays, each alone in a wide range of addresses, and copies that launches write there.
#pragma once

#include "launch.h"

namespace kw {

struct Fence {
  char* base;
  uint64_t span;
};

// Zeroed bytes, a multiple of the page; null without memory. The place is drawn: 0 leaves it to the
// system, which puts one array below the other.
char* make_fence(uint64_t size, uint64_t drawn, Fence& fence);
void drop_fence(const Fence& fence);

// What a launch does to the arrays that it writes.
enum Fences : uint32_t {
  IN_PLACE,
  COPIED,     // it writes copies behind fences, which come back when nothing is wrong
  DISCARDED,  // they never do
};

struct Pen;

// The copies of one launch.
struct Fencing {
  Buffer buffers[MAXIMUM_BUFFERS];
  Pen* pens[MAXIMUM_BUFFERS];  // null for arrays that are used in place
};

// Replaces the arrays that a launch writes by copies; false without memory.
bool open_fencing(Fencing& fencing, Request& request);
// The place of an array beside which a launch has written, counted from 1; 0 where there is none.
uint32_t find_stray_write(const Fencing& fencing, const Request& request);
// Gives the copies back, and what they hold to the caller's own arrays where `keeps`.
void close_fencing(Fencing& fencing, const Buffer* own, uint32_t count, bool keeps);

// Of a fork: nobody is at the kept memory meanwhile.
void hold_pens();
void release_pens();

}  // namespace kw
