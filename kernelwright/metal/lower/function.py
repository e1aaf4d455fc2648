"""Metal functions that kernels need and Metal's library lacks, or has with other edge cases."""

import re

_FUNCTIONS = (
    {
        "larger": """\
// The larger of two values; NaN wins, as in MLX.
inline float larger(float a, float b) {
  return metal::isnan(a) || a > b ? a : b;
}
""",
        "smaller": """\
// The smaller of two values; NaN wins, as in MLX.
inline float smaller(float a, float b) {
  return metal::isnan(a) || a < b ? a : b;
}
""",
        "exceeds": """\
// Whether a is a new maximum; the first NaN stays, as in MLX.
inline bool exceeds(float a, float b) {
  return a > b || (metal::isnan(a) && !metal::isnan(b));
}
""",
        "undercuts": """\
// Whether a is a new minimum; the first NaN stays, as in MLX.
inline bool undercuts(float a, float b) {
  return a < b || (metal::isnan(a) && !metal::isnan(b));
}
""",
        "same": """\
inline bool same(float a, float b) {
  return a == b || (metal::isnan(a) && metal::isnan(b));
}
""",
        "sigmoid": """\
// exp() of a negative magnitude alone: no overflow, and no cancellation near 0 and 1.
inline float sigmoid(float x) {
  float decay = metal::precise::exp(-metal::abs(x));
  return (x < 0.0f ? decay : 1.0f) / (1.0f + decay);
}
""",
        "quick_sigmoid": """\
// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  float decay = metal::fast::exp(-metal::abs(x));
  return metal::fast::divide(x < 0.0f ? decay : 1.0f, 1.0f + decay);
}
""",
        "quick_tanh": """\
// Exact to a few roundings of float, near zero by its series: for results of 16 bits.
inline float quick_tanh(float x) {
  float decay = metal::fast::exp(-2.0f * metal::abs(x));
  float size = metal::fast::divide(1.0f - decay, 1.0f + decay);
  return metal::abs(x) < 0.0625f ? x - x * x * x / 3.0f : metal::copysign(size, x);
}
""",
        "logaddexp": """\
inline float logaddexp(float a, float b) {
  if (metal::isnan(a) || metal::isnan(b)) {
    return NAN;
  }
  float high = metal::max(a, b);
  float low = metal::min(a, b);
  // Equal infinities would subtract to NaN.
  return metal::isinf(low) || metal::isinf(high)
      ? high : high + log1p_of(metal::precise::exp(low - high));
}
""",
        "wide_of": """\
// A value as fraction and exponent: products of them neither overflow nor vanish.
inline float2 wide_of(float x) {
  int exponent = 0;
  float fraction = metal::frexp(x, exponent);
  return float2(fraction, metal::isfinite(x) ? float(exponent) : 0.0f);
}
""",
        "wide_product": """\
inline float2 wide_product(float2 a, float2 b) {
  float2 product = wide_of(a.x * b.x);
  return float2(product.x, product.y + a.y + b.y);
}
""",
        "float_of": """\
inline float float_of(float2 value) {
  return metal::ldexp(value.x, int(value.y));
}
""",
        "floor_quotient": """\
// Division rounded towards negative infinity.
template <typename T>
inline T floor_quotient(T a, T b) {
  T quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
""",
        "floor_remainder": """\
// The remainder with the divisor's sign.
inline float floor_remainder(float a, float b) {
  float remainder = metal::fmod(a, b);
  return remainder != 0.0f && (remainder < 0.0f) != (b < 0.0f) ? remainder + b : remainder;
}
""",
        "floor_modulus": """\
// The integer remainder with the divisor's sign.
template <typename T>
inline T floor_modulus(T a, T b) {
  T remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
""",
        "integer_power": """\
template <typename T>
inline T integer_power(T base, T exponent) {
  T result = 1;
  for (; exponent > 0; exponent >>= 1) {
    result = exponent & 1 ? result * base : result;
    base *= base;
  }
  return result;
}
""",
        "sign_of": """\
template <typename T>
inline T sign_of(T x) {
  return T(x > 0) - T(x < 0);
}
""",
        "log1p_of": """\
// log(1 + x); the correction is what 1 + x lost to rounding.
inline float log1p_of(float x) {
  float sum = 1.0f + x;
  float correction = (x - (sum - 1.0f)) / sum;
  return metal::precise::log(sum) + (metal::isfinite(correction) ? correction : 0.0f);
}
""",
        "expm1_of": """\
// exp(x) - 1; a minimax polynomial where the difference would cancel.
inline float expm1_of(float x) {
  if (metal::abs(x) >= 0.75f) {
    return metal::precise::exp(x) - 1.0f;
  }
  float p = 2.477849e-05f;
  p = metal::fma(p, x, 2.0138867e-04f);
  p = metal::fma(p, x, 1.3890982e-03f);
  p = metal::fma(p, x, 8.332371e-03f);
  p = metal::fma(p, x, 4.1666593e-02f);
  p = metal::fma(p, x, 1.6666676e-01f);
  p = metal::fma(p, x, 0.5f);
  return metal::fma(x * x, p, x);
}
""",
        "erf_of": """\
// The error function to about one unit in the last place: a minimax polynomial in x * x below
// 1, and one of log(1 - erf(x)) above.
inline float erf_of(float x) {
  float t = metal::abs(x);
  if (t < 1.0f) {
    float s = x * x;
    float p = 7.889119e-05f;
    p = metal::fma(p, s, -8.020841e-04f);
    p = metal::fma(p, s, 5.189535e-03f);
    p = metal::fma(p, s, -2.6854444e-02f);
    p = metal::fma(p, s, 0.112836f);
    p = metal::fma(p, s, -0.37612626f);
    p = metal::fma(p, s, 0.12837917f);
    return metal::fma(x, p, x);
  }
  // erf(4) rounds to 1; the clamp keeps NaN, which metal::min would drop.
  t = t > 4.0f ? 4.0f : t;
  float p = 1.8607174e-06f;
  p = metal::fma(p, t, -3.0197858e-05f);
  p = metal::fma(p, t, 1.9180648e-04f);
  p = metal::fma(p, t, -4.2188022e-04f);
  p = metal::fma(p, t, -2.0040323e-03f);
  p = metal::fma(p, t, 0.021538997f);
  p = metal::fma(p, t, -0.10441471f);
  p = metal::fma(p, t, -0.63597834f);
  p = metal::fma(p, t, -1.128489f);
  return metal::copysign(1.0f - metal::precise::exp(p * t), x);
}
""",
        "erfinv_of": """\
// The inverse error function: minimax polynomials in w = -log(1 - x * x), as Giles arranged.
inline float erfinv_of(float x) {
  float w = -metal::precise::log(metal::fma(-x, x, 1.0f));
  float p;
  if (w < 5.0f) {
    w -= 2.5f;
    p = -8.791057e-09f;
    p = metal::fma(p, w, 2.3232644e-08f);
    p = metal::fma(p, w, 4.6617066e-07f);
    p = metal::fma(p, w, -3.4627049e-06f);
    p = metal::fma(p, w, -4.9633477e-06f);
    p = metal::fma(p, w, 2.1834444e-04f);
    p = metal::fma(p, w, -1.2527419e-03f);
    p = metal::fma(p, w, -4.177387e-03f);
    p = metal::fma(p, w, 0.24664028f);
    p = metal::fma(p, w, 1.5014094f);
  } else if (metal::isinf(w)) {
    p = w;
  } else {
    w = metal::precise::sqrt(w) - 3.0f;
    p = 1.02782564e-04f;
    p = metal::fma(p, w, -2.9635237e-04f);
    p = metal::fma(p, w, -3.857901e-05f);
    p = metal::fma(p, w, 1.4684867e-03f);
    p = metal::fma(p, w, -3.6067716e-03f);
    p = metal::fma(p, w, 5.693392e-03f);
    p = metal::fma(p, w, -7.6352875e-03f);
    p = metal::fma(p, w, 9.444526e-03f);
    p = metal::fma(p, w, 1.0016749f);
    p = metal::fma(p, w, 2.8329768f);
  }
  return p * x;
}
""",
        "ranks_above": """\
// Whether `a` comes before `b`, the largest first; NaN is the largest, of equals the earlier.
inline bool ranks_above(float a, uint place_a, float b, uint place_b) {
  return exceeds(a, b) || (same(a, b) && place_a < place_b);
}
""",
        "ranks_below": """\
// Whether `a` comes before `b`, the smallest first; NaN is the largest, of equals the earlier.
inline bool ranks_below(float a, uint place_a, float b, uint place_b) {
  return exceeds(b, a) || (same(a, b) && place_a < place_b);
}
""",
        "simd_smallest": """\
// The smallest value of a simdgroup; NaN is the largest.
inline float simd_smallest(float value) {
  float least = metal::simd_min(metal::isnan(value) ? INFINITY : value);
  return metal::simd_all(metal::isnan(value)) ? NAN : least;
}
""",
        "digit_of": """\
// Digit number `k` of packed words, lowest bits first; it may go on in the next word.
template <uint bits, typename V>
inline uint digit_of(thread const V& words, uint k) {
  uint first = k * bits;
  uint shift = first % 32;
  uint digit = words[first / 32] >> shift;
  if (shift + bits > 32) {
    digit |= words[first / 32 + 1] << (32 - shift);
  }
  return digit & ((1u << bits) - 1);
}
""",
        "load_run": """\
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}
""",
        "packed_eight": """\
// Eight neighbours, aligned like one of them: Metal's own packed vectors end at four.
template <typename T>
struct packed_eight {
  T values[8];
  thread T& operator[](uint i) {
    return values[i];
  }
};
""",
        "packed_five": """\
// Five neighbours, aligned like one of them: 5-bit digits fill whole words no sooner.
template <typename T>
struct packed_five {
  T values[5];
  T operator[](uint i) const {
    return values[i];
  }
};
""",
        "four_bit_float": """\
// Sign, two bits of exponent and one of fraction, put where a half has them.
inline float four_bit_float(uint digit) {
  return float(as_type<half>(ushort((digit & 8u) << 12 | (digit & 7u) << 9))) * 16384.0f;
}
""",
        "eight_bit_float": """\
// Sign, four bits of exponent and three of fraction, put where a half has them; no infinity.
inline float eight_bit_float(uint digit) {
  float value = float(as_type<half>(ushort((digit & 128u) << 8 | (digit & 127u) << 7))) * 256.0f;
  return (digit & 127u) == 127u ? NAN : value;
}
""",
        "power_of_two": """\
// The scale of a microscaling group: an exponent alone.
inline float power_of_two(uint exponent) {
  return exponent == 255u ? NAN : metal::ldexp(1.0f, int(exponent) - 127);
}
""",
        "lanes_sum": """\
// Sum over `count` neighbouring lanes, the same for each of them.
template <uint count>
inline float lanes_sum(float value) {
  for (uint apart = count / 2; apart > 0; apart /= 2) {
    value += metal::simd_shuffle_xor(value, apart);
  }
  return value;
}
""",
        "slots_sum": """\
// Sum over the lanes of a simdgroup that stand `apart` lanes from each other.
template <uint apart>
inline float slots_sum(float value) {
  for (uint distance = apart; distance < 32; distance *= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}
""",
        "simd_maximum": """\
// metal::simd_max() drops NaN; MLX keeps it.
inline float simd_maximum(float value) {
  return metal::simd_any(metal::isnan(value)) ? NAN : metal::simd_max(value);
}
""",
        "simd_minimum": """\
// metal::simd_min() drops NaN; MLX keeps it.
inline float simd_minimum(float value) {
  return metal::simd_any(metal::isnan(value)) ? NAN : metal::simd_min(value);
}
""",
    }
    | {
        f"threadgroup_{word}": f"""\
// {word.capitalize()} over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_{word}(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {{
  value = {function}(value);
  if (simd_lane == 0) {{
    partial[simdgroup] = value;
  }}
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return {function}(partial[simd_lane < simdgroups ? simd_lane : 0]);
}}
"""
        for word, function in (
            ("maximum", "simd_maximum"),
            ("minimum", "simd_minimum"),
            ("max", "metal::simd_max"),
            ("min", "metal::simd_min"),
            ("all", "metal::simd_all"),
            ("any", "metal::simd_any"),
        )
    }
    | {
        f"threadgroup_{word}": f"""\
// {word.capitalize()} over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_{word}(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {{
  value = metal::simd_{word}(value);
  if (simd_lane == 0) {{
    partial[simdgroup] = value;
  }}
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return metal::simd_{word}(simd_lane < simdgroups ? partial[simd_lane] : T({identity}));
}}
"""
        for word, identity in (("sum", 0), ("product", 1))
    }
)

_STEPS = {
    "sum": "result += value",
    "product": "result *= value",
    "max": "result = metal::max(result, value)",
    "min": "result = metal::min(result, value)",
    "maximum": "result = larger(result, value)",
    "minimum": "result = smaller(result, value)",
    "all": "result = result && value",
    "any": "result = result || value",
}
_FUNCTIONS |= {
    f"strips_{word}": f"""\
// {word.capitalize()} over the strips of a threadgroup; `partial` has 32 places for each.
template <typename T>
inline T strips_{word}(T value, threadgroup T* partial, uint strip, uint strips, uint place) {{
  partial[strip * 32 + place] = value;
  // Every strip's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  T result = partial[place];
  for (uint other = 1; other < strips; ++other) {{
    value = partial[other * 32 + place];
    {step};
  }}
  return result;
}}
"""
    for word, step in _STEPS.items()
}

_RUNNING = {
    "sum": ("a + b", "metal::simd_prefix_inclusive_sum(value)"),
    "product": ("a * b", "metal::simd_prefix_inclusive_product(value)"),
    "wide_product": ("wide_product(a, b)", ""),
    "max": ("metal::max(a, b)", ""),
    "min": ("metal::min(a, b)", ""),
    "maximum": ("larger(a, b)", ""),
    "minimum": ("smaller(a, b)", ""),
    "logsumexp": ("logaddexp(a, b)", ""),
}


def _combined(text: str, a: str, b: str) -> str:
    return re.sub(r"\b[ab]\b", lambda match: {"a": a, "b": b}[match[0]], text)


def _running(word: str, combination: str, prefix: str) -> dict[str, str]:
    up, noun = _combined(combination, "below", "value"), word.replace("_", " ")
    prefixes = (
        f"  value = {prefix};\n"
        if prefix
        else f"""\
  for (uint apart = 1; apart < 32; apart *= 2) {{
    T below = metal::simd_shuffle_up(value, apart);
    value = simd_lane < apart ? value : {up};
  }}
"""
    )
    return {
        f"simd_running_{word}": f"""\
// Running {noun} before each lane of a simdgroup, from `carry` on, which moves behind the last.
template <typename T>
inline T simd_running_{word}(T value, thread T& carry, uint simd_lane) {{
{prefixes}  T below = metal::simd_shuffle_up(value, 1);
  T before = simd_lane == 0 ? carry : {_combined(combination, "carry", "below")};
  carry = {_combined(combination, "carry", "metal::simd_broadcast(value, 31)")};
  return before;
}}
""",
        f"threadgroup_running_{word}": f"""\
// Running {noun} before each lane of a threadgroup, from `carry` on, which moves behind the last.
template <typename T>
inline T threadgroup_running_{word}(
    T value, thread T& carry, threadgroup T* partial, uint simdgroup, uint simdgroups,
    uint simd_lane) {{
{prefixes}  T below = metal::simd_shuffle_up(value, 1);
  if (simd_lane == 31) {{
    partial[simdgroup] = value;
  }}
  // Every simdgroup's total is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  T before = carry;
  for (uint other = 0; other < simdgroups; ++other) {{
    before = other == simdgroup ? carry : before;
    carry = {_combined(combination, "carry", "partial[other]")};
  }}
  // Every total is read before the next tile's are written.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return simd_lane == 0 ? before : {_combined(combination, "before", "below")};
}}
""",
    }


for _word, (_text, _prefix) in _RUNNING.items():
    _FUNCTIONS |= _running(_word, _text, _prefix)

_USE = re.compile(r"(?<![\w:.])([a-z]\w*)(?=(?:<[\w<>]+>)?\(|<)")


def header_for(source: str) -> str:
    """Return the definitions of all of this file that `source` uses, transitively."""
    wanted: list[str] = []
    _collect(source, wanted)
    return "\n".join(_FUNCTIONS[name] for name in wanted)


def _collect(text: str, wanted: list[str]) -> None:
    for name in _USE.findall(text):
        if name in _FUNCTIONS and name not in wanted:
            body = _FUNCTIONS[name].replace(f"{name}(", "(")
            _collect(body, wanted)
            wanted.append(name)
