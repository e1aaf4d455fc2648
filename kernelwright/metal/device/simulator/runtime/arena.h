// Device memory of a sanitizing launch: every buffer alone in a wide range of addresses.
#pragma once

#include <stdint.h>

#include "launch.h"

namespace kw {

struct Shadow;

// One buffer's slot of the arena. All slots have one power-of-two size, so an address names its
// slot by a shift, and an index that is gigabytes out still names the buffer it was meant for.
struct Slot {
  char* start;
  uint64_t size;
  uint32_t grain_shift;  // log2 of the bytes that the shadow tracks as one
  bool writable;
  bool initialised;
  uint32_t element;  // as in Buffer
  const unsigned char* taken;
  Shadow* shadow;  // of a writable buffer, else null
};

constexpr uint32_t MOST_RED_PAGES = 4096;

struct Arena {
  char* base;
  uint64_t size;
  uint32_t slot_shift;
  uint32_t count;
  uint32_t red_count;  // atomic; pages of red zones that stray accesses made real
  // Their addresses, found by hashing; atomic, 0 where there is none.
  uint64_t red_pages[2 * MOST_RED_PAGES];
  Slot slots[MAXIMUM_BUFFERS];

  bool contains(uint64_t address) const { return address - (uint64_t)base < size; }
  Slot& slot_of(uint64_t address) { return slots[(address - (uint64_t)base) >> slot_shift]; }
};

// Reserves the arena and copies the buffers in; false without memory.
bool open_arena(Arena& arena, const Request& request);
// Copies what may be written back out.
void copy_out(Arena& arena, const Request& request);
void close_arena(Arena& arena);
// Lets an access to a red zone happen, where it hurts nobody; false when there were too many.
bool commit_red_zone(Arena& arena, uint64_t address, uint64_t size, uint32_t poison);

}  // namespace kw
