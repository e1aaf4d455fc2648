// Metal's scalar types for device code: names, half and bfloat with Metal's promotions.
#define KW_FUNC __device__ __forceinline__
#define METAL_FUNC KW_FUNC
#define __METAL__ 1
#define __METAL_VERSION__ 320
#define __HAVE_BFLOAT__ 1

namespace metal {

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = uchar;
using uint16_t = ushort;
using uint32_t = uint;
using uint64_t = ulong;
using size_t = ulong;
using ptrdiff_t = long;

template <class A, class B> constexpr bool is_same_v = false;
template <class A> constexpr bool is_same_v<A, A> = true;
// Nothing of our own reads a member: each that is read becomes a variable of the binary.
template <class A, class B> struct is_same { static constexpr bool value = is_same_v<A, B>; };
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class X, class Y> struct conditional { using type = X; };
template <class X, class Y> struct conditional<false, X, Y> { using type = Y; };
template <bool B, class X, class Y> using conditional_t = typename conditional<B, X, Y>::type;
template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  KW_FUNC constexpr operator T() const { return V; }
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;

struct half;
struct bfloat;

template <class T>
constexpr bool is_integral_v =
    is_same_v<T, bool> || is_same_v<T, char> || is_same_v<T, signed char> || is_same_v<T, uchar> ||
    is_same_v<T, short> || is_same_v<T, ushort> || is_same_v<T, int> || is_same_v<T, uint> ||
    is_same_v<T, long> || is_same_v<T, ulong> || is_same_v<T, long long> ||
    is_same_v<T, unsigned long long>;
template <class T>
constexpr bool is_small_float_v = is_same_v<T, half> || is_same_v<T, bfloat>;
template <class T>
constexpr bool is_floating_point_v = is_same_v<T, float> || is_small_float_v<T>;
template <class T> constexpr bool is_native_v = is_integral_v<T> || is_same_v<T, float> || is_same_v<T, double>;
template <class T> constexpr bool is_scalar_v = is_native_v<T> || is_small_float_v<T>;
template <class T> constexpr bool is_arithmetic_v = is_scalar_v<T>;
template <class T> constexpr bool is_signed_v = T(-1) < T(0);
template <class T> struct is_floating_point { static constexpr bool value = is_floating_point_v<T>; };
template <class T> struct is_integral { static constexpr bool value = is_integral_v<T>; };

// Only one implicit conversion leads out of a small float, and templates below name every mixed
// operand pair: otherwise `half + float` would be ambiguous between float and half arithmetic.
struct half {
  __half bits;
  half() = default;
  KW_FUNC half(__half x) : bits(x) {}
  KW_FUNC half(float x) : bits(__float2half_rn(x)) {}
  template <class I, class = enable_if_t<is_integral_v<I>>>
  KW_FUNC half(I x) : bits(__float2half_rn(static_cast<float>(x))) {}
  KW_FUNC operator float() const { return __half2float(bits); }
};

struct bfloat {
  __nv_bfloat16 bits;
  bfloat() = default;
  KW_FUNC bfloat(__nv_bfloat16 x) : bits(x) {}
  KW_FUNC bfloat(float x) : bits(__float2bfloat16_rn(x)) {}
  template <class I, class = enable_if_t<is_integral_v<I>>>
  KW_FUNC bfloat(I x) : bits(__float2bfloat16_rn(static_cast<float>(x))) {}
  KW_FUNC operator float() const { return __bfloat162float(bits); }
};

using float16_t = half;
using bfloat16_t = bfloat;

// A small float meets its own kind or an integer: the result is rounded to it (the product of two
// 11-bit or 8-bit significands is exact in float, so one rounding is what hardware does).
#define KW_SMALL_FLOAT_OPERATOR(type, op)                                            \
  KW_FUNC type operator op(type a, type b) { return type(float(a) op float(b)); }    \
  template <class I, class = enable_if_t<is_integral_v<I>>>                          \
  KW_FUNC type operator op(type a, I b) { return type(float(a) op float(type(b))); } \
  template <class I, class = enable_if_t<is_integral_v<I>>>                          \
  KW_FUNC type operator op(I a, type b) { return type(float(type(a)) op float(b)); } \
  KW_FUNC float operator op(type a, float b) { return float(a) op b; }               \
  KW_FUNC float operator op(float a, type b) { return a op float(b); }               \
  template <class U> KW_FUNC type& operator op##=(type& a, U b) {                    \
    a = type(float(a op b));                                                         \
    return a;                                                                        \
  }
#define KW_SMALL_FLOAT_COMPARISON(type, op)                                     \
  KW_FUNC bool operator op(type a, type b) { return float(a) op float(b); }     \
  template <class I, class = enable_if_t<is_integral_v<I>>>                     \
  KW_FUNC bool operator op(type a, I b) { return float(a) op float(type(b)); }  \
  template <class I, class = enable_if_t<is_integral_v<I>>>                     \
  KW_FUNC bool operator op(I a, type b) { return float(type(a)) op float(b); }  \
  KW_FUNC bool operator op(type a, float b) { return float(a) op b; }           \
  KW_FUNC bool operator op(float a, type b) { return a op float(b); }
#define KW_SMALL_FLOAT(type)                                                              \
  KW_SMALL_FLOAT_OPERATOR(type, +)                                                        \
  KW_SMALL_FLOAT_OPERATOR(type, -)                                                        \
  KW_SMALL_FLOAT_OPERATOR(type, *)                                                        \
  KW_SMALL_FLOAT_OPERATOR(type, /)                                                        \
  KW_SMALL_FLOAT_COMPARISON(type, ==)                                                     \
  KW_SMALL_FLOAT_COMPARISON(type, !=)                                                     \
  KW_SMALL_FLOAT_COMPARISON(type, <)                                                      \
  KW_SMALL_FLOAT_COMPARISON(type, <=)                                                     \
  KW_SMALL_FLOAT_COMPARISON(type, >)                                                      \
  KW_SMALL_FLOAT_COMPARISON(type, >=)                                                     \
  KW_FUNC type operator-(type a) { return type(-float(a)); }                              \
  KW_FUNC type operator+(type a) { return a; }                                            \
  KW_FUNC type& operator++(type& a) { return a = type(float(a) + 1.0f); }                 \
  KW_FUNC type& operator--(type& a) { return a = type(float(a) - 1.0f); }
KW_SMALL_FLOAT(half)
KW_SMALL_FLOAT(bfloat)

template <class D, class S> KW_FUNC D kw_bits(const S& s) {
  static_assert(sizeof(D) == sizeof(S), "as_type needs types of the same size");
  D d;
  memcpy(&d, &s, sizeof(D));
  return d;
}

template <class T> struct numeric_limits;
#define KW_LIMITS(type, least, most, small, infinite, nan, eps, bits_)   \
  template <> struct numeric_limits<type> {                              \
    static constexpr int digits = bits_;                                 \
    static KW_FUNC type lowest() { return least; }                       \
    static KW_FUNC type min() { return small; }                          \
    static KW_FUNC type max() { return most; }                           \
    static KW_FUNC type infinity() { return infinite; }                  \
    static KW_FUNC type quiet_NaN() { return nan; }                      \
    static KW_FUNC type epsilon() { return eps; }                        \
  };
#define KW_INFINITY __int_as_float(0x7f800000)
#define KW_NAN __int_as_float(0x7fc00000)
KW_LIMITS(float, -3.402823466e+38f, 3.402823466e+38f, 1.175494351e-38f, KW_INFINITY, KW_NAN,
          1.1920929e-7f, 24)
KW_LIMITS(half, half(-65504.0f), half(65504.0f), half(6.103515625e-5f), half(KW_INFINITY),
          half(KW_NAN), half(9.765625e-4f), 11)
KW_LIMITS(bfloat, bfloat(-3.3895314e38f), bfloat(3.3895314e38f), bfloat(1.175494351e-38f),
          bfloat(KW_INFINITY), bfloat(KW_NAN), bfloat(0.0078125f), 8)
#define KW_INTEGER_LIMITS(type, least, most, bits_) KW_LIMITS(type, least, most, least, 0, 0, 0, bits_)
KW_INTEGER_LIMITS(char, -128, 127, 7)
KW_INTEGER_LIMITS(int8_t, -128, 127, 7)
KW_INTEGER_LIMITS(uchar, 0, 255, 8)
KW_INTEGER_LIMITS(short, -32768, 32767, 15)
KW_INTEGER_LIMITS(ushort, 0, 65535, 16)
KW_INTEGER_LIMITS(int, (-2147483647 - 1), 2147483647, 31)
KW_INTEGER_LIMITS(uint, 0u, 4294967295u, 32)
KW_INTEGER_LIMITS(long, (-9223372036854775807L - 1), 9223372036854775807L, 63)
KW_INTEGER_LIMITS(ulong, 0ul, 18446744073709551615ul, 64)
KW_INTEGER_LIMITS(bool, false, true, 1)

}  // namespace metal

#undef INFINITY
#undef NAN
#undef HUGE_VALF
#undef FLT_MAX
#undef FLT_MIN
#undef FLT_EPSILON
#undef INT_MAX
#undef INT_MIN
#undef UINT_MAX
#define INFINITY KW_INFINITY
#define NAN KW_NAN
#define HUGE_VALF KW_INFINITY
#define FLT_MAX 3.402823466e+38f
#define MAXFLOAT FLT_MAX
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.1920929e-7f
#define HALF_MAX metal::half(65504.0f)
#define MAXHALF HALF_MAX
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
