// The threadgroup memory of one worker: where each variable of the running kernel lies.
#pragma once

#include <stdint.h>

namespace kw {

struct ThreadgroupVariable {
  uint32_t id;
  uint32_t grain;  // bytes that the sanitizer tracks as one
  uint64_t size;
  char* address;  // null in an empty slot
};

struct ThreadgroupMemory {
  // What a threadgroup has on any GPU: MOST_THREADGROUP_BYTES of threadgroup_memory.py.
  static constexpr uint64_t MOST = 227 * 1024;
  // Poisoned bytes between variables, so that running off one does not look like another.
  static constexpr uint64_t GAP = 256;
  static constexpr uint32_t VARIABLES = 128;
  static constexpr uint64_t GAPS = (VARIABLES + 2) * (GAP + 64);
  // An index that is a little out stays inside these margins.
  static constexpr uint64_t MARGIN = 32 * 1024;
  static constexpr uint64_t BYTES = MARGIN + MOST + GAPS + MARGIN;
  // Threadgroup arguments have ids from here on.
  static constexpr uint32_t FIRST_ARGUMENT = 1u << 31;

  char* base;
  uint64_t limit;      // bytes that a threadgroup of this launch may take
  uint64_t used;       // bytes of variables, without gaps
  uint64_t end;        // offset from start() of the first byte not given away
  uint32_t count;
  ThreadgroupVariable variables[VARIABLES];
  // For each 64 bytes the variable that lies there, plus one: they are aligned to 64 and apart.
  uint8_t owners[(MOST + GAPS) / 64];

  char* start() const { return base + MARGIN; }
  uint64_t span() const { return limit + GAPS; }
  bool contains(uint64_t address) const { return address - (uint64_t)base < BYTES; }

  void clear();
  // Fills what the variables and gaps occupy; a threadgroup finds nothing of the one before.
  void poison(unsigned char byte);
  // The place of a variable, made on first use; null beyond the limit.
  char* allocate(uint32_t id, uint64_t size, uint64_t alignment, uint32_t grain);

  char* find(uint32_t id, uint64_t size) const {
    for (uint32_t i = id % VARIABLES; variables[i].address != nullptr; i = (i + 1) % VARIABLES) {
      if (variables[i].id == id && variables[i].size == size) return variables[i].address;
    }
    return nullptr;
  }

  // The variable whose 64-byte blocks hold the address; null in a gap or margin.
  const ThreadgroupVariable* owner(uint64_t address) const {
    const uint64_t offset = address - (uint64_t)start();
    if (offset >= span() || owners[offset / 64] == 0) return nullptr;
    return &variables[owners[offset / 64] - 1];
  }
  // The variable that an address is nearest to; null when there is none.
  const ThreadgroupVariable* nearest(uint64_t address) const;
};

}  // namespace kw
