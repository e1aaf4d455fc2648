// prefill(rows=2, simdgroups=2, keys=16, fixed=1)
// attention: q, k, v, sinks -> out; grid (1024, 8, 1), threadgroup (64, 1, 1)
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

uint block = threadgroup_position_in_grid.x;
uint head = threadgroup_position_in_grid.y;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint quad = lane / 4;
uint part = lane % 4;
// q: bf16[1,8,500,128]
auto q_head = q + head * 64000;
// k: bf16[1,8,500,128]
auto k_head = k + head * 64000;
// v: bf16[1,8,500,128]
auto v_head = v + head * 64000;
threadgroup bfloat16_t tiles[4352];
threadgroup bfloat16_t* key_tile = tiles;
threadgroup bfloat16_t* value_tile = tiles + 2176;
threadgroup float panel[640];
threadgroup bfloat16_t weights[768];
threadgroup bfloat16_t* own_queries = tiles + simdgroup * 1088;
threadgroup float* own_panel = panel + simdgroup * 320;
threadgroup bfloat16_t* own_weights = weights + simdgroup * 384;
metal::simdgroup_matrix<float, 8, 8> attended[2][16];
#pragma unroll
for (uint m = 0; m < 2; ++m) {
  #pragma unroll
  for (uint n = 0; n < 16; ++n) {
    attended[m][n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}
float peak[2];
float total[2] = {};
#pragma unroll
for (uint m = 0; m < 2; ++m) {
  peak[m] = -FLT_MAX;
}
metal::simdgroup_matrix<bfloat16_t, 8, 8> queries[2][16];
#pragma unroll
for (uint m = 0; m < 2; ++m) {
  for (uint place = thread_index_in_threadgroup; place < 256; place += 64) {
    uint row = place / 16;
    uint query = metal::min(block * 32 + row / 8 * 16 + m * 8 + row % 8, 499u);
    uint start = place % 16 * 8;
    auto q_run = load_run<packed_eight<bfloat16_t>>(q_head + (query * 128 + start));
    *(threadgroup packed_eight<bfloat16_t>*)(tiles + row * 136 + start) = q_run;
  }
  // The queries are written before any simdgroup reads its own.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  #pragma unroll
  for (uint n = 0; n < 16; ++n) {
    metal::simdgroup_load(queries[m][n], own_queries + n * 8, 136);
  }
  // They are read before others take their place.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
uint earliest = metal::max(block * 32 + 1, 64u) - 64;
uint last = metal::min(block * 32 + 32, 500u);
for (uint first = earliest / 16 * 16; first < last; first += 16) {
  for (uint place = thread_index_in_threadgroup; place < 256; place += 64) {
    uint row = place / 16;
    uint position = metal::min(first + row, 499u);
    uint start = place % 16 * 8;
    auto k_run = load_run<packed_eight<bfloat16_t>>(k_head + (position * 128 + start));
    auto v_run = load_run<packed_eight<bfloat16_t>>(v_head + (position * 128 + start));
    *(threadgroup packed_eight<bfloat16_t>*)(key_tile + row * 136 + start) = k_run;
    *(threadgroup packed_eight<bfloat16_t>*)(value_tile + row * 136 + start) = v_run;
    if (first + row >= 500u) {
      for (uint i = 0; i < 8; ++i) {
        value_tile[row * 136 + start + i] = bfloat16_t(0.0f);
      }
    }
  }
  // The tiles are written before any simdgroup reads them.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  metal::simdgroup_matrix<float, 8, 8> products[2][2];
  #pragma unroll
  for (uint m = 0; m < 2; ++m) {
    #pragma unroll
    for (uint n = 0; n < 2; ++n) {
      products[m][n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }
  #pragma unroll
  for (uint i = 0; i < 16; ++i) {
    #pragma unroll
    for (uint n = 0; n < 2; ++n) {
      metal::simdgroup_matrix<bfloat16_t, 8, 8> right;
      metal::simdgroup_load(right, key_tile + n * 1088 + i * 8, 136, ulong2(0), true);
      metal::simdgroup_multiply_accumulate(products[0][n], queries[0][i], right, products[0][n]);
      metal::simdgroup_multiply_accumulate(products[1][n], queries[1][i], right, products[1][n]);
    }
  }
  #pragma unroll
  for (uint m = 0; m < 2; ++m) {
    #pragma unroll
    for (uint n = 0; n < 2; ++n) {
      metal::simdgroup_store(products[m][n], own_panel + m * 160 + n * 8, 20);
    }
  }
  // A simdgroup's products are written before its lanes read them.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  float kept[2];
  bool is_raised = false;
  #pragma unroll
  for (uint m = 0; m < 2; ++m) {
    uint query = metal::min(block * 32 + simdgroup * 16 + m * 8 + quad, 499u);
    float score[4];
    float raised = -FLT_MAX;
    #pragma unroll
    for (uint j = 0; j < 4; ++j) {
      uint position = first + j * 4 + part;
      float product = own_panel[(m * 8 + quad) * 20 + j * 4 + part];
      score[j] = -INFINITY;
      if (position < 500) {
        bool is_seen = position <= query && position + 64 > query;
        score[j] = is_seen ? product * 0.125f : -INFINITY;
      }
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
    for (uint j = 0; j < 4; ++j) {
      float weight = metal::fast::exp(score[j] - peak[m]);
      total[m] += weight;
      own_weights[(m * 8 + quad) * 24 + j * 4 + part] = bfloat16_t(weight);
    }
  }
  // Its weights are written before they are multiplied.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  if (metal::simd_any(is_raised)) {
    #pragma unroll
    for (uint strip = 0; strip < 8; ++strip) {
      #pragma unroll
      for (uint m = 0; m < 2; ++m) {
        #pragma unroll
        for (uint n = 0; n < 2; ++n) {
          metal::simdgroup_store(attended[m][strip * 2 + n], own_panel + m * 160 + n * 8, 20);
        }
      }
      // The strip is written before its rows are scaled.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
      #pragma unroll
      for (uint m = 0; m < 2; ++m) {
        #pragma unroll
        for (uint j = 0; j < 4; ++j) {
          own_panel[(m * 8 + quad) * 20 + j * 4 + part] *= kept[m];
        }
      }
      // They are scaled before they are read.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
      #pragma unroll
      for (uint m = 0; m < 2; ++m) {
        #pragma unroll
        for (uint n = 0; n < 2; ++n) {
          metal::simdgroup_load(attended[m][strip * 2 + n], own_panel + m * 160 + n * 8, 20);
        }
      }
      // They are read before others take their place.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
  }
  for (uint inner = 0; inner < 16; inner += 8) {
    metal::simdgroup_matrix<bfloat16_t, 8, 8> left[2];
    #pragma unroll
    for (uint m = 0; m < 2; ++m) {
      metal::simdgroup_load(left[m], own_weights + m * 192 + inner, 24);
    }
    #pragma unroll
    for (uint n = 0; n < 16; ++n) {
      metal::simdgroup_matrix<bfloat16_t, 8, 8> right;
      metal::simdgroup_load(right, value_tile + inner * 136 + n * 8, 136);
      metal::simdgroup_multiply_accumulate(attended[0][n], left[0], right, attended[0][n]);
      metal::simdgroup_multiply_accumulate(attended[1][n], left[1], right, attended[1][n]);
    }
  }
  // They are read before the next ones take their place.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
float sinks_value = sinks[head];
float share[2];
#pragma unroll
for (uint m = 0; m < 2; ++m) {
  float raised = metal::max(peak[m], sinks_value);
  float kept = metal::fast::exp(peak[m] - raised);
  float lost = metal::fast::exp(sinks_value - raised);
  share[m] = kept / (metal::quad_sum(total[m]) * kept + lost);
}
#pragma unroll
for (uint strip = 0; strip < 8; ++strip) {
  #pragma unroll
  for (uint m = 0; m < 2; ++m) {
    #pragma unroll
    for (uint n = 0; n < 2; ++n) {
      metal::simdgroup_store(attended[m][strip * 2 + n], own_panel + m * 160 + n * 8, 20);
    }
  }
  // The strip is written before it is read.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  #pragma unroll
  for (uint m = 0; m < 2; ++m) {
    for (uint place = lane; place < 128; place += 32) {
      uint row = place / 16;
      float result = own_panel[(m * 8 + row) * 20 + place % 16] * metal::simd_shuffle(share[m], row * 4);
      uint query = block * 32 + simdgroup * 16 + m * 8 + row;
      uint column = strip * 16 + place % 16;
      if (query < 500) {
        out[head * 64000 + query * 128 + column] = bfloat16_t(result);
      }
    }
  }
  // It is read before the next one takes its place.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
}
