#include "plain.h"

#include "grid.h"
#include "observe.h"
#include "scheduler.h"
#include "stack.h"

namespace kw {

namespace {

void run_row(Worker& worker, kw_thread& thread) {
  const Entry entry = worker.code->entry;
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
    worker.code->entry(worker.buffers, &fiber.context);
  }
}

void run_body_and_leave() {
  Worker& worker = *current;
  worker.body(worker);
  abandon(worker);
}

}  // namespace

void run_in_order(Worker& worker) {
  Fiber& fiber = *worker.running;
  kw_thread& thread = fiber.context;
  // An operation that is never come to may have left its path.
  kw_path_end = fiber.path;
  if (worker.shuffles) {
    run_shuffled(worker, fiber);
    return observe_pause(worker);
  }
  const Row row = worker.code->row;
  for (uint32_t i = 0; i < worker.threads; i += worker.group_size.x) {
    fiber.shape = 0;  // one fiber plays every thread
    place_thread(worker, i, fiber);
    if (row != nullptr)
      row(worker.buffers, &thread, worker.group_size.x);
    else
      run_row(worker, thread);
  }
  fiber.shape = 0;
  observe_pause(worker);
}

void run_alone(Worker& worker, void (*body)(Worker&)) {
  Fiber& fiber = worker.fibers[0];
  worker.body = body;
  give_stack(worker, fiber, run_body_and_leave);
  worker.running = &fiber;
  kw_switch(&worker.own_stack, fiber.stack_pointer);
  worker.free_stacks[worker.free_stack_count++] = fiber.stack;
  fiber.stack = NO_STACK;
}

}  // namespace kw
