#include <metal_stdlib>
using namespace metal;
struct View { device float* p; uint stride; device float& at(uint i, uint j) const { return p[i * stride + j]; } };
struct TG { threadgroup float* s; void put(uint i, float v) { s[i] = v; } float get(uint i) const { return s[i]; } };
template <typename T> struct Loader { const device T* src; threadgroup T* dst; const short bi; Loader(const device T* src_, threadgroup T* dst_, ushort t) : src(src_ + t), dst(dst_), bi(t % 4) {} void load() const { dst[bi] = *src; } void next() { src += 4; } };
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) { threadgroup float s[64]; View v{y, 8}; TG g{s}; g.put(i, i); threadgroup_barrier(mem_flags::mem_threadgroup); v.at(0, i) = g.get(31 - i); threadgroup_barrier(mem_flags::mem_device); threadgroup float t[4]; Loader<float> l(y, t, i & 3); l.next(); if (i < 4) l.load(); }
