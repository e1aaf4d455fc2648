// Relaxed atomics between threadgroups: unless both sides have fenced, a load may miss what another
// threadgroup has stored, and a GPU's does. A sanitizing launch lets each such load miss it.
#pragma once

#include <stdint.h>

#include "worker.h"

namespace kw {

// What a load finds that misses all of other threadgroups; null where it must see what is there.
const void* stale_value(Worker& worker, uint64_t address, uint32_t size);
// The threadgroup at hand has written a place, so it sees what follows there.
void note_own_atomic(Worker& worker, uint64_t address);
void note_fence(Worker& worker);
void forget_own_atomics(Worker& worker);

}  // namespace kw
