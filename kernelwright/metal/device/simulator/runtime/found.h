// Fills the parts that reports have in common.
#pragma once

#include "access.h"
#include "report.h"
#include "threadgroup_memory.h"

namespace kw {

// A new report about the running thread at `pc`; null when it is not new.
Report* found(Worker& worker, Kind kind, uint64_t pc, uint32_t variable = 0);
// Names the buffer, variable or argument that `address` belongs to or is nearest to.
void locate(Worker& worker, Report& report, uint64_t address);
// Position in the grid of thread `index` of threadgroup `group`.
kw_uint3 position_of(const Launch& launch, uint64_t group, uint32_t index);

}  // namespace kw
