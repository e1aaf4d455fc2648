#include "arena.h"

#include <string.h>

#include "platform.h"
#include "shadow.h"

namespace kw {

namespace {

// 512 GiB: any 32-bit index of elements of up to 64 bytes, a float4x4, that wraps either way stays
// within its own buffer's slot, and is named after it.
constexpr uint32_t WIDEST_SLOT_SHIFT = 39;

uint32_t narrowest_slot_shift(const Request& request) {
  uint64_t largest = 0;
  for (uint32_t i = 0; i < request.buffer_count; i++)
    if (request.buffers[i].size > largest) largest = request.buffers[i].size;
  uint32_t shift = 20;
  while ((1ull << shift) < 4 * largest) shift++;
  return shift;
}

bool reserve_slots(Arena& arena, const Request& request) {
  const uint32_t narrowest = narrowest_slot_shift(request);
  uint32_t shift = narrowest > WIDEST_SLOT_SHIFT ? narrowest : WIDEST_SLOT_SHIFT;
  // A limit on address space (ulimit -v) leaves narrower red zones.
  for (; shift >= narrowest; shift--) {
    arena.slot_shift = shift;
    arena.size = (uint64_t)request.buffer_count << shift;
    arena.base = arena.size == 0 ? nullptr : reserve(arena.size);
    if (arena.base != nullptr || arena.size == 0) return true;
  }
  return false;
}

// Where a page's address is, or would be: the table is never more than half full.
uint64_t* find_red_page(Arena& arena, uint64_t address, uint64_t page) {
  constexpr uint64_t PLACES = 2 * MOST_RED_PAGES;
  for (uint64_t i = address / page % PLACES;; i = (i + 1) % PLACES) {
    const uint64_t found = __atomic_load_n(&arena.red_pages[i], __ATOMIC_ACQUIRE);
    if (found == 0 || found == address) return &arena.red_pages[i];
  }
}

void note_red_page(Arena& arena, uint64_t address, uint64_t page) {
  uint64_t *place, none;
  do {
    none = 0;
    place = find_red_page(arena, address, page);
  } while (__atomic_load_n(place, __ATOMIC_RELAXED) != address &&
           !__atomic_compare_exchange_n(place, &none, address, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

}  // namespace

bool open_arena(Arena& arena, const Request& request) {
  memset(&arena, 0, sizeof arena);
  if (!reserve_slots(arena, request)) return false;
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    const Buffer& buffer = request.buffers[i];
    const uint64_t bytes = round_up(buffer.size, page_size());
    // A slot is at least four times as long as its buffer, so there is room to align.
    const uint64_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : page_size();
    const uint64_t middle = ((1ull << arena.slot_shift) - bytes) / 2;
    char* slot_start = arena.base + ((uint64_t)i << arena.slot_shift);
    Slot& slot = arena.slots[arena.count++];
    slot.start = (char*)(((uint64_t)slot_start + middle) / alignment * alignment);
    slot.size = buffer.size;
    slot.grain_shift = grain_shift_of(buffer.itemsize);
    slot.writable = buffer.writable;
    slot.initialised = buffer.initialised;
    slot.element = buffer.element;
    slot.taken = buffer.taken;
    if (!commit(slot.start, bytes)) return false;
    prefer_huge_pages(slot.start, bytes);
    memcpy(slot.start, buffer.data, buffer.size);
    if (slot.writable && (slot.shadow = make_shadow(slot.size, slot.grain_shift)) == nullptr)
      return false;
  }
  return true;
}

void copy_out(Arena& arena, const Request& request) {
  for (uint32_t i = 0; i < arena.count; i++) {
    if (arena.slots[i].writable)
      memcpy(request.buffers[i].data, arena.slots[i].start, arena.slots[i].size);
  }
}

void close_arena(Arena& arena) {
  for (uint32_t i = 0; i < arena.count; i++) release_shadow(arena.slots[i].shadow);
  if (arena.base != nullptr) release(arena.base, arena.size);
  arena.base = nullptr;
  arena.size = 0;
}

bool commit_red_zone(Arena& arena, uint64_t address, uint64_t size, uint32_t poison) {
  const uint64_t page = page_size();
  uint64_t first = address / page * page, last = (address + size - 1) / page * page;
  const Slot& slot = arena.slot_of(address);
  const uint64_t low = (uint64_t)slot.start, high = low + round_up(slot.size, page);
  for (uint64_t at = first; at <= last; at += page) {
    if (at >= low && at < high) continue;
    if (!arena.contains(at) || !arena.contains(at + page - 1)) return false;
    uint64_t* place = find_red_page(arena, at, page);
    if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == at) continue;
    if (__atomic_add_fetch(&arena.red_count, 1, __ATOMIC_RELAXED) > MOST_RED_PAGES) return false;
    if (!commit((char*)at, page)) return false;
    memset((char*)at, (int)poison, page);
    note_red_page(arena, at, page);
  }
  return true;
}

}  // namespace kw
