// dense(columns=1, strips=4, teams=1, vector=8, terms=4, chunks=8)
// matmul_add: x, weight -> chunk_sums; grid (128, 1, 8), threadgroup (128, 1, 1)
// Eight neighbours, aligned like one of them: Metal's own packed vectors end at four.
template <typename T>
struct packed_eight {
  T values[8];
  thread T& operator[](uint i) {
    return values[i];
  }
};

// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

uint chunk = threadgroup_position_in_grid.z;
uint lane = thread_index_in_simdgroup;
uint strip = simdgroup_index_in_threadgroup;
uint part = chunk * 4 + strip;
uint start = (threadgroup_position_in_grid.x * 32 + lane) * 8;
float sums[3][8] = {};
if (start < 200) {
  uint first = part * 16;
  uint last = (part + 1) * 16;
  packed_eight<half> weight_ahead[4];
  for (uint j = 0; j < 4; ++j) {
    uint next = first + j;
    weight_ahead[j] = load_run<packed_eight<half>>(weight + (next * 200 + start));
  }
  for (uint base = first; base < last; base += 4) {
    float x_values[3][4];
    for (uint token = 0; token < 3; ++token) {
      auto x_run = load_run<packed_half4>(x + (token * 512 + base));
      for (uint j = 0; j < 4; ++j) {
        x_values[token][j] = x_run[j];
      }
    }
    for (uint j = 0; j < 4; ++j) {
      uint next = metal::min(base + 4, last - 4) + j;
      packed_eight<half> weight_run = weight_ahead[j];
      weight_ahead[j] = load_run<packed_eight<half>>(weight + (next * 200 + start));
      for (uint i = 0; i < 8; ++i) {
        float weight_value = weight_run[i];
        for (uint token = 0; token < 3; ++token) {
          sums[token][i] += x_values[token][j] * weight_value;
        }
      }
    }
  }
}
threadgroup float shared_sums[4][3][256];
for (uint token = 0; token < 3; ++token) {
  for (uint i = 0; i < 8; ++i) {
    shared_sums[strip][token][lane * 8 + i] = sums[token][i];
  }
}
// Every simdgroup's sums are written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
for (uint place = thread_index_in_threadgroup; place < 768; place += 128) {
  uint token = place / 256;
  uint result = threadgroup_position_in_grid.x * 256 + place % 256;
  if (result < 200) {
    float total = 0.0f;
    for (uint other = 0; other < 4; ++other) {
      total += shared_sums[other][token][place % 256];
    }
    chunk_sums[chunk * 600 + token * 200 + result] = total;
  }
}
// matmul_add_merge: residual, chunk_sums -> out; grid (200, 3, 1), threadgroup (64, 1, 1)

uint result = thread_position_in_grid.x;
uint token = thread_position_in_grid.y;
float total = 0.0f;
for (uint chunk = 0; chunk < 8; ++chunk) {
  total += chunk_sums[chunk * 600 + token * 200 + result];
}
out[token * 200 + result] = half(float(residual[result]) + total);
