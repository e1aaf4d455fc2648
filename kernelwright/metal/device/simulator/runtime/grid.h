// Where threadgroups and threads lie in the grid.
#pragma once

#include "worker.h"

namespace kw {

// Makes threadgroup `group` of the launch the worker's own.
void enter_group(Worker& worker, uint64_t group);
// Fills the attributes of thread `index` of the worker's threadgroup.
void place_thread(const Worker& worker, uint32_t index, kw_thread& thread);

}  // namespace kw
