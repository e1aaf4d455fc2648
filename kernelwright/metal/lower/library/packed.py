"""Neighbours read in one access, and the numbers that packed digits stand for."""

PACKED = {
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
    "load_shared": """\
// Neighbouring values of threadgroup memory in one access.
template <typename V, typename T>
inline V load_shared(const threadgroup T* values) {
  return *(const threadgroup V*)values;
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
    "packed_many": """\
// Neighbours of which a thread takes several at each step, aligned like one of them.
template <typename T, uint count>
struct packed_many {
  T values[count];
  thread T& operator[](uint i) {
    return values[i];
  }
};
""",
    "load_around": """\
// `count` neighbours, of which the run that begins `ahead` of them is aligned and read at once.
template <uint ahead, uint width, uint count, typename T>
inline packed_many<T, count> load_around(const device T* run) {
  packed_many<T, count> values;
  for (uint i = 0; i < ahead; ++i) {
    values[i] = run[int(i) - int(ahead)];
  }
  packed_many<T, width> middle = *(const device packed_many<T, width>*)run;
  for (uint i = 0; i < width; ++i) {
    values[ahead + i] = middle[i];
  }
  for (uint i = ahead + width; i < count; ++i) {
    values[i] = run[i - ahead];
  }
  return values;
}
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
}
"""Their definitions, by name."""
