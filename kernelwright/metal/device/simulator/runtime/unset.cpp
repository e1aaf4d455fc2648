// What variables hold that their declarations have not set: zero, or in some threads a word of the
// launch's, so that what hangs on it shows.
#include "worker.h"

using namespace kw;

KW_EXPORT kw_uint kw_unset(kw_uint number) {
  const Worker& worker = *current;
  const Request& request = worker.launch->request;
  if (number - request.unset_first >= request.unset_count) return 0;
  const kw_uint3 at = worker.running->context.position_in_grid, grid = request.grid;
  const uint64_t thread = at.x + grid.x * (at.y + (uint64_t)grid.y * at.z);
  const bool is_chosen = thread - request.unset_thread < request.unset_threads;
  return is_chosen ? request.unset_word : 0;
}
