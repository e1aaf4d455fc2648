// Copies of the arrays that a plain launch writes: a store that strays meets a canary or a page that
// nobody may touch, instead of the caller's own memory.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "platform.h"

namespace kw {

// Memory behind a fence, kept between launches.
struct Pen {
  Fence fence;
  char* data;
  uint64_t size;
  Pen* next;
};

namespace {

// On either side of an array. A page that nobody may touch follows within a few of them.
constexpr uint64_t MARGIN = 256;  // bytes, to which Metal aligns buffers too
constexpr unsigned char CANARY = 0xA5;
constexpr uint64_t MOST_KEPT = 64ull << 20, MOST_PENS = 64;

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Pen* kept = nullptr;
uint64_t kept_bytes = 0, kept_pens = 0;

Pen* take(uint64_t size) {
  pthread_mutex_lock(&lock);
  Pen** link = &kept;
  // Not the largest of all for the smallest array.
  while (*link != nullptr && ((*link)->size < size || (*link)->size / 8 > size)) link = &(*link)->next;
  Pen* pen = *link;
  if (pen != nullptr) {
    *link = pen->next;
    kept_bytes -= pen->size;
    kept_pens--;
  }
  pthread_mutex_unlock(&lock);
  return pen;
}

Pen* make_pen(uint64_t size) {
  if (Pen* pen = take(size)) return pen;
  Pen* pen = (Pen*)calloc(1, sizeof(Pen));
  if (pen == nullptr) return nullptr;
  pen->size = size;
  pen->data = make_fence(size, 0, pen->fence);
  if (pen->data != nullptr) return pen;
  free(pen);
  return nullptr;
}

void give(Pen* pen) {
  pthread_mutex_lock(&lock);
  const bool has_room = kept_bytes + pen->size <= MOST_KEPT && kept_pens < MOST_PENS;
  if (has_room) {
    pen->next = kept;
    kept = pen;
    kept_bytes += pen->size;
    kept_pens++;
  }
  pthread_mutex_unlock(&lock);
  if (has_room) return;
  drop_fence(pen->fence);
  free(pen);
}

// The array ends where the memory does, but for a margin.
char* start_of(const Pen& pen, uint64_t size) {
  return pen.data + pen.size - MARGIN - round_up(size, MARGIN);
}

bool is_intact(const char* first, const char* last) {
  for (; first < last; first++)
    if ((unsigned char)*first != CANARY) return false;
  return true;
}

}  // namespace

bool open_fencing(Fencing& fencing, Request& request) {
  const Buffer* own = request.buffers;
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    Buffer& buffer = fencing.buffers[i] = own[i];
    if (!buffer.writable) continue;
    Pen* pen = make_pen(round_up(round_up(buffer.size, MARGIN) + 2 * MARGIN, page_size()));
    if (pen == nullptr) {
      close_fencing(fencing, own, i, false);
      return false;
    }
    fencing.pens[i] = pen;
    char *start = start_of(*pen, buffer.size), *stop = start + buffer.size;
    memset(start - MARGIN, CANARY, MARGIN);
    memset(stop, CANARY, (uint64_t)(pen->data + pen->size - stop));
    memcpy(start, buffer.data, buffer.size);
    buffer.data = start;
  }
  request.buffers = fencing.buffers;
  return true;
}

uint32_t find_stray_write(const Fencing& fencing, const Request& request) {
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    const Pen* pen = fencing.pens[i];
    if (pen == nullptr) continue;
    const char *start = fencing.buffers[i].data, *stop = start + fencing.buffers[i].size;
    if (!is_intact(start - MARGIN, start) || !is_intact(stop, pen->data + pen->size)) return i + 1;
  }
  return 0;
}

void close_fencing(Fencing& fencing, const Buffer* own, uint32_t count, bool keeps) {
  for (uint32_t i = 0; i < count; i++) {
    if (fencing.pens[i] == nullptr) continue;
    if (keeps) memcpy(own[i].data, fencing.buffers[i].data, own[i].size);
    give(fencing.pens[i]);
  }
}

void hold_pens() { pthread_mutex_lock(&lock); }
void release_pens() { pthread_mutex_unlock(&lock); }

}  // namespace kw
