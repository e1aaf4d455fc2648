#include "worker.h"

#include <unistd.h>

#include "fault.h"

namespace kw {

constinit thread_local Worker* current KW_TLS = nullptr;

namespace {

pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
Worker* idle = nullptr;

// Stack i occupies the top STACK_BYTES of its stride; the rest stays uncommitted.
bool commit_stacks(char* stacks) {
  for (uint32_t i = 0; i < MAXIMUM_THREADS; i++) {
    char* top = stacks + (i + 1) * STACK_STRIDE;
    if (!commit(top - STACK_BYTES, STACK_BYTES)) return false;
  }
  return true;
}

Worker* make_worker(uint64_t no_mans_land) {
  const uint64_t page = page_size();
  const uint64_t head = round_up(sizeof(Worker), page);
  const uint64_t fibers = round_up(MAXIMUM_THREADS * sizeof(Fiber), page);
  const uint64_t simdgroups = round_up(MAXIMUM_SIMDGROUPS * sizeof(Simdgroup), page);
  const uint64_t records = head + fibers + simdgroups + SIGNAL_STACK_BYTES;
  const uint64_t memory = round_up(ThreadgroupMemory::BYTES, page);
  const uint64_t size = records + memory + MAXIMUM_THREADS * STACK_STRIDE + 3 * no_mans_land;
  char* block = reserve(size);
  if (block == nullptr) return nullptr;
  char* memory_start = block + records + no_mans_land;
  char* stacks = memory_start + memory + no_mans_land;
  if (!commit(block, records) || !commit(memory_start, memory) || !commit_stacks(stacks)) {
    release(block, size);
    return nullptr;
  }
  Worker* worker = (Worker*)block;
  worker->block = block;
  worker->block_size = size;
  worker->fibers = (Fiber*)(block + head);
  worker->simdgroups = (Simdgroup*)(block + head + fibers);
  worker->signal_stack = block + head + fibers + simdgroups;
  worker->memory.base = memory_start;
  worker->stacks = stacks;
  worker->most_threads = MAXIMUM_THREADS;  // none of whose fibers says yet that it has no stack
  for (uint32_t i = 0; i < MAXIMUM_THREADS; i++) {
    worker->fibers[i].simdgroup = &worker->simdgroups[i / KW_SIMD_WIDTH];
    worker->fibers[i].lane = i % KW_SIMD_WIDTH;
  }
  for (uint32_t i = 0; i < MAXIMUM_SIMDGROUPS; i++) worker->simdgroups[i].index = i;
  return worker;
}

void* serve(void* opaque) {
  Worker& worker = *(Worker*)opaque;
  current = &worker;
  take_faults_only();
  use_signal_stack(worker);
  for (;;) {
    pthread_mutex_lock(&worker.lock);
    while (worker.task == nullptr) pthread_cond_wait(&worker.called, &worker.lock);
    void (*const task)(Worker&) = worker.task;
    worker.task = nullptr;
    pthread_mutex_unlock(&worker.lock);
    task(worker);
  }
}

// Starts the worker's thread, which a forked process lacks.
bool start_thread(Worker& worker) {
  pthread_mutex_init(&worker.lock, nullptr);
  pthread_cond_init(&worker.called, nullptr);
  worker.task = nullptr;
  if (pthread_create(&worker.thread, nullptr, serve, &worker) != 0) return false;
  pthread_detach(worker.thread);
  worker.process = getpid();
  return true;
}

}  // namespace

bool set_to_work(Worker& worker, void (*task)(Worker&)) {
  if (worker.process != getpid() && !start_thread(worker)) return false;
  pthread_mutex_lock(&worker.lock);
  worker.task = task;
  pthread_cond_signal(&worker.called);
  pthread_mutex_unlock(&worker.lock);
  return true;
}

Worker* take_worker() {
  pthread_mutex_lock(&idle_lock);
  Worker* worker = idle;
  if (worker != nullptr) idle = worker->next;
  pthread_mutex_unlock(&idle_lock);
  if (worker == nullptr) worker = make_worker(WIDE_NO_MANS_LAND);
  // A limit on address space (ulimit -v) leaves narrower margins.
  return worker != nullptr ? worker : make_worker(NO_MANS_LAND);
}

void give_worker(Worker* worker) {
  pthread_mutex_lock(&idle_lock);
  worker->next = idle;
  idle = worker;
  pthread_mutex_unlock(&idle_lock);
}

void hold_workers() { pthread_mutex_lock(&idle_lock); }
void release_workers() { pthread_mutex_unlock(&idle_lock); }

}  // namespace kw
