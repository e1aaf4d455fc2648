#include <metal_stdlib>
using namespace metal;
[[kernel, max_total_threads_per_threadgroup(256)]] void k(device float* y [[buffer(0)]], ushort2 p [[thread_position_in_grid]], ushort2 n [[threads_per_grid]], ushort2 t [[thread_position_in_threadgroup]], ushort sl [[thread_index_in_simdgroup]], ushort sg [[simdgroup_index_in_threadgroup]], ushort ns [[simdgroups_per_threadgroup]]) { y[p.y * n.x + p.x] = t.x + sl + sg + ns; }
