// Memory for one array, alone in a wide range of addresses: an index that strays finds nothing to
// harm there, neither another array nor the process itself.
#include "platform.h"

using namespace kw;

namespace {

// Half of it on either side: a 32-bit index of 4-byte elements stays within it.
constexpr uint64_t WIDEST = 32ull << 30;
constexpr uint64_t STEPS = 61;
// Of a process with 47 bits of addresses, which x86-64 and arm64 have, the quarter that neither
// programs nor libraries are loaded into; elsewhere the system takes another place.
constexpr uint64_t FIRST_PLACE = 1ull << 44;
constexpr uint64_t PLACES = (1ull << 45) / (2 * WIDEST);

// Arrays are gone through side by side. Where they begin at one distance from a large power of two,
// their addresses are alike in all bits that a cache looks at first.
uint64_t next_skew() {
  static uint64_t count = 0;
  return __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) * 13 % STEPS * page_size();
}

}  // namespace

struct Fence {
  char* base;
  uint64_t span;
};

// Makes `size` bytes of zeroed memory, a multiple of the page; null without memory. The place is
// drawn: 0 leaves it to the system, which puts one array below the other.
KW_EXPORT char* kw_fence(uint64_t size, uint64_t drawn, Fence* fence) {
  const uint64_t wanted = drawn == 0 ? 0 : FIRST_PLACE + drawn % PLACES * 2 * WIDEST;
  const uint64_t least = 2 * STEPS * page_size();
  // A limit on address space (ulimit -v) leaves narrower ranges.
  for (uint64_t margins = WIDEST; margins >= least; margins /= 2) {
    *fence = {reserve(size + margins, wanted), size + margins};
    if (fence->base == nullptr) continue;
    char* data = fence->base + margins / 2 - next_skew();
    if (!commit(data, size)) break;
    prefer_huge_pages(data, size);
    return data;
  }
  if (fence->base != nullptr) release(fence->base, fence->span);
  return nullptr;
}

KW_EXPORT void kw_unfence(Fence fence) { release(fence.base, fence.span); }
