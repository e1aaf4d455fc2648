#include "plain.h"

#include "grid.h"

namespace kw {

namespace {

void run_row(Worker& worker, kw_thread& thread) {
  const Entry entry = worker.launch->request.entry;
  void* const* buffers = worker.buffers;
  for (uint32_t x = 0; x < worker.group_size.x; x++) {
    entry(buffers, &thread);
    thread.position_in_grid.x++;
    thread.position_in_threadgroup.x++;
    thread.index_in_threadgroup++;
    thread.lane = thread.index_in_threadgroup % KW_SIMD_WIDTH;
    thread.simdgroup = thread.index_in_threadgroup / KW_SIMD_WIDTH;
  }
}

void run_shuffled(Worker& worker, kw_thread& thread) {
  const Permutation order(worker.threads, worker.random.next() | 1);
  for (uint32_t i = 0; i < worker.threads; i++) {
    place_thread(worker, (uint32_t)order(i), thread);
    worker.launch->request.entry(worker.buffers, &thread);
  }
}

}  // namespace

void run_in_order(Worker& worker) {
  kw_thread& thread = worker.running->context;
  if (worker.shuffles) return run_shuffled(worker, thread);
  const Row row = worker.launch->request.row;
  for (uint32_t i = 0; i < worker.threads; i += worker.group_size.x) {
    place_thread(worker, i, thread);
    if (row != nullptr)
      row(worker.buffers, &thread, worker.group_size.x);
    else
      run_row(worker, thread);
  }
}

}  // namespace kw
