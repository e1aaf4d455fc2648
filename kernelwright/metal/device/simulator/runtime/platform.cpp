#include "platform.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

namespace kw {

uint64_t page_size() {
  static const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
  return size;
}

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

char* reserve(uint64_t size, uint64_t wanted) {
  void* start =
      mmap((void*)wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : (char*)start;
}

bool commit(char* start, uint64_t size) {
  return mprotect(start, size, PROT_READ | PROT_WRITE) == 0;
}

void prefer_huge_pages(char* start, uint64_t size) {
#if defined(MADV_HUGEPAGE)
  if (size >= HUGE_PAGE_BYTES) madvise(start, size, MADV_HUGEPAGE);
#else
  (void)start, (void)size;
#endif
}

void discard(char* start, uint64_t size) {
  // Mapping afresh, because MADV_DONTNEED zeroes on Linux only.
  mmap(start, size, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void release(char* start, uint64_t size) { munmap(start, size); }

}  // namespace kw
