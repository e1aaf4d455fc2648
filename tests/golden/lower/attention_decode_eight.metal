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

// Sum over `count` neighbouring lanes, the same for each of them.
template <uint count>
inline float lanes_sum(float value) {
  for (uint apart = count / 2; apart > 0; apart /= 2) {
    value += metal::simd_shuffle_xor(value, apart);
  }
  return value;
}

// Sum over the lanes of a simdgroup that stand `apart` lanes from each other.
template <uint apart>
inline float slots_sum(float value) {
  for (uint distance = apart; distance < 32; distance *= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}

// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  float decay = metal::fast::exp(-metal::abs(x));
  return metal::fast::divide(x < 0.0f ? decay : 1.0f, 1.0f + decay);
}

uint group = threadgroup_position_in_grid.z;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup % 8;
uint slot = thread_index_in_simdgroup / 8;
uint start = lane * 8;
// k: f16[2,2,1024,64]
auto k_group = k + group * 65536;
// v: f16[2,2,1024,64]
auto v_group = v + group * 65536;
float scaled[4][8];
for (uint row = 0; row < 4; ++row) {
  auto q_run = load_run<packed_eight<half>>(q + (group * 256 + row * 64 + start));
  for (uint i = 0; i < 8; ++i) {
    scaled[row][i] = float(q_run[i]) * 0.125f;
  }
}
float peak[4];
float total[4] = {};
for (uint row = 0; row < 4; ++row) {
  peak[row] = -FLT_MAX;
}
float attended[4][8] = {};
for (uint first = simdgroup * 8; first < 1024; first += 32) {
  packed_eight<half> v_runs[2];
  for (uint j = 0; j < 2; ++j) {
    uint position = first + j * 4 + slot;
    v_runs[j] = load_run<packed_eight<half>>(v_group + (position * 64 + start));
  }
  float score[2][4] = {};
  for (uint j = 0; j < 2; ++j) {
    uint position = first + j * 4 + slot;
    auto k_run = load_run<packed_eight<half>>(k_group + (position * 64 + start));
    for (uint i = 0; i < 8; ++i) {
      float k_value = k_run[i];
      for (uint row = 0; row < 4; ++row) {
        score[j][row] += scaled[row][i] * k_value;
      }
    }
  }
  for (uint row = 0; row < 4; ++row) {
    float raised = peak[row];
    for (uint j = 0; j < 2; ++j) {
      score[j][row] = lanes_sum<8>(score[j][row]);
      raised = metal::max(raised, score[j][row]);
    }
    if (raised > peak[row]) {
      float kept = metal::fast::exp(peak[row] - raised);
      peak[row] = raised;
      total[row] *= kept;
      for (uint i = 0; i < 8; ++i) {
        attended[row][i] *= kept;
      }
    }
    for (uint j = 0; j < 2; ++j) {
      score[j][row] = metal::fast::exp(score[j][row] - peak[row]);
      total[row] += score[j][row];
    }
  }
  for (uint j = 0; j < 2; ++j) {
    for (uint i = 0; i < 8; ++i) {
      float v_value = v_runs[j][i];
      for (uint row = 0; row < 4; ++row) {
        attended[row][i] += score[j][row] * v_value;
      }
    }
  }
}
for (uint row = 0; row < 4; ++row) {
  float raised = metal::simd_max(peak[row]);
  float kept = metal::fast::exp(peak[row] - raised);
  peak[row] = raised;
  total[row] = slots_sum<8>(total[row] * kept);
  for (uint i = 0; i < 8; ++i) {
    attended[row][i] = slots_sum<8>(attended[row][i] * kept);
  }
}
threadgroup float partial_peak[4][4];
threadgroup float partial_total[4][4];
threadgroup float partial_value[4][4][64];
for (uint row = 0; row < 4; ++row) {
  if (thread_index_in_simdgroup == 0) {
    partial_peak[simdgroup][row] = peak[row];
    partial_total[simdgroup][row] = total[row];
  }
  if (slot == 0) {
    for (uint i = 0; i < 8; ++i) {
      partial_value[simdgroup][row][start + i] = attended[row][i];
    }
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
