// The boundary between compiled Metal text and the simulator's runtime; both sides include it.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned int kw_uint;
typedef unsigned long long kw_ulong;

// Three dimensions as Metal orders them: x, y, z.
struct kw_uint3 {
  kw_uint x, y, z;
};

// What the attributes of one GPU thread report.
struct kw_thread {
  struct kw_uint3 position_in_grid;
  struct kw_uint3 position_in_threadgroup;
  struct kw_uint3 threadgroup_position;
  struct kw_uint3 threads_per_threadgroup;  // of this threadgroup; smaller at a ragged edge
  struct kw_uint3 dispatch_threads_per_threadgroup;
  struct kw_uint3 threads_per_grid;
  struct kw_uint3 threadgroups_per_grid;
  struct kw_uint3 grid_origin;
  kw_uint index_in_threadgroup;
  kw_uint lane;                // index in simdgroup
  kw_uint simdgroup;           // index in threadgroup
  kw_uint simdgroups;          // of this threadgroup
  kw_uint dispatch_simdgroups;
  kw_uint active_lanes;        // lanes that this simdgroup has: 32, fewer at a ragged edge
};

enum { KW_SIMD_WIDTH = 32, KW_SLOT_BYTES = 64 };
enum { KW_LINE_BITS = 20, KW_LINES = (1 << KW_LINE_BITS) - 1 };

// Computes every lane's result from every lane's published bytes. Lane i's input is at
// in + i * KW_SLOT_BYTES, its result goes to out + i * KW_SLOT_BYTES; `active` has a bit per lane
// that takes part.
typedef void (*kw_combine)(const unsigned char* in, kw_uint active, unsigned char* out);

// What it points to stays the same for a thread.
__attribute__((const)) const struct kw_thread* kw_current(void);
// What every word of a variable holds that its declaration has not set; see unset.cpp.
__attribute__((const)) kw_uint kw_unset(kw_uint number);
// `site` is where a call stands: its line, and above KW_LINE_BITS bits the column. Two calls are two
// places for lanes to meet, however much alike, and must not become one.
#define KW_PLACE __attribute__((nomerge))
KW_PLACE void kw_simdgroup(const void* in, kw_uint in_size, void* out, kw_uint out_size,
                           kw_combine combine, kw_uint site);
void kw_barrier(kw_uint flags, kw_uint site);
KW_PLACE void kw_simdgroup_barrier(kw_uint flags, kw_uint site);
// Say that an element of a vector is divided by zero, or shifted by too much, or that there is none
// of an index; only under KW_SANITIZE.
void kw_vector_division(kw_ulong left);
void kw_vector_shift(kw_ulong amount, kw_uint bits);
void kw_vector_index(kw_ulong index, kw_uint size);
// Says of an operation that it needs lanes which do not take part, if their simdgroup has them at all,
// and who reads one; only under KW_SANITIZE.
void kw_missed_lanes(kw_uint lanes, kw_uint readers);
void* kw_threadgroup_alloc(kw_uint id, kw_ulong size, kw_ulong alignment);

// Operation counts of counting builds; the standard library calls it only under KW_COUNT.
enum kw_operation {
  KW_FLOAT,
  KW_SPECIAL,
  KW_INTEGER,
  KW_MATRIX,
  KW_ATOMIC,
  KW_QUICK,   // of the special ones, those that fast:: asks for
  KW_TENSOR,  // of the matrix ones, those that M5's neural accelerators do
  KW_OPERATIONS
};
void kw_count(kw_uint operation, kw_uint amount);

#ifdef __cplusplus
}
#endif
