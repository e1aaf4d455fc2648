// What a fork leaves right in the child, which has its parent's memory and none of its threads.
#include "fault.h"
#include "fence.h"
#include "meter.h"
#include "scheduler.h"

using namespace kw;

// Called before a process forks. What others do under these locks takes microseconds; a launch of
// theirs may go on meanwhile, and the child forgets it.
KW_EXPORT void kw_before_fork(void) {
  hold_workers();
  hold_pens();
  hold_tally();
  hold_modules();
}

KW_EXPORT void kw_after_fork_in_parent(void) {
  release_modules();
  release_tally();
  release_pens();
  release_workers();
}

KW_EXPORT void kw_after_fork_in_child(void) {
  kw_after_fork_in_parent();
  forget_launch();
  forget_faults();
}
