#include "shadow.h"

namespace kw {

namespace {

void lay_out(Shadow& shadow) {
  char* place = (char*)&shadow + sizeof(Shadow);
  shadow.writes = (uint64_t*)place;
  shadow.reads = shadow.writes + shadow.count;
  shadow.write_sites = (uint32_t*)(shadow.reads + shadow.count);
  shadow.read_sites = shadow.write_sites + shadow.count;
}

}  // namespace

Shadow* make_shadow(uint64_t size, uint32_t grain_shift) {
  const uint64_t count = (size + (1ull << grain_shift) - 1) >> grain_shift;
  const uint64_t cell = 2 * sizeof(uint64_t) + 2 * sizeof(uint32_t);
  const uint64_t bytes = round_up(sizeof(Shadow) + count * cell, page_size());
  char* memory = reserve(bytes);
  if (memory == nullptr) return nullptr;
  if (!commit(memory, bytes)) {
    release(memory, bytes);
    return nullptr;
  }
  Shadow* shadow = (Shadow*)memory;
  shadow->count = count;
  shadow->bytes = bytes;
  lay_out(*shadow);
  return shadow;
}

void release_shadow(Shadow* shadow) {
  if (shadow != nullptr) release((char*)shadow, shadow->bytes);
}

void clear_shadow(Shadow& shadow) {
  const uint64_t count = shadow.count, bytes = shadow.bytes;
  discard((char*)&shadow, bytes);
  shadow.count = count;
  shadow.bytes = bytes;
  lay_out(shadow);
}

}  // namespace kw
