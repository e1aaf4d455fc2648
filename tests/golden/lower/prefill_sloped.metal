// prefill(rows=1, simdgroups=2, keys=32)
// arange_subtract_cast_multiply_attention: q, k, v, slopes -> out; grid ('ceildiv(tokens, 16) * 64', 8, 1), threadgroup (64, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

uint tokens = q_shape[2];
uint block = threadgroup_position_in_grid.x;
uint head = threadgroup_position_in_grid.y;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint quad = lane / 4;
uint part = lane % 4;
// q: f32[1,8,tokens,20]
auto q_head = q + head * tokens * 20;
// k: f32[1,8,tokens,20]
auto k_head = k + head * tokens * 20;
// v: f32[1,8,tokens,20]
auto v_head = v + head * tokens * 20;
threadgroup float tiles[1792];
threadgroup float* key_tile = tiles;
threadgroup float* value_tile = tiles + 896;
threadgroup float panel[576];
threadgroup float weights[576];
threadgroup float* own_queries = tiles + simdgroup * 224;
threadgroup float* own_panel = panel + simdgroup * 288;
threadgroup float* own_weights = weights + simdgroup * 288;
metal::simdgroup_matrix<float, 8, 8> attended[3];
#pragma unroll
for (uint n = 0; n < 3; ++n) {
  attended[n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}
float peak = -FLT_MAX;
float total = 0.0f;
metal::simdgroup_matrix<float, 8, 8> queries[3];
for (uint place = thread_index_in_threadgroup; place < 96; place += 64) {
  uint row = place / 6;
  uint query = metal::min(block * 16 + row, tokens - 1);
  uint start = place % 6 * 4;
  for (uint i = 0; i < 4; ++i) {
    tiles[row * 28 + start + i] = 0.0f;
  }
  if (start < 20) {
    auto q_run = load_run<packed_float4>(q_head + (query * 20 + start));
    *(threadgroup packed_float4*)(tiles + row * 28 + start) = q_run;
  }
}
// The queries are written before any simdgroup reads its own.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
#pragma unroll
for (uint n = 0; n < 3; ++n) {
  metal::simdgroup_load(queries[n], own_queries + n * 8, 28);
}
// They are read before others take their place.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
for (uint first = 0; first < tokens; first += 32) {
  for (uint place = thread_index_in_threadgroup; place < 192; place += 64) {
    uint row = place / 6;
    uint position = metal::min(first + row, tokens - 1);
    uint start = place % 6 * 4;
    for (uint i = 0; i < 4; ++i) {
      key_tile[row * 28 + start + i] = 0.0f;
      value_tile[row * 28 + start + i] = 0.0f;
    }
    if (start < 20) {
      auto k_run = load_run<packed_float4>(k_head + (position * 20 + start));
      auto v_run = load_run<packed_float4>(v_head + (position * 20 + start));
      *(threadgroup packed_float4*)(key_tile + row * 28 + start) = k_run;
      *(threadgroup packed_float4*)(value_tile + row * 28 + start) = v_run;
      if (first + row >= tokens) {
        for (uint i = 0; i < 4; ++i) {
          value_tile[row * 28 + start + i] = 0.0f;
        }
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
  for (uint i = 0; i < 3; ++i) {
    #pragma unroll
    for (uint n = 0; n < 4; ++n) {
      metal::simdgroup_matrix<float, 8, 8> right;
      metal::simdgroup_load(right, key_tile + n * 224 + i * 8, 28, ulong2(0), true);
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
  uint query = metal::min(block * 16 + simdgroup * 8 + quad, tokens - 1);
  float score[8];
  float raised = -FLT_MAX;
  #pragma unroll
  for (uint j = 0; j < 8; ++j) {
    uint position = first + j * 4 + part;
    float product = own_panel[quad * 36 + j * 4 + part];
    score[j] = -INFINITY;
    if (position < tokens) {
      score[j] = product * 0.25f + slopes[head] * float(int(position) - int(query));
    }
    raised = metal::max(raised, score[j]);
  }
  raised = metal::quad_max(raised);
  float kept = 1.0f;
  if (raised > peak + 8.0f) {
    kept = metal::precise::exp(peak - raised);
    peak = raised;
    total *= kept;
    is_raised = true;
  }
  #pragma unroll
  for (uint j = 0; j < 8; ++j) {
    float weight = metal::precise::exp(score[j] - peak);
    total += weight;
    own_weights[quad * 36 + j * 4 + part] = weight;
  }
  // Its weights are written before they are multiplied.
  simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  if (metal::simd_any(is_raised)) {
    #pragma unroll
    for (uint n = 0; n < 3; ++n) {
      metal::simdgroup_store(attended[n], own_panel + n * 8, 36);
    }
    // The strip is written before its rows are scaled.
    simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    #pragma unroll
    for (uint j = 0; j < 6; ++j) {
      own_panel[quad * 36 + j * 4 + part] *= kept;
    }
    // They are scaled before they are read.
    simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    #pragma unroll
    for (uint n = 0; n < 3; ++n) {
      metal::simdgroup_load(attended[n], own_panel + n * 8, 36);
    }
    // They are read before others take their place.
    simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  }
  for (uint inner = 0; inner < 32; inner += 8) {
    metal::simdgroup_matrix<float, 8, 8> left;
    metal::simdgroup_load(left, own_weights + inner, 36);
    #pragma unroll
    for (uint n = 0; n < 3; ++n) {
      metal::simdgroup_matrix<float, 8, 8> right;
      metal::simdgroup_load(right, value_tile + inner * 28 + n * 8, 28);
      metal::simdgroup_multiply_accumulate(attended[n], left, right, attended[n]);
    }
  }
  // They are read before the next ones take their place.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
float share = 1.0f / metal::quad_sum(total);
#pragma unroll
for (uint n = 0; n < 3; ++n) {
  metal::simdgroup_store(attended[n], own_panel + n * 8, 36);
}
// The strip is written before it is read.
simdgroup_barrier(metal::mem_flags::mem_threadgroup);
for (uint place = lane; place < 192; place += 32) {
  uint row = place / 24;
  float result = own_panel[row * 36 + place % 24] * metal::simd_shuffle(share, row * 4);
  uint query = block * 16 + simdgroup * 8 + row;
  uint column = place % 24;
  if (query < tokens && column < 20) {
    out[head * tokens * 20 + query * 20 + column] = result;
  }
}
