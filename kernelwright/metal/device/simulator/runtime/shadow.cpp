#include "shadow.h"

namespace kw {

namespace {

void set(Shadow& shadow, uint64_t count, uint64_t bytes) {
  shadow.count = count;
  shadow.bytes = bytes;
  shadow.writes = (uint64_t*)(&shadow + 1);
  shadow.reads = shadow.writes + count;
  shadow.write_sites = (uint32_t*)(shadow.reads + count);
  shadow.read_sites = shadow.write_sites + count;
  shadow.earlier_reads = (uint64_t*)((char*)(&shadow + 1) + count * 2 * sizeof(uint64_t) +
                                     round_up(count * 2 * sizeof(uint32_t), sizeof(uint64_t)));
  shadow.earlier_sites = (uint32_t*)(shadow.earlier_reads + count);
}

}  // namespace

Shadow* make_shadow(uint64_t size, uint32_t grain_shift) {
  const uint64_t count = (size + (1ull << grain_shift) - 1) >> grain_shift;
  const uint64_t cell = 3 * sizeof(uint64_t) + 3 * sizeof(uint32_t);
  const uint64_t bytes = round_up(sizeof(Shadow) + count * cell, page_size());
  char* memory = reserve(bytes);
  if (memory == nullptr) return nullptr;
  if (!commit(memory, bytes)) {
    release(memory, bytes);
    return nullptr;
  }
  prefer_huge_pages(memory, bytes);
  Shadow* shadow = (Shadow*)memory;
  set(*shadow, count, bytes);
  return shadow;
}

void release_shadow(Shadow* shadow) {
  if (shadow != nullptr) release((char*)shadow, shadow->bytes);
}

void clear_shadow(Shadow& shadow) {
  const uint64_t count = shadow.count, bytes = shadow.bytes;
  discard((char*)&shadow, bytes);
  set(shadow, count, bytes);
}

}  // namespace kw
