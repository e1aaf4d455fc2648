// What clang's -fsanitize=thread calls before every memory access; only its instrumentation is
// used, none of its library.
#include <string.h>

#include "instrument.h"

using namespace kw;

#define PC ((uint64_t)__builtin_return_address(0))

// The instrumentation calls a variant without `unaligned` where the type promises an alignment.
#define KW_ACCESS(bytes)                                                                      \
  KW_EXPORT void __tsan_read##bytes(void* p) { see(p, bytes, READ | ALIGNED, PC); }           \
  KW_EXPORT void __tsan_write##bytes(void* p) { see(p, bytes, WRITE | ALIGNED, PC); }         \
  KW_EXPORT void __tsan_read_write##bytes(void* p) {                                          \
    see(p, bytes, READ | WRITE | ALIGNED, PC);                                                \
  }                                                                                           \
  KW_EXPORT void __tsan_unaligned_read##bytes(void* p) { see(p, bytes, READ, PC); }           \
  KW_EXPORT void __tsan_unaligned_write##bytes(void* p) { see(p, bytes, WRITE, PC); }         \
  KW_EXPORT void __tsan_unaligned_read_write##bytes(void* p) {                                \
    see(p, bytes, READ | WRITE, PC);                                                          \
  }                                                                                           \
  KW_EXPORT void __tsan_volatile_read##bytes(void* p) { see(p, bytes, READ, PC); }            \
  KW_EXPORT void __tsan_volatile_write##bytes(void* p) { see(p, bytes, WRITE, PC); }          \
  KW_EXPORT void __tsan_unaligned_volatile_read##bytes(void* p) { see(p, bytes, READ, PC); }  \
  KW_EXPORT void __tsan_unaligned_volatile_write##bytes(void* p) { see(p, bytes, WRITE, PC); }

KW_ACCESS(1)
KW_ACCESS(2)
KW_ACCESS(4)
KW_ACCESS(8)
KW_ACCESS(16)

// Of the sizes that clang leaves out; unmarked.py adds these.
KW_EXPORT void __tsan_read_range(void* p, uint64_t bytes) { see(p, (uint32_t)bytes, READ, PC); }
KW_EXPORT void __tsan_write_range(void* p, uint64_t bytes) { see(p, (uint32_t)bytes, WRITE, PC); }

KW_EXPORT void __tsan_init(void) {}
KW_EXPORT void __tsan_func_entry(void*) {}
KW_EXPORT void __tsan_func_exit(void) {}
KW_EXPORT void __tsan_vptr_update(void**, void*) {}
KW_EXPORT void __tsan_vptr_read(void**) {}
KW_EXPORT void __tsan_ignore_thread_begin(void) {}
KW_EXPORT void __tsan_ignore_thread_end(void) {}

KW_EXPORT void* __tsan_memcpy(void* to, const void* from, uint64_t size) {
  see(from, (uint32_t)size, READ, PC);
  see(to, (uint32_t)size, WRITE, PC);
  return memcpy(to, from, size);
}

KW_EXPORT void* __tsan_memmove(void* to, const void* from, uint64_t size) {
  see(from, (uint32_t)size, READ, PC);
  see(to, (uint32_t)size, WRITE, PC);
  return memmove(to, from, size);
}

KW_EXPORT void* __tsan_memset(void* to, int value, uint64_t size) {
  see(to, (uint32_t)size, WRITE, PC);
  return memset(to, value, size);
}
