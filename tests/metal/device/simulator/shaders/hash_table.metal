#include <metal_stdlib>
#include <metal_atomic>
using namespace metal;
struct KeyValue { atomic_uint key; atomic_uint value; };
constant uint EMPTY = 0xffffffff;
constant uint capacity [[function_constant(0)]];
constant uint table_size = is_function_constant_defined(capacity) ? capacity : 256u;
uint hash_murmur(uint k) { k ^= k >> 16; k *= 0x85ebca6b; k ^= k >> 13; k *= 0xc2b2ae35u; k ^= k >> 16; return k & (table_size - 1); }
kernel void table_insert(device KeyValue* table [[buffer(0)]], device const uint2* pairs [[buffer(1)]], constant uint& count [[buffer(2)]], uint id [[thread_position_in_grid]]) {
  if (id >= count) return;
  const uint key = pairs[id][0];
  for (uint slot = hash_murmur(key);; slot = (slot + 1) & (table_size - 1)) {
    uint expected = EMPTY;
    bool won = atomic_compare_exchange_weak_explicit(&table[slot].key, &expected, key, memory_order_relaxed, memory_order_relaxed);
    if (won || expected == key) { atomic_fetch_add_explicit(&table[slot].value, pairs[id].y, memory_order_relaxed); return; }
  }
}
kernel void table_lookup(device KeyValue* table [[buffer(0)]], device uint2* pairs [[buffer(1)]], constant uint& count [[buffer(2)]], uint id [[thread_position_in_grid]]) {
  if (id < count) {
    uint slot = hash_murmur(pairs[id].x);
    do {
      uint k = atomic_load_explicit(&(table + slot)->key, memory_order_relaxed);
      if (k == pairs[id].x) { pairs[id].y = atomic_load_explicit(&table[slot].value, memory_order_relaxed); return; }
      if (k == EMPTY) { pairs[id].y = EMPTY; return; }
      slot = (slot + 1u) % table_size;
    } while (true);
  }
}
