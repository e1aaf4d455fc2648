// Memory for one array, alone in a wide range of addresses: an index that strays finds nothing to
// harm there, neither another array nor the process itself.
#include "fence.h"

#include "platform.h"

namespace kw {

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

char* make_fence(uint64_t size, uint64_t drawn, Fence& fence) {
  const uint64_t wanted = drawn == 0 ? 0 : FIRST_PLACE + drawn % PLACES * 2 * WIDEST;
  const uint64_t least = 2 * STEPS * page_size();
  // A limit on address space (ulimit -v) leaves narrower ranges.
  for (uint64_t margins = WIDEST; margins >= least; margins /= 2) {
    fence = {reserve(size + margins, wanted), size + margins};
    if (fence.base == nullptr) continue;
    char* data = fence.base + margins / 2 - next_skew();
    if (!commit(data, size)) break;
    prefer_huge_pages(data, size);
    return data;
  }
  if (fence.base != nullptr) release(fence.base, fence.span);
  return nullptr;
}

void drop_fence(const Fence& fence) { release(fence.base, fence.span); }

}  // namespace kw

KW_EXPORT char* kw_fence(uint64_t size, uint64_t drawn, kw::Fence* fence) {
  return kw::make_fence(size, drawn, *fence);
}

KW_EXPORT void kw_unfence(kw::Fence fence) { kw::drop_fence(fence); }
