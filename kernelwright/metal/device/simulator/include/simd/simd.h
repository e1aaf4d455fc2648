// The simd namespace that host and device code share: the same vectors and matrices by their long names.
#pragma once

#include <metal_stdlib>

#define KW_SIMD_NAMES(name, T) \
  typedef T##2 vector_##name##2; \
  typedef T##3 vector_##name##3; \
  typedef T##4 vector_##name##4; \
  namespace simd { \
  using ::T##2; \
  using ::T##3; \
  using ::T##4; \
  } \
  typedef T##2 simd_##name##2; \
  typedef T##3 simd_##name##3; \
  typedef T##4 simd_##name##4;
KW_SIMD_NAMES(char, char)
KW_SIMD_NAMES(uchar, uchar)
KW_SIMD_NAMES(short, short)
KW_SIMD_NAMES(ushort, ushort)
KW_SIMD_NAMES(int, int)
KW_SIMD_NAMES(uint, uint)
KW_SIMD_NAMES(long, long)
KW_SIMD_NAMES(ulong, ulong)
KW_SIMD_NAMES(half, half)
KW_SIMD_NAMES(float, float)
#undef KW_SIMD_NAMES
#define KW_SIMD_MATRICES(C) \
  typedef float##C##x2 matrix_float##C##x2; \
  typedef float##C##x3 matrix_float##C##x3; \
  typedef float##C##x4 matrix_float##C##x4; \
  typedef float##C##x2 simd_float##C##x2; \
  typedef float##C##x3 simd_float##C##x3; \
  typedef float##C##x4 simd_float##C##x4; \
  namespace simd { \
  using ::float##C##x2; \
  using ::float##C##x3; \
  using ::float##C##x4; \
  }
KW_SIMD_MATRICES(2)
KW_SIMD_MATRICES(3)
KW_SIMD_MATRICES(4)
#undef KW_SIMD_MATRICES
