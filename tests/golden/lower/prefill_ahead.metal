// prefill(rows=4, simdgroups=2, keys=32, fixed=1, ahead=1)
// attention: q, k, v -> out; grid (512, 8, 1), threadgroup (64, 1, 1)
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

// Exact to a few roundings of float, by its series where the difference would cancel: for results
// of 16 bits.
inline float quick_tanh(float x) {
  float s = x * x;
  float series = metal::fma(-0.053968254f, s, 0.13333334f);
  series = metal::fma(metal::fma(series, s, -0.33333334f), s * x, x);
  // exp(2 x) by a power of two: 2 / log(2) in one product.
  float inverse = metal::fast::divide(1.0f, 1.0f + metal::fast::exp2(2.885390082f * x));
  float far = metal::fma(-2.0f, inverse, 1.0f);
  return metal::abs(x) < 0.25f ? series : far;
}

// The longest walks begin first.
uint block = threadgroups_per_grid.y - 1 - threadgroup_position_in_grid.y;
uint head = threadgroup_position_in_grid.x;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint quad = lane / 4;
uint part = lane % 4;
// q: f16[1,8,512,64]
auto q_head = q + head * 32768;
// k: f16[1,4,512,64]
auto k_head = k + (head / 2) * 32768;
// v: f16[1,4,512,64]
auto v_head = v + (head / 2) * 32768;
threadgroup half tiles[4608];
threadgroup half* key_tile = tiles;
threadgroup half* value_tile = tiles + 2304;
threadgroup float panel[2304];
threadgroup half weights[2560];
threadgroup half* own_queries = tiles + simdgroup * 576;
threadgroup float* own_panel = panel + simdgroup * 1152;
threadgroup half* own_weights = weights + simdgroup * 1280;
metal::simdgroup_matrix<float, 8, 8> attended[4][8];
#pragma unroll
for (uint m = 0; m < 4; ++m) {
  #pragma unroll
  for (uint n = 0; n < 8; ++n) {
    attended[m][n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}
float peak[4];
float total[4] = {};
#pragma unroll
for (uint m = 0; m < 4; ++m) {
  peak[m] = -FLT_MAX;
}
metal::simdgroup_matrix<half, 8, 8> queries[4][8];
#pragma unroll
for (uint m = 0; m < 4; ++m) {
  for (uint place = thread_index_in_threadgroup; place < 128; place += 64) {
    uint row = place / 8;
    uint query = block * 64 + row / 8 * 32 + m * 8 + row % 8;
    uint start = place % 8 * 8;
    auto q_run = load_run<packed_eight<half>>(q_head + (query * 64 + start));
    *(threadgroup packed_eight<half>*)(tiles + row * 72 + start) = q_run;
  }
  // The queries are written before any simdgroup reads its own.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  #pragma unroll
  for (uint n = 0; n < 8; ++n) {
    metal::simdgroup_load(queries[m][n], own_queries + n * 8, 72);
  }
  // They are read before others take their place.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
uint last = block * 64 + 64;
packed_eight<half> key_ahead[4];
packed_eight<half> value_ahead[4];
#pragma unroll
for (uint turn = 0; turn < 4; ++turn) {
  uint place = thread_index_in_threadgroup + turn * 64;
  uint row = place / 8;
  uint start = place % 8 * 8;
  uint position = row;
  key_ahead[turn] = load_run<packed_eight<half>>(k_head + (position * 64 + start));
}
for (uint first = 0; first < last; first += 32) {
  #pragma unroll
  for (uint turn = 0; turn < 4; ++turn) {
    uint place = thread_index_in_threadgroup + turn * 64;
    uint row = place / 8;
    uint start = place % 8 * 8;
    *(threadgroup packed_eight<half>*)(key_tile + row * 72 + start) = key_ahead[turn];
  }
  // All keys are written, and the values before them read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  #pragma unroll
  for (uint turn = 0; turn < 4; ++turn) {
    uint place = thread_index_in_threadgroup + turn * 64;
    uint row = place / 8;
    uint start = place % 8 * 8;
    uint position = first + row;
    value_ahead[turn] = load_run<packed_eight<half>>(v_head + (position * 64 + start));
  }
  metal::simdgroup_matrix<float, 8, 8> products[4][4];
  #pragma unroll
  for (uint m = 0; m < 4; ++m) {
    #pragma unroll
    for (uint n = 0; n < 4; ++n) {
      products[m][n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }
  #pragma unroll
  for (uint i = 0; i < 8; ++i) {
    #pragma unroll
    for (uint n = 0; n < 4; ++n) {
      metal::simdgroup_matrix<half, 8, 8> right;
      metal::simdgroup_load(right, key_tile + n * 576 + i * 8, 72, ulong2(0), true);
      #pragma unroll
      for (uint m = 0; m < 4; m += 2) {
        metal::simdgroup_multiply_accumulate(products[m][n], queries[m][i], right, products[m][n]);
        metal::simdgroup_multiply_accumulate(products[m + 1][n], queries[m + 1][i], right, products[m + 1][n]);
      }
    }
  }
  #pragma unroll
  for (uint m = 0; m < 4; ++m) {
    #pragma unroll
    for (uint n = 0; n < 4; ++n) {
      metal::simdgroup_store(products[m][n], own_panel + m * 288 + n * 8, 36);
    }
  }
  // A simdgroup's products are written before its lanes read them.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  float kept[4];
  bool is_raised = false;
  #pragma unroll
  for (uint m = 0; m < 4; ++m) {
    uint query = block * 64 + simdgroup * 32 + m * 8 + quad;
    float score[8];
    float raised = -FLT_MAX;
    #pragma unroll
    for (uint j = 0; j < 8; ++j) {
      uint position = first + j * 4 + part;
      float product = own_panel[(m * 8 + quad) * 36 + j * 4 + part];
      bool is_seen = position <= query;
      score[j] = is_seen ? quick_tanh(product * 0.0025f) * 50.0f : -INFINITY;
      raised = metal::max(raised, score[j]);
    }
    raised = metal::quad_max(raised);
    kept[m] = 1.0f;
    if (raised > peak[m] + 8.0f) {
      kept[m] = metal::fast::exp(peak[m] - raised);
      peak[m] = raised;
      total[m] *= kept[m];
      is_raised = true;
    }
    #pragma unroll
    for (uint j = 0; j < 8; ++j) {
      float weight = metal::fast::exp(score[j] - peak[m]);
      total[m] += weight;
      own_weights[(m * 8 + quad) * 40 + j * 4 + part] = half(weight);
    }
  }
  // Its weights are written before they are multiplied.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  if (metal::simd_any(is_raised)) {
    #pragma unroll
    for (uint strip = 0; strip < 2; ++strip) {
      #pragma unroll
      for (uint m = 0; m < 4; ++m) {
        #pragma unroll
        for (uint n = 0; n < 4; ++n) {
          metal::simdgroup_store(attended[m][strip * 4 + n], own_panel + m * 288 + n * 8, 36);
        }
      }
      // The strip is written before its rows are scaled.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
      #pragma unroll
      for (uint m = 0; m < 4; ++m) {
        #pragma unroll
        for (uint j = 0; j < 8; ++j) {
          own_panel[(m * 8 + quad) * 36 + j * 4 + part] *= kept[m];
        }
      }
      // They are scaled before they are read.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
      #pragma unroll
      for (uint m = 0; m < 4; ++m) {
        #pragma unroll
        for (uint n = 0; n < 4; ++n) {
          metal::simdgroup_load(attended[m][strip * 4 + n], own_panel + m * 288 + n * 8, 36);
        }
      }
      // They are read before others take their place.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
  }
  #pragma unroll
  for (uint turn = 0; turn < 4; ++turn) {
    uint place = thread_index_in_threadgroup + turn * 64;
    uint row = place / 8;
    uint start = place % 8 * 8;
    *(threadgroup packed_eight<half>*)(value_tile + row * 72 + start) = value_ahead[turn];
  }
  // All values are written, and the keys before them read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  uint next = first + 32 < last ? first + 32 : first;
  #pragma unroll
  for (uint turn = 0; turn < 4; ++turn) {
    uint place = thread_index_in_threadgroup + turn * 64;
    uint row = place / 8;
    uint start = place % 8 * 8;
    uint position = next + row;
    key_ahead[turn] = load_run<packed_eight<half>>(k_head + (position * 64 + start));
  }
  for (uint inner = 0; inner < 32; inner += 8) {
    metal::simdgroup_matrix<half, 8, 8> left[4];
    #pragma unroll
    for (uint m = 0; m < 4; ++m) {
      metal::simdgroup_load(left[m], own_weights + m * 320 + inner, 40);
    }
    #pragma unroll
    for (uint n = 0; n < 8; ++n) {
      metal::simdgroup_matrix<half, 8, 8> right;
      metal::simdgroup_load(right, value_tile + inner * 72 + n * 8, 72);
      #pragma unroll
      for (uint m = 0; m < 4; m += 2) {
        metal::simdgroup_multiply_accumulate(attended[m][n], left[m], right, attended[m][n]);
        metal::simdgroup_multiply_accumulate(attended[m + 1][n], left[m + 1], right, attended[m + 1][n]);
      }
    }
  }
}
float share[4];
#pragma unroll
for (uint m = 0; m < 4; ++m) {
  share[m] = 1.0f / metal::quad_sum(total[m]);
}
#pragma unroll
for (uint strip = 0; strip < 2; ++strip) {
  #pragma unroll
  for (uint m = 0; m < 4; ++m) {
    #pragma unroll
    for (uint n = 0; n < 4; ++n) {
      metal::simdgroup_store(attended[m][strip * 4 + n], own_panel + m * 288 + n * 8, 36);
    }
  }
  // The strip is written before it is read.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  #pragma unroll
  for (uint m = 0; m < 4; ++m) {
    for (uint place = lane; place < 256; place += 32) {
      uint row = place / 32;
      float result = own_panel[(m * 8 + row) * 36 + place % 32] * metal::simd_shuffle(share[m], row * 4);
      uint query = block * 64 + simdgroup * 32 + m * 8 + row;
      uint column = strip * 32 + place % 32;
      out[head * 32768 + query * 64 + column] = half(result);
    }
  }
  // It is read before the next one takes its place.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
}
