#include "grid.h"

#include "stale.h"

namespace kw {

namespace {

uint32_t ragged(uint32_t group, uint32_t size, uint32_t grid) {
  uint32_t rest = grid - group * size;
  return rest < size ? rest : size;
}

}  // namespace

kw_uint3 group_position(const Launch& launch, uint64_t group) {
  const kw_uint3 groups = launch.groups;
  return {(uint32_t)(group % groups.x), (uint32_t)(group / groups.x % groups.y),
          (uint32_t)(group / ((uint64_t)groups.x * groups.y))};
}

kw_uint3 group_size(const Launch& launch, kw_uint3 position) {
  const kw_uint3 size = launch.request.threadgroup, grid = launch.request.grid;
  return {ragged(position.x, size.x, grid.x), ragged(position.y, size.y, grid.y),
          ragged(position.z, size.z, grid.z)};
}

void enter_group(Worker& worker, uint64_t group) {
  const Launch& launch = *worker.launch;
  worker.group = group;
  forget_own_atomics(worker);
  worker.group_position = group_position(launch, group);
  const kw_uint3 size = group_size(launch, worker.group_position), before = worker.group_size;
  if (size.x != before.x || size.y != before.y || size.z != before.z) worker.shape++;
  worker.group_size = size;
  worker.threads = worker.group_size.x * worker.group_size.y * worker.group_size.z;
  if (worker.threads > worker.most_threads) worker.most_threads = worker.threads;
  worker.simdgroup_count = (worker.threads + KW_SIMD_WIDTH - 1) / KW_SIMD_WIDTH;
  worker.random.state = launch.request.order_seed + (group + 1) * 0xd1342543de82ef95ull;
}

// The part of a thread's attributes that every threadgroup of one shape shares.
static void place_in_group(const Worker& worker, uint32_t i, kw_thread& thread) {
  const Request& request = worker.launch->request;
  const kw_uint3 size = worker.group_size, whole = request.threadgroup;
  thread.index_in_threadgroup = i;
  thread.position_in_threadgroup = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
  thread.threads_per_threadgroup = size;
  thread.dispatch_threads_per_threadgroup = whole;
  thread.threads_per_grid = request.grid;
  thread.threadgroups_per_grid = worker.launch->groups;
  thread.grid_origin = {0, 0, 0};
  thread.lane = i % KW_SIMD_WIDTH;
  thread.simdgroup = i / KW_SIMD_WIDTH;
  thread.simdgroups = worker.simdgroup_count;
  thread.dispatch_simdgroups = (whole.x * whole.y * whole.z + KW_SIMD_WIDTH - 1) / KW_SIMD_WIDTH;
  const uint32_t rest = worker.threads - thread.simdgroup * KW_SIMD_WIDTH;
  thread.active_lanes = rest < KW_SIMD_WIDTH ? rest : KW_SIMD_WIDTH;
}

void place_thread(const Worker& worker, uint32_t i, Fiber& fiber) {
  kw_thread& thread = fiber.context;
  fiber.instance = 0;
  if (fiber.shape != worker.shape) {
    place_in_group(worker, i, thread);
    fiber.shape = worker.shape;
  }
  const kw_uint3 whole = worker.launch->request.threadgroup, group = worker.group_position;
  const kw_uint3 local = thread.position_in_threadgroup;
  thread.threadgroup_position = group;
  thread.position_in_grid = {group.x * whole.x + local.x, group.y * whole.y + local.y,
                             group.z * whole.z + local.z};
}

}  // namespace kw
