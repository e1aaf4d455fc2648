// attention(lanes=8, queries=4, simdgroups=4, keys=2, chunks=1, fixed=1, vector=8)
// attention_sigmoid_multiply: q, k, v, gate -> out; grid (128, 1, 4), threadgroup (128, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Eight neighbours, aligned like one of them: Metal's own packed vectors end at four.
template <typename T>
struct packed_eight {
  T values[8];
  thread T& operator[](uint i) {
    return values[i];
  }
};

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

// The largest value of those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_max(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value = metal::max(value, metal::simd_shuffle_xor(value, distance));
  }
  return value;
}

// Copies the values of `count` lanes, `apart` from each other: lane n gets that of lane i ^ n as
// its i-th.
template <uint count, uint apart>
inline void turned_copies(float value, thread float* values) {
  values[0] = value;
  for (uint i = 1; i < count; ++i) {
    values[i] = metal::simd_shuffle_xor(value, i * apart);
  }
}

// Sum over those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_sum(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}

// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  return metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-x));
}

uint group = threadgroup_position_in_grid.z;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup % 8;
uint slot = thread_index_in_simdgroup / 8;
uint own_query = lane % 4;
uint own_key = lane / 4;
uint first_lane = thread_index_in_simdgroup - own_key * 4;
uint start = lane * 8;
// k: f16[2,2,1024,64]
auto k_group = k + group * 65536;
// v: f16[2,2,1024,64]
auto v_group = v + group * 65536;
float scaled[4][8];
for (uint row = 0; row < 4; ++row) {
  uint query = row ^ own_query;
  auto q_run = load_run<packed_eight<half>>(q + (group * 256 + query * 64 + start));
  for (uint i = 0; i < 8; ++i) {
    scaled[row][i] = float(q_run[i]) * 0.125f;
  }
}
float peak = -FLT_MAX;
float total = 0.0f;
float attended[4][8] = {};
for (uint first = simdgroup * 8; first < 1024; first += 32) {
  auto k_turn = k_group + (first * 64 + slot * 64 + start);
  auto v_turn = v_group + (first * 64 + slot * 64 + start);
  packed_eight<half> k_runs[2];
  packed_eight<half> v_runs[2];
  for (uint j = 0; j < 2; ++j) {
    k_runs[j] = load_run<packed_eight<half>>(k_turn + j * 256);
    v_runs[j] = load_run<packed_eight<half>>(v_turn + j * 256);
  }
  float score[2];
  for (uint j = 0; j < 2; ++j) {
    float products[4] = {};
    for (uint i = 0; i < 8; ++i) {
      float k_value = k_runs[j][i];
      for (uint row = 0; row < 4; ++row) {
        products[row] += scaled[row][i] * k_value;
      }
    }
    score[j] = turned_sum<4, 1>(products);
  }
  float weight = own_sum<2, 4>(score, own_key);
  if (metal::simd_any(weight > peak + 8.0f)) {
    float raised = lanes_max<32, 4>(metal::max(peak, weight));
    float kept = metal::fast::exp(peak - raised);
    peak = raised;
    total *= kept;
    float shares[4];
    turned_copies<4, 1>(kept, shares);
    for (uint row = 0; row < 4; ++row) {
      for (uint i = 0; i < 8; ++i) {
        attended[row][i] *= shares[row];
      }
    }
  }
  weight = metal::fast::exp(weight - peak);
  total += weight;
  for (uint j = 0; j < 2; ++j) {
    float weights[4];
    turned_copies<4, 1>(metal::simd_shuffle(weight, first_lane + j * 4), weights);
    for (uint i = 0; i < 8; ++i) {
      float v_value = v_runs[j][i];
      for (uint row = 0; row < 4; ++row) {
        attended[row][i] += weights[row] * v_value;
      }
    }
  }
}
total = lanes_sum<32, 4>(total);
threadgroup float partial_peak[4][4];
threadgroup float partial_total[4][4];
threadgroup float partial_value[4][4][64];
if (thread_index_in_simdgroup == own_query) {
  partial_peak[simdgroup][own_query] = peak;
  partial_total[simdgroup][own_query] = total;
}
for (uint row = 0; row < 4; ++row) {
  uint query = row ^ own_query;
  for (uint i = 0; i < 8; i += 4) {
    partial_value[simdgroup][query][start + i + slot] = own_sum<4, 8>(attended[row] + i, slot);
  }
}
// Every simdgroup's part is written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
for (uint place = thread_index_in_threadgroup; place < 256; place += 128) {
  uint row = place / 64;
  uint column = place % 64;
  float row_peak = partial_peak[0][row];
  for (uint part = 1; part < 4; ++part) {
    row_peak = metal::max(row_peak, partial_peak[part][row]);
  }
  float row_total = 0.0f;
  float value_sum = 0.0f;
  for (uint part = 0; part < 4; ++part) {
    float weight = metal::fast::exp(partial_peak[part][row] - row_peak);
    row_total += partial_total[part][row] * weight;
    value_sum += partial_value[part][row][column] * weight;
  }
  float result = value_sum / row_total;
  uint element = group * 256 + row * 64 + column;
  out[element] = half(result * quick_sigmoid(float(gate[element])));
}
