"""Running values before each lane, of sums, products, extremes and sums of exponentials."""

import re

_WIDE = {
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
}
"""Products that leave the range of floats and come back."""

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


RUNNING = _WIDE | {
    name: text
    for word, (combination, prefix) in _RUNNING.items()
    for name, text in _running(word, combination, prefix).items()
}
"""Their definitions, by name."""
