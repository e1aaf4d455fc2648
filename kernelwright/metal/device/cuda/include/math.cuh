// Metal's math, common, relational, integer and geometric functions, from CUDA's accurate ones.
namespace metal {

// A function of float serves half and bfloat by one rounding, and vectors component by component.
#define KW_UNARY(name, expression)                                              \
  KW_FUNC float name(float x) { return expression; }                            \
  KW_FUNC half name(half x) { return half(name(float(x))); }                    \
  KW_FUNC bfloat name(bfloat x) { return bfloat(name(float(x))); }              \
  template <class I, class = enable_if_t<is_integral_v<I>>>                     \
  KW_FUNC float name(I x) { return name(float(x)); }                            \
  template <class T, int N> KW_FUNC vec<T, N> name(const vec<T, N>& x) {        \
    vec<T, N> r;                                                                \
    _Pragma("unroll") for (int i = 0; i < N; i++) r[i] = name(x[i]);            \
    return r;                                                                   \
  }
// Unqualified names follow the kernel's math mode, as Metal's do.
#ifdef KW_FAST_MATH
#define KW_BY_MODE(accurate, quick) quick
#else
#define KW_BY_MODE(accurate, quick) accurate
#endif
#define KW_TRANSCENDENTAL(name, accurate, quick)        \
  KW_UNARY(name, KW_BY_MODE(accurate, quick))           \
  namespace precise { KW_UNARY(name, accurate) }        \
  namespace fast { KW_UNARY(name, quick) }
// Quick functions flush what is below float's normal numbers, as Apple's GPUs do: to scale such
// numbers up and down again would take as many instructions as all the rest.
KW_FUNC float kw_quick_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
KW_FUNC float kw_quick_log2(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
KW_FUNC float kw_quick_divide(float x, float y) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
  return x * r;
}
KW_TRANSCENDENTAL(exp, ::expf(x), kw_quick_exp2(x * 1.4426950408889634f))
KW_TRANSCENDENTAL(exp2, ::exp2f(x), kw_quick_exp2(x))
KW_TRANSCENDENTAL(exp10, ::exp10f(x), ::__exp10f(x))
KW_TRANSCENDENTAL(log, ::logf(x), kw_quick_log2(x) * 0.6931471805599453f)
KW_TRANSCENDENTAL(log2, ::log2f(x), kw_quick_log2(x))
KW_TRANSCENDENTAL(log10, ::log10f(x), ::__log10f(x))
KW_TRANSCENDENTAL(sin, ::sinf(x), ::__sinf(x))
KW_TRANSCENDENTAL(cos, ::cosf(x), ::__cosf(x))
KW_TRANSCENDENTAL(tan, ::tanf(x), ::__tanf(x))
KW_TRANSCENDENTAL(asin, ::asinf(x), ::asinf(x))
KW_TRANSCENDENTAL(acos, ::acosf(x), ::acosf(x))
KW_TRANSCENDENTAL(atan, ::atanf(x), ::atanf(x))
KW_TRANSCENDENTAL(sinh, ::sinhf(x), ::sinhf(x))
KW_TRANSCENDENTAL(cosh, ::coshf(x), ::coshf(x))
KW_TRANSCENDENTAL(tanh, ::tanhf(x), ::tanhf(x))
KW_TRANSCENDENTAL(asinh, ::asinhf(x), ::asinhf(x))
KW_TRANSCENDENTAL(acosh, ::acoshf(x), ::acoshf(x))
KW_TRANSCENDENTAL(atanh, ::atanhf(x), ::atanhf(x))
KW_TRANSCENDENTAL(sinpi, ::sinpif(x), ::sinpif(x))
KW_TRANSCENDENTAL(cospi, ::cospif(x), ::cospif(x))
KW_TRANSCENDENTAL(tanpi, ::tanf(M_PI_F * x), ::tanf(M_PI_F * x))
KW_TRANSCENDENTAL(sqrt, ::sqrtf(x), ::sqrtf(x))
KW_TRANSCENDENTAL(rsqrt, ::rsqrtf(x), ::rsqrtf(x))
KW_TRANSCENDENTAL(floor, ::floorf(x), ::floorf(x))
KW_TRANSCENDENTAL(ceil, ::ceilf(x), ::ceilf(x))
KW_TRANSCENDENTAL(trunc, ::truncf(x), ::truncf(x))
KW_TRANSCENDENTAL(round, ::roundf(x), ::roundf(x))
KW_TRANSCENDENTAL(rint, ::rintf(x), ::rintf(x))
KW_TRANSCENDENTAL(fabs, ::fabsf(x), ::fabsf(x))
KW_TRANSCENDENTAL(fract, x - ::floorf(x), x - ::floorf(x))
KW_UNARY(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x != x ? 0.0f : x)
KW_UNARY(saturate, ::__saturatef(x))
KW_UNARY(degrees, x * 57.29577951308232f)
KW_UNARY(radians, x * 0.017453292519943295f)

// Arguments of different scalar types meet as C++'s arithmetic would have them.
template <class A, class B> using common_t = decltype(A() + B());

#define KW_BINARY_FLOAT(name, expression)                                                      \
  KW_FUNC float name(float x, float y) { return expression; }                                  \
  KW_FUNC half name(half x, half y) { return half(name(float(x), float(y))); }                 \
  KW_FUNC bfloat name(bfloat x, bfloat y) { return bfloat(name(float(x), float(y))); }         \
  template <class A, class B, class = enable_if_t<is_scalar_v<A> && is_scalar_v<B> && !is_same_v<A, B>>> \
  KW_FUNC auto name(A x, B y) { return name(float(x), float(y)); }                             \
  template <class T, int N> KW_FUNC vec<T, N> name(const vec<T, N>& x, const vec<T, N>& y) {   \
    vec<T, N> r;                                                                               \
    _Pragma("unroll") for (int i = 0; i < N; i++) r[i] = name(x[i], y[i]);                     \
    return r;                                                                                  \
  }
#define KW_BINARY_TRANSCENDENTAL(name, expression) \
  KW_BINARY_FLOAT(name, expression)                \
  namespace precise { KW_BINARY_FLOAT(name, expression) } \
  namespace fast { KW_BINARY_FLOAT(name, expression) }
KW_BINARY_TRANSCENDENTAL(pow, ::powf(x, y))
KW_BINARY_TRANSCENDENTAL(powr, ::powf(x, y))
KW_BINARY_TRANSCENDENTAL(atan2, ::atan2f(x, y))
KW_BINARY_TRANSCENDENTAL(fmod, ::fmodf(x, y))
KW_BINARY_TRANSCENDENTAL(fmax, ::fmaxf(x, y))
KW_BINARY_TRANSCENDENTAL(fmin, ::fminf(x, y))
KW_BINARY_TRANSCENDENTAL(copysign, ::copysignf(x, y))
KW_BINARY_FLOAT(divide, KW_BY_MODE(x / y, kw_quick_divide(x, y)))
namespace precise { KW_BINARY_FLOAT(divide, x / y) }
namespace fast { KW_BINARY_FLOAT(divide, kw_quick_divide(x, y)) }
KW_BINARY_FLOAT(nextafter, ::nextafterf(x, y))
KW_BINARY_FLOAT(fdim, ::fdimf(x, y))
KW_BINARY_FLOAT(step, y < x ? 0.0f : 1.0f)
KW_FUNC float ldexp(float x, int e) { return ::ldexpf(x, e); }
KW_FUNC float frexp(float x, int& e) { return ::frexpf(x, &e); }
KW_FUNC float modf(float x, float& whole) { return ::modff(x, &whole); }
KW_FUNC int ilogb(float x) { return ::ilogbf(x); }
KW_FUNC float sincos(float x, float& c) {
  float s;
  ::sincosf(x, &s, &c);
  return s;
}

#define KW_EXTREMUM(name, number, op)                                                            \
  KW_FUNC float name(float x, float y) { return number(x, y); }                                  \
  KW_FUNC half name(half x, half y) { return half(number(float(x), float(y))); }                 \
  KW_FUNC bfloat name(bfloat x, bfloat y) { return bfloat(number(float(x), float(y))); }         \
  template <class A, class B,                                                                    \
            class = enable_if_t<is_scalar_v<A> && is_scalar_v<B> &&                              \
                                !(is_same_v<A, B> && !is_integral_v<A>)>>                         \
  KW_FUNC auto name(A x, B y) {                                                                  \
    using R = conditional_t<is_same_v<A, B>, A, common_t<A, B>>;                                 \
    if constexpr (is_floating_point_v<R>) return R(number(float(x), float(y)));                  \
    else return R(x) op R(y) ? R(x) : R(y);                                                      \
  }                                                                                              \
  template <class T, int N> KW_FUNC vec<T, N> name(const vec<T, N>& x, const vec<T, N>& y) {     \
    vec<T, N> r;                                                                                 \
    _Pragma("unroll") for (int i = 0; i < N; i++) r[i] = name(x[i], y[i]);                       \
    return r;                                                                                    \
  }                                                                                              \
  template <class T, int N, class S, class = enable_if_t<is_scalar_v<S>>>                        \
  KW_FUNC vec<T, N> name(const vec<T, N>& x, S y) { return name(x, vec<T, N>(y)); }
KW_EXTREMUM(max, ::fmaxf, >)
KW_EXTREMUM(min, ::fminf, <)
namespace precise { using metal::max; using metal::min; }
namespace fast { using metal::max; using metal::min; }
template <class A, class B, class C> KW_FUNC auto max3(A a, B b, C c) { return max(max(a, b), c); }
template <class A, class B, class C> KW_FUNC auto min3(A a, B b, C c) { return min(min(a, b), c); }
template <class T, class L, class H> KW_FUNC auto clamp(T x, L low, H high) {
  return min(max(x, low), high);
}
template <class T, class = enable_if_t<is_scalar_v<T>>> KW_FUNC T abs(T x) {
  if constexpr (is_floating_point_v<T>) return T(::fabsf(float(x)));
  else return x < T(0) ? T(-x) : x;
}
template <class T, int N> KW_FUNC vec<T, N> abs(const vec<T, N>& x) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r[i] = abs(x[i]);
  return r;
}

KW_FUNC float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
KW_FUNC half fma(half a, half b, half c) { return half(__hfma(a.bits, b.bits, c.bits)); }
KW_FUNC bfloat fma(bfloat a, bfloat b, bfloat c) { return bfloat(__hfma(a.bits, b.bits, c.bits)); }
template <class A, class B, class C,
          class = enable_if_t<is_scalar_v<A> && is_scalar_v<B> && is_scalar_v<C> &&
                              !(is_same_v<A, B> && is_same_v<B, C> && is_floating_point_v<A>)>>
KW_FUNC float fma(A a, B b, C c) { return ::fmaf(float(a), float(b), float(c)); }
template <class T, int N>
KW_FUNC vec<T, N> fma(const vec<T, N>& a, const vec<T, N>& b, const vec<T, N>& c) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; i++) r[i] = fma(a[i], b[i], c[i]);
  return r;
}
template <class T, class U> KW_FUNC T mix(T a, T b, U t) { return a + (b - a) * t; }
template <class T> KW_FUNC T smoothstep(T low, T high, T x) {
  T t = clamp((x - low) / (high - low), T(0.0f), T(1.0f));
  return t * t * (T(3.0f) - T(2.0f) * t);
}

#define KW_PREDICATE(name, expression)                                          \
  template <class T, class = enable_if_t<is_scalar_v<T>>> KW_FUNC bool name(T v) { \
    float x = float(v);                                                         \
    return expression;                                                          \
  }                                                                             \
  template <class T, int N> KW_FUNC vec<bool, N> name(const vec<T, N>& v) {     \
    vec<bool, N> r;                                                             \
    for (int i = 0; i < N; i++) r[i] = name(v[i]);                              \
    return r;                                                                   \
  }
KW_PREDICATE(isnan, x != x)
KW_PREDICATE(isinf, ::fabsf(x) == KW_INFINITY)
KW_PREDICATE(isfinite, ::fabsf(x) < KW_INFINITY)
KW_PREDICATE(isnormal, ::fabsf(x) < KW_INFINITY && ::fabsf(x) >= 1.175494351e-38f)
KW_PREDICATE(signbit, (__float_as_uint(x) >> 31) != 0u)
template <class T> KW_FUNC T select(T a, T b, bool pick) { return pick ? b : a; }
template <class T, int N>
KW_FUNC vec<T, N> select(const vec<T, N>& a, const vec<T, N>& b, const vec<bool, N>& pick) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r[i] = pick[i] ? b[i] : a[i];
  return r;
}
template <int N> KW_FUNC bool any(const vec<bool, N>& v) {
  bool r = false;
  for (int i = 0; i < N; i++) r = r || v[i];
  return r;
}
template <int N> KW_FUNC bool all(const vec<bool, N>& v) {
  bool r = true;
  for (int i = 0; i < N; i++) r = r && v[i];
  return r;
}
KW_FUNC bool any(bool v) { return v; }
KW_FUNC bool all(bool v) { return v; }

#define KW_INTEGER_UNARY(name, expression)                                            \
  template <class T, class = enable_if_t<is_integral_v<T>>> KW_FUNC T name(T x) {     \
    constexpr int bits = 8 * sizeof(T);                                               \
    return T(expression);                                                             \
  }                                                                                   \
  template <class T, int N> KW_FUNC vec<T, N> name(const vec<T, N>& x) {              \
    vec<T, N> r;                                                                      \
    for (int i = 0; i < N; i++) r[i] = name(x[i]);                                    \
    return r;                                                                         \
  }
template <class T> KW_FUNC unsigned long long kw_unsigned(T x) {
  constexpr int bits = 8 * sizeof(T);
  return bits == 64 ? (unsigned long long)x : (unsigned long long)x & ((1ull << (bits % 64)) - 1);
}
KW_INTEGER_UNARY(clz, ::__clzll(kw_unsigned(x)) - (64 - bits))
KW_INTEGER_UNARY(ctz, x == T(0) ? bits : ::__ffsll((long long)x) - 1)
KW_INTEGER_UNARY(popcount, ::__popcll(kw_unsigned(x)))
KW_INTEGER_UNARY(reverse_bits, ::__brevll((unsigned long long)x) >> (64 - bits))
template <class T> KW_FUNC T rotate(T x, T n) {
  constexpr int bits = 8 * sizeof(T);
  int k = int(n) & (bits - 1);
  unsigned long long u = kw_unsigned(x);
  return k == 0 ? x : T((u << k) | (u >> (bits - k)));
}
template <class T> KW_FUNC T extract_bits(T x, uint offset, uint count) {
  if (count == 0) return T(0);
  constexpr int bits = 8 * sizeof(T);
  return T(T(x << (bits - offset - count)) >> (bits - count));
}
template <class T> KW_FUNC T insert_bits(T base, T insert, uint offset, uint count) {
  constexpr uint bits = 8 * sizeof(T);
  unsigned long long ones = count == 64 ? ~0ull : (1ull << count) - 1;
  unsigned long long mask = count == bits ? ~0ull : ones << offset;
  return T((kw_unsigned(base) & ~mask) | ((kw_unsigned(insert) << offset) & mask));
}
KW_FUNC int mulhi(int a, int b) { return ::__mulhi(a, b); }
KW_FUNC uint mulhi(uint a, uint b) { return ::__umulhi(a, b); }
KW_FUNC long mulhi(long a, long b) { return ::__mul64hi(a, b); }
KW_FUNC ulong mulhi(ulong a, ulong b) { return ::__umul64hi(a, b); }
template <class T> KW_FUNC T absdiff(T a, T b) { return a > b ? T(a - b) : T(b - a); }
template <class T> KW_FUNC T addsat(T a, T b) {
  T sum = T(kw_unsigned(a) + kw_unsigned(b));
  if constexpr (!is_signed_v<T>) return sum < a ? numeric_limits<T>::max() : sum;
  else if (b > 0 && sum < a) return numeric_limits<T>::max();
  else if (b < 0 && sum > a) return numeric_limits<T>::lowest();
  else return sum;
}
template <class T> KW_FUNC T subsat(T a, T b) {
  T difference = T(kw_unsigned(a) - kw_unsigned(b));
  if constexpr (!is_signed_v<T>) return a < b ? T(0) : difference;
  else if (b < 0 && difference < a) return numeric_limits<T>::max();
  else if (b > 0 && difference > a) return numeric_limits<T>::lowest();
  else return difference;
}
template <class T> KW_FUNC T madhi(T a, T b, T c) { return mulhi(a, b) + c; }
template <class T> KW_FUNC T hadd(T a, T b) { return T((a >> 1) + (b >> 1) + (a & b & 1)); }
template <class T> KW_FUNC T rhadd(T a, T b) { return T((a >> 1) + (b >> 1) + ((a | b) & 1)); }
KW_FUNC int mad24(int a, int b, int c) { return ::__mul24(a, b) + c; }
KW_FUNC int mul24(int a, int b) { return ::__mul24(a, b); }

template <class T, int N> KW_FUNC T dot(const vec<T, N>& a, const vec<T, N>& b) {
  T s = a[0] * b[0];
#pragma unroll
  for (int i = 1; i < N; i++) s = fma(a[i], b[i], s);
  return s;
}
template <class T, int N> KW_FUNC T length_squared(const vec<T, N>& v) { return dot(v, v); }
template <class T, int N> KW_FUNC T length(const vec<T, N>& v) { return sqrt(dot(v, v)); }
template <class T, int N> KW_FUNC T distance(const vec<T, N>& a, const vec<T, N>& b) { return length(a - b); }
template <class T, int N> KW_FUNC vec<T, N> normalize(const vec<T, N>& v) { return v * rsqrt(dot(v, v)); }
template <class T> KW_FUNC vec<T, 3> cross(const vec<T, 3>& a, const vec<T, 3>& b) {
  return vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

}  // namespace metal

template <class D, class S> KW_FUNC D as_type(S s) { return metal::kw_bits<D>(s); }
