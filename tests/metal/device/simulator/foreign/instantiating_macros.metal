#include <metal_stdlib>
using namespace metal;
template <typename U> inline U load_vector(const device U* x, thread float* xt) { U sum = 0; for (int i = 0; i < 4; i++) { sum += x[i]; xt[i] = x[i]; } return sum; }
template <typename T, const int group_size, const int bits> METAL_FUNC void impl(const device uint32_t* w, const device T* x, device T* y, uint3 tid [[threadgroup_position_in_grid]], uint simd_lid [[thread_index_in_simdgroup]]) { constexpr int pack = 32 / bits; typedef float U; thread U xt[pack]; U s = load_vector<T>(x, xt); const device uint8_t* ws = (const device uint8_t*)w; y[simd_lid] = T(s + xt[0] + ws[simd_lid] + group_size); }
template <typename T, int gs, int b> [[kernel]] void qmv(const device uint32_t* w [[buffer(0)]], const device T* x [[buffer(1)]], device T* y [[buffer(2)]], const constant int& in_vec_size [[buffer(3)]], uint3 tid [[threadgroup_position_in_grid]], uint simd_gid [[simdgroup_index_in_threadgroup]], uint simd_lid [[thread_index_in_simdgroup]]) { impl<T, gs, b>(w, x, y, tid, simd_lid); }
#define instantiate(name, T, gs, b) template [[host_name(#name "_" #T "_" #gs)]] [[kernel]] decltype(qmv<T, gs, b>) qmv<T, gs, b>;
#define all_b(T) instantiate(qmv, T, 64, 4) instantiate(qmv, T, 32, 8)
all_b(float) all_b(half)
