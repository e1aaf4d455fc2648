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

void run_shuffled(Worker& worker, Fiber& fiber) {
  const Permutation order(worker.threads, worker.random.next() | 1);
  for (uint32_t i = 0; i < worker.threads; i++) {
    fiber.shape = 0;
    place_thread(worker, (uint32_t)order(i), fiber);
    worker.launch->request.entry(worker.buffers, &fiber.context);
  }
}

}  // namespace

void run_in_order(Worker& worker) {
  Fiber& fiber = *worker.running;
  kw_thread& thread = fiber.context;
  if (worker.shuffles) return run_shuffled(worker, fiber);
  const Row row = worker.launch->request.row;
  for (uint32_t i = 0; i < worker.threads; i += worker.group_size.x) {
    fiber.shape = 0;  // one fiber plays every thread
    place_thread(worker, i, fiber);
    if (row != nullptr)
      row(worker.buffers, &thread, worker.group_size.x);
    else
      run_row(worker, thread);
  }
  fiber.shape = 0;
}

}  // namespace kw
