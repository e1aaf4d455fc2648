// prefill(rows=1, simdgroups=4, keys=32)
// attention: q, k, v -> out; grid (1024, 'ceildiv(tokens, 32)', 1), threadgroup (128, 1, 1)
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

uint tokens = q_shape[2];
// The longest walks begin first.
uint block = threadgroups_per_grid.y - 1 - threadgroup_position_in_grid.y;
uint head = threadgroup_position_in_grid.x;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint quad = lane / 4;
uint part = lane % 4;
// q: f16[1,8,tokens,64]
auto q_head = q + head * tokens * 64;
// k: f16[1,4,tokens,64]
auto k_head = k + (head / 2) * tokens * 64;
// v: f16[1,4,tokens,64]
auto v_head = v + (head / 2) * tokens * 64;
threadgroup half tiles[4608];
threadgroup half* key_tile = tiles;
threadgroup half* value_tile = tiles + 2304;
threadgroup float panel[1152];
threadgroup half weights[1280];
threadgroup half* own_queries = tiles + simdgroup * 576;
threadgroup float* own_panel = panel + simdgroup * 288;
threadgroup half* own_weights = weights + simdgroup * 320;
metal::simdgroup_matrix<float, 8, 8> attended[8];
#pragma unroll
for (uint n = 0; n < 8; ++n) {
  attended[n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}
float peak = -FLT_MAX;
float total = 0.0f;
metal::simdgroup_matrix<half, 8, 8> queries[8];
for (uint place = thread_index_in_threadgroup; place < 256; place += 128) {
  uint row = place / 8;
  uint query = metal::min(block * 32 + row, tokens - 1);
  uint start = place % 8 * 8;
  auto q_run = load_run<packed_eight<half>>(q_head + (query * 64 + start));
  *(threadgroup packed_eight<half>*)(tiles + row * 72 + start) = q_run;
}
// The queries are written before any simdgroup reads its own.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
#pragma unroll
for (uint n = 0; n < 8; ++n) {
  metal::simdgroup_load(queries[n], own_queries + n * 8, 72);
}
// They are read before others take their place.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
uint last = metal::min(block * 32 + 32, tokens);
for (uint first = 0; first < last; first += 32) {
  for (uint place = thread_index_in_threadgroup; place < 256; place += 128) {
    uint row = place / 8;
    uint position = metal::min(first + row, tokens - 1);
    uint start = place % 8 * 8;
    auto k_run = load_run<packed_eight<half>>(k_head + (position * 64 + start));
    auto v_run = load_run<packed_eight<half>>(v_head + (position * 64 + start));
    *(threadgroup packed_eight<half>*)(key_tile + row * 72 + start) = k_run;
    *(threadgroup packed_eight<half>*)(value_tile + row * 72 + start) = v_run;
    if (first + row >= tokens) {
      for (uint i = 0; i < 8; ++i) {
        value_tile[row * 72 + start + i] = 0.0f;
      }
    }
  }
  // The tiles are written before any simdgroup reads them.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  metal::simdgroup_matrix<float, 8, 8> products[4];
  #pragma unroll
  for (uint n = 0; n < 4; ++n) {
    products[n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  #pragma unroll
  for (uint i = 0; i < 8; ++i) {
    #pragma unroll
    for (uint n = 0; n < 4; ++n) {
      metal::simdgroup_matrix<half, 8, 8> right;
      metal::simdgroup_load(right, key_tile + n * 576 + i * 8, 72, ulong2(0), true);
      metal::simdgroup_multiply_accumulate(products[n], queries[i], right, products[n]);
    }
  }
  #pragma unroll
  for (uint n = 0; n < 4; ++n) {
    metal::simdgroup_store(products[n], own_panel + n * 8, 36);
  }
  // A simdgroup's products are written before its lanes read them.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  bool is_raised = false;
  uint query = metal::min(block * 32 + simdgroup * 8 + quad, tokens - 1);
  float score[8];
  float raised = -FLT_MAX;
  #pragma unroll
  for (uint j = 0; j < 8; ++j) {
    uint position = first + j * 4 + part;
    float product = own_panel[quad * 36 + j * 4 + part];
    score[j] = -INFINITY;
    if (position < tokens) {
      bool is_seen = position <= query;
      score[j] = is_seen ? quick_tanh(product * 0.0025f) * 50.0f : -INFINITY;
    }
    raised = metal::max(raised, score[j]);
  }
  raised = metal::quad_max(raised);
  float kept = 1.0f;
  if (raised > peak + 8.0f) {
    kept = metal::fast::exp(peak - raised);
    peak = raised;
    total *= kept;
    is_raised = true;
  }
  #pragma unroll
  for (uint j = 0; j < 8; ++j) {
    float weight = metal::fast::exp(score[j] - peak);
    total += weight;
    own_weights[quad * 40 + j * 4 + part] = half(weight);
  }
  // Its weights are written before they are multiplied.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  if (metal::simd_any(is_raised)) {
    #pragma unroll
    for (uint strip = 0; strip < 2; ++strip) {
      #pragma unroll
      for (uint n = 0; n < 4; ++n) {
        metal::simdgroup_store(attended[strip * 4 + n], own_panel + n * 8, 36);
      }
      // The strip is written before its rows are scaled.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
      #pragma unroll
      for (uint j = 0; j < 8; ++j) {
        own_panel[quad * 36 + j * 4 + part] *= kept;
      }
      // They are scaled before they are read.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
      #pragma unroll
      for (uint n = 0; n < 4; ++n) {
        metal::simdgroup_load(attended[strip * 4 + n], own_panel + n * 8, 36);
      }
      // They are read before others take their place.
      simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
  }
  for (uint inner = 0; inner < 32; inner += 8) {
    metal::simdgroup_matrix<half, 8, 8> left;
    metal::simdgroup_load(left, own_weights + inner, 40);
    #pragma unroll
    for (uint n = 0; n < 8; ++n) {
      metal::simdgroup_matrix<half, 8, 8> right;
      metal::simdgroup_load(right, value_tile + inner * 72 + n * 8, 72);
      metal::simdgroup_multiply_accumulate(attended[n], left, right, attended[n]);
    }
  }
  // They are read before the next ones take their place.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
float share = 1.0f / metal::quad_sum(total);
#pragma unroll
for (uint strip = 0; strip < 2; ++strip) {
  #pragma unroll
  for (uint n = 0; n < 4; ++n) {
    metal::simdgroup_store(attended[strip * 4 + n], own_panel + n * 8, 36);
  }
  // The strip is written before it is read.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  for (uint place = lane; place < 256; place += 32) {
    uint row = place / 32;
    float result = own_panel[row * 36 + place % 32] * metal::simd_shuffle(share, row * 4);
    uint query = block * 32 + simdgroup * 8 + row;
    uint column = strip * 32 + place % 32;
    if (query < tokens) {
      out[head * tokens * 64 + query * 64 + column] = half(result);
    }
  }
  // It is read before the next one takes its place.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
}
