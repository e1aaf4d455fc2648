// The traces of vetted launches: where they are kept, and what they say at the end.
#pragma once

#include "vet.h"

namespace kw {

// What a phase, or a launch, left in the traces of one buffer or variable.
struct Summary {
  uint64_t written, read;  // grains
  bool is_shared;          // some grain was read and written
  bool is_mixed;           // ... and not by the same thread, as far as the last ones tell
};

// Looks at the traces with one of `tags` tags from `first` on.
Summary summarize(const Tracked& tracked, const Track& track, uint32_t first, uint32_t tags);
// True when no thread can have met another's write.
bool is_orderless(const Summary& summary, uint64_t write_claims, uint64_t read_claims);
// Makes all traces of the worker's threadgroup memory nobody's.
void forget_threadgroup(Examiner& examiner);

}  // namespace kw
