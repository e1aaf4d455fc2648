// What the runtime asks of the operating system.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace kw {

// Glibc gives dlopen'ed libraries a little static TLS, so one pointer may use the fast model; a
// call of __tls_get_addr for every memory access would double the sanitizer's cost.
#if defined(__linux__) && defined(__GLIBC__)
#define KW_TLS __attribute__((tls_model("initial-exec")))
#else
#define KW_TLS
#endif

#define KW_EXPORT extern "C" __attribute__((visibility("default")))

inline uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

uint64_t page_size();
double now_s();

// Address space without memory behind it; null when the system refuses. It begins at `wanted` where
// that is free and not 0.
char* reserve(uint64_t size, uint64_t wanted = 0);
// Turns part of a reservation into zeroed memory that costs nothing until it is touched.
bool commit(char* start, uint64_t size);
// Of every system with 4 KiB pages; elsewhere it only aligns.
constexpr uint64_t HUGE_PAGE_BYTES = 2ull << 20;
// Asks for few large pages under memory that will all be touched: a page fault costs more than the
// sanitizer's work on the bytes of a small page.
void prefer_huge_pages(char* start, uint64_t size);
// Gives the memory back and keeps the addresses; the next touch reads zeros.
void discard(char* start, uint64_t size);
void release(char* start, uint64_t size);

}  // namespace kw
