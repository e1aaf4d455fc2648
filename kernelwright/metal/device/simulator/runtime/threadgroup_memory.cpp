#include "threadgroup_memory.h"

#include <string.h>

#include "platform.h"

namespace kw {

void ThreadgroupMemory::clear() {
  used = count = 0;
  end = GAP;
  memset(variables, 0, sizeof variables);
  memset(owners, 0, span() / 64);
}

void ThreadgroupMemory::poison(unsigned char byte) { memset(start(), byte, end); }

char* ThreadgroupMemory::allocate(uint32_t id, uint64_t size, uint64_t alignment, uint32_t grain) {
  if (used + size > limit || count + 1 == VARIABLES) return nullptr;
  uint64_t offset = round_up(end, alignment > 64 ? alignment : 64);
  if (offset + size + GAP > span()) return nullptr;
  uint32_t i = id % VARIABLES;
  while (variables[i].address != nullptr) i = (i + 1) % VARIABLES;
  variables[i] = {id, grain, size, start() + offset};
  for (uint64_t block = offset / 64; block <= (offset + size) / 64; block++)
    owners[block] = (uint8_t)(i + 1);
  used += size;
  end = offset + size + GAP;
  count++;
  return start() + offset;
}

const ThreadgroupVariable* ThreadgroupMemory::nearest(uint64_t address) const {
  const ThreadgroupVariable* best = nullptr;
  uint64_t best_distance = ~0ull;
  for (const ThreadgroupVariable& variable : variables) {
    if (variable.address == nullptr) continue;
    uint64_t low = (uint64_t)variable.address, high = low + variable.size;
    uint64_t distance = address < low ? low - address : address >= high ? address - high + 1 : 0;
    if (distance >= best_distance) continue;
    best = &variable;
    best_distance = distance;
  }
  return best;
}

}  // namespace kw
