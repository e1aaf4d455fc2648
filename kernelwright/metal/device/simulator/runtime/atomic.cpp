// Atomic operations of instrumented kernels: seen as atomic accesses, then carried out.
#include <string.h>

#include "instrument.h"
#include "stale.h"

using namespace kw;

#define PC ((uint64_t)__builtin_return_address(0))

namespace {

bool runs_kernel(const Worker* worker) { return worker != nullptr && worker->running != nullptr; }

void note_write(const void* address) {
  if (runs_kernel(current)) note_own_atomic(*current, (uint64_t)address);
}

const void* missed(const void* address, uint32_t size) {
  return runs_kernel(current) ? stale_value(*current, (uint64_t)address, size) : nullptr;
}

}  // namespace

#define KW_EXCHANGING(bits, type, name, builtin)                                            \
  KW_EXPORT type __tsan_atomic##bits##_##name(volatile type* p, type value, int) {          \
    see((const void*)p, bits / 8, READ | WRITE | ATOMIC, PC);                               \
    note_write((const void*)p);                                                             \
    return builtin(p, value, __ATOMIC_SEQ_CST);                                             \
  }

// The last of clang's variants reports the value it found; the first two through `expected`.
#define KW_COMPARING(bits, type, name)                                                      \
  KW_EXPORT int __tsan_atomic##bits##_compare_exchange_##name(                              \
      volatile type* p, type* expected, type value, int, int) {                             \
    see((const void*)p, bits / 8, READ | WRITE | ATOMIC, PC);                               \
    note_write((const void*)p);                                                             \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,         \
                                       __ATOMIC_SEQ_CST);                                   \
  }

#define KW_ATOMIC(bits, type)                                                               \
  KW_EXPORT type __tsan_atomic##bits##_load(const volatile type* p, int) {                  \
    see((const void*)p, bits / 8, READ | ATOMIC, PC);                                       \
    type value = __atomic_load_n(p, __ATOMIC_SEQ_CST);                                      \
    if (const void* before = missed((const void*)p, bits / 8))                              \
      memcpy(&value, before, sizeof value);                                                 \
    return value;                                                                           \
  }                                                                                         \
  KW_EXPORT void __tsan_atomic##bits##_store(volatile type* p, type value, int) {           \
    see((const void*)p, bits / 8, WRITE | ATOMIC, PC);                                      \
    note_write((const void*)p);                                                             \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                           \
  }                                                                                         \
  KW_EXCHANGING(bits, type, exchange, __atomic_exchange_n)                                  \
  KW_EXCHANGING(bits, type, fetch_add, __atomic_fetch_add)                                  \
  KW_EXCHANGING(bits, type, fetch_sub, __atomic_fetch_sub)                                  \
  KW_EXCHANGING(bits, type, fetch_and, __atomic_fetch_and)                                  \
  KW_EXCHANGING(bits, type, fetch_or, __atomic_fetch_or)                                    \
  KW_EXCHANGING(bits, type, fetch_xor, __atomic_fetch_xor)                                  \
  KW_EXCHANGING(bits, type, fetch_nand, __atomic_fetch_nand)                                \
  KW_COMPARING(bits, type, strong)                                                          \
  KW_COMPARING(bits, type, weak)                                                            \
  KW_EXPORT type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, \
                                                            type value, int, int) {         \
    see((const void*)p, bits / 8, READ | WRITE | ATOMIC, PC);                               \
    note_write((const void*)p);                                                             \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST,               \
                                __ATOMIC_SEQ_CST);                                          \
    return expected;                                                                        \
  }

KW_ATOMIC(8, uint8_t)
KW_ATOMIC(16, uint16_t)
KW_ATOMIC(32, uint32_t)
KW_ATOMIC(64, uint64_t)

KW_EXPORT void __tsan_atomic_thread_fence(int) {
  if (runs_kernel(current)) note_fence(*current);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
KW_EXPORT void __tsan_atomic_signal_fence(int) {}
