// Where threadgroups and threads lie in the grid.
#pragma once

#include "worker.h"

namespace kw {

kw_uint3 group_position(const Launch& launch, uint64_t group);
// Threads of the threadgroup at a position; fewer at a ragged edge.
kw_uint3 group_size(const Launch& launch, kw_uint3 position);
// Makes threadgroup `group` of the launch the worker's own.
void enter_group(Worker& worker, uint64_t group);
// Makes a fiber thread `index` of the worker's threadgroup.
void place_thread(const Worker& worker, uint32_t index, Fiber& fiber);

}  // namespace kw
