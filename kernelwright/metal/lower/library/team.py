"""Values that lanes join: over a simdgroup, a threadgroup, or strips of one."""

_LANES = {
    "simd_smallest": """\
// The smallest value of a simdgroup; NaN is the largest.
inline float simd_smallest(float value) {
  float least = metal::simd_min(metal::isnan(value) ? INFINITY : value);
  return metal::simd_all(metal::isnan(value)) ? NAN : least;
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
    "lanes_sum": """\
// Sum over those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_sum(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}
""",
    "lanes_max": """\
// The largest value of those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_max(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value = metal::max(value, metal::simd_shuffle_xor(value, distance));
  }
  return value;
}
""",
    "lanes_min": """\
// The smallest value of `count` neighbouring lanes.
template <uint count, typename T>
inline T lanes_min(T value) {
  for (uint distance = count / 2; distance > 0; distance /= 2) {
    value = metal::min(value, metal::simd_shuffle_xor(value, distance));
  }
  return value;
}
""",
    "lanes_maximum": """\
// The largest value of `count` neighbouring lanes; NaN wins, as in MLX.
template <uint count>
inline float lanes_maximum(float value) {
  for (uint distance = count / 2; distance > 0; distance /= 2) {
    value = larger(value, metal::simd_shuffle_xor(value, distance));
  }
  return value;
}
""",
    "lanes_minimum": """\
// The smallest value of `count` neighbouring lanes; NaN wins, as in MLX.
template <uint count>
inline float lanes_minimum(float value) {
  for (uint distance = count / 2; distance > 0; distance /= 2) {
    value = smaller(value, metal::simd_shuffle_xor(value, distance));
  }
  return value;
}
""",
    "own_sum": """\
// Sums `count` values over as many lanes, `apart` from each other; lane `own` gets the sum of its
// value. Each step halves how many are left.
template <uint count, uint apart>
inline float own_sum(thread float* values, uint own) {
  for (uint half = count / 2; half > 0; half /= 2) {
    bool is_upper = (own & half) != 0;
    for (uint i = 0; i < half; ++i) {
      float lower = values[i], upper = values[i + half];
      float sent = metal::simd_shuffle_xor(is_upper ? lower : upper, half * apart);
      values[i] = sent + (is_upper ? upper : lower);
    }
  }
  return values[0];
}
""",
    "turned_sum": """\
// Sums `count` values over as many lanes, `apart` from each other; lane n gets the sum of value n.
// It holds value i ^ n as its i-th, so that each sends what the other keeps, without a choice.
template <uint count, uint apart>
inline float turned_sum(thread float* values) {
  for (uint half = count / 2; half > 0; half /= 2) {
    for (uint i = 0; i < half; ++i) {
      values[i] += metal::simd_shuffle_xor(values[i + half], half * apart);
    }
  }
  return values[0];
}
""",
    "turned_copies": """\
// Copies the values of `count` lanes, `apart` from each other: lane n gets that of lane i ^ n as
// its i-th.
template <uint count, uint apart>
inline void turned_copies(float value, thread float* values) {
  values[0] = value;
  for (uint i = 1; i < count; ++i) {
    values[i] = metal::simd_shuffle_xor(value, i * apart);
  }
}
""",
}
"""Over some or all lanes of a simdgroup."""

_THREADGROUP = {
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
} | {
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
"""Over a threadgroup of whole simdgroups."""

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
_STRIPS = {
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
"""Over the strips of a threadgroup."""

TEAMS = _LANES | _THREADGROUP | _STRIPS
"""Their definitions, by name."""
