// What one instruction of a whole simdgroup costs memory.
#pragma once

#include "meter.h"

namespace kw {

// Adds the accesses that the lanes of a simdgroup made at one place in the code.
void coalesce(Worker& worker, const LoggedAccess* accesses, uint32_t count);

}  // namespace kw
