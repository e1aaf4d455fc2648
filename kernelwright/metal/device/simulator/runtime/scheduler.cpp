#include "scheduler.h"

#include "grid.h"
#include "meter.h"
#include "observe.h"
#include "stack.h"

// Behind the last part of the path to where the running thread is: compiled text writes it.
KW_EXPORT constinit thread_local uint64_t* kw_path_end KW_TLS = nullptr;

namespace kw {

namespace {

uint32_t index_of(const Worker& worker, const Fiber& fiber) {
  return (uint32_t)(&fiber - worker.fibers);
}

uint32_t mask_of(uint32_t count) { return count >= 32 ? ~0u : bit(count) - 1; }

// A set bit of `mask`: the lowest, or a random one in a shuffled launch.
uint32_t choose(Worker& worker, uint32_t mask) {
  if (!worker.shuffles) return (uint32_t)__builtin_ctz(mask);
  uint32_t turn = (uint32_t)worker.random.next() & 31;
  uint32_t turned = mask >> turn | mask << ((32 - turn) & 31);
  return ((uint32_t)__builtin_ctz(turned) + turn) & 31;
}

// Whether the control flow has a's place before b's: their paths tell, and where a build has none the
// text does.
bool comes_before(const Fiber& a, const Fiber& b) {
  const uint32_t parts = a.parts < b.parts ? a.parts : b.parts;
  for (uint32_t i = 0; i < parts; i++)
    if (a.path[i] != b.path[i]) return a.path[i] < b.path[i];
  if (a.parts != b.parts) return a.parts < b.parts;
  return order_in_text(a.wait_site) < order_in_text(b.wait_site);
}

// The lane of those that wait that goes on first, as lanes that took a branch or are in a loop do
// before those that wait where it ends.
const Fiber& first_of(const Fiber* lanes, uint32_t waiting) {
  const Fiber* first = &lanes[__builtin_ctz(waiting)];
  for (uint32_t rest = waiting & (waiting - 1); rest != 0; rest &= rest - 1) {
    const Fiber& other = lanes[__builtin_ctz(rest)];
    if (comes_before(other, *first)) first = &other;
  }
  return *first;
}

// Lanes that wait at one place perform their operation without the others, as a GPU's active lanes
// do. Metal leaves undefined what comes of it in barriers.
void release_divergent(Worker& worker, Simdgroup& simdgroup) {
  Fiber* lanes = worker.fibers + simdgroup.index * KW_SIMD_WIDTH;
  const Fiber& first = first_of(lanes, simdgroup.at_simd);
  uint32_t together = 0, astray = 0;
  for (uint32_t rest = simdgroup.at_simd; rest != 0; rest &= rest - 1) {
    const uint32_t lane = (uint32_t)__builtin_ctz(rest);
    const Fiber& other = lanes[lane];
    if (wait_together(other, first))
      together |= bit(lane);
    else if (other.wait_site == first.wait_site && other.wait_combine == first.wait_combine)
      astray |= bit(lane);
  }
  if (first.wait_combine != nullptr) {
    perform(worker, simdgroup, first, together);
  } else {
    pass_barrier(simdgroup);
    observe_divergent_simd(worker, simdgroup, first, {together, astray, 0});
  }
  simdgroup.at_simd &= ~together;
  simdgroup.differs = simdgroup.at_simd != 0;
  simdgroup.ready |= together;
  worker.ready_simdgroups |= bit(simdgroup.index);
}

// No lane of the simdgroup can run: what they have done so far is compared, and those that wait
// for less than a barrier go on.
void settle_simdgroup(Worker& worker, Simdgroup& simdgroup) {
  if (worker.meter != nullptr && worker.meter->counted) flush_meter(worker);
  if (simdgroup.paused != 0) {
    simdgroup.ready = simdgroup.paused;
    simdgroup.paused = 0;
  } else if (simdgroup.at_simd != 0) {
    release_divergent(worker, simdgroup);
  }
}

// The next fiber to run when its simdgroup has none left or chance decides; null when all have
// returned.
Fiber* find_fiber(Worker& worker) {
  for (;;) {
    Simdgroup* simdgroup = &worker.simdgroups[worker.simdgroup];
    if (simdgroup->ready == 0) settle_simdgroup(worker, *simdgroup);
    if (simdgroup->ready == 0 || worker.shuffles) {
      if (simdgroup->ready == 0) worker.ready_simdgroups &= ~bit(worker.simdgroup);
      if (worker.ready_simdgroups == 0) {
        if (worker.live == 0) return nullptr;
        if (stops(*worker.launch)) abandon(worker);
        observe_divergent_barrier(worker);
        release_barrier(worker, ORDERS_DEVICE | ORDERS_THREADGROUP);
      }
      worker.simdgroup = choose(worker, worker.ready_simdgroups);
      simdgroup = &worker.simdgroups[worker.simdgroup];
      if (simdgroup->ready == 0) continue;
    }
    uint32_t lane = choose(worker, simdgroup->ready);
    simdgroup->ready &= ~bit(lane);
    return &worker.fibers[worker.simdgroup * KW_SIMD_WIDTH + lane];
  }
}

// The next fiber to run after one of `simdgroup`. Lanes follow each other until all have stopped:
// their stacks and the slots that they share are still in the cache.
Fiber* next_fiber(Worker& worker, Simdgroup& simdgroup) {
  const uint32_t ready = simdgroup.ready;
  if (ready == 0 || worker.shuffles) return find_fiber(worker);
  simdgroup.ready = ready & (ready - 1);
  return &worker.fibers[simdgroup.index * KW_SIMD_WIDTH + (uint32_t)__builtin_ctz(ready)];
}

// The bottom of every fiber. A thread that returns hands its stack to the next one that has not
// started, so threads that never wait run in a loop without a switch.
void run_threads() {
  Worker& worker = *current;
  const Entry entry = worker.code->entry;
  for (;;) {
    Fiber& fiber = *worker.running;
    kw_path_end = fiber.path;
    entry(worker.buffers, &fiber.context);
    observe_return(worker, fiber);
    worker.live--;
    fiber.simdgroup->live &= ~bit(fiber.lane);
    const uint32_t stack = fiber.stack;
    fiber.stack = NO_STACK;
    Fiber* next = stops(*worker.launch) ? nullptr : next_fiber(worker, *fiber.simdgroup);
    worker.running = next;
    if (next != nullptr && next->stack == NO_STACK) {
      place_thread(worker, index_of(worker, *next), *next);
      next->stack = stack;
      continue;
    }
    worker.free_stacks[worker.free_stack_count++] = stack;
    if (next != nullptr) kw_path_end = next->path_end;
    kw_switch(&fiber.stack_pointer, next != nullptr ? next->stack_pointer : worker.own_stack);
  }
}

}  // namespace

void wait(Worker& worker, Fiber& fiber) {
  Fiber* next = next_fiber(worker, *fiber.simdgroup);
  if (next == &fiber) return;
  fiber.path_end = kw_path_end;
  worker.running = next;
  if (next->stack == NO_STACK) {
    if (stops(*worker.launch)) abandon(worker);
    place_thread(worker, index_of(worker, *next), *next);
    give_stack(worker, *next, run_threads);
  }
  kw_path_end = next->path_end;
  kw_switch(&fiber.stack_pointer, next->stack_pointer);
}

void pause(Worker& worker) {
  Fiber& fiber = *worker.running;
  fiber.simdgroup->paused |= bit(fiber.lane);
  wait(worker, fiber);
}

void perform(Worker& worker, Simdgroup& simdgroup, const Fiber& first, uint32_t lanes) {
  const kw_combine combine = first.wait_combine;
  worker.missed_lanes = worker.readers = 0;
  Meter* meter = worker.meter;
  if (meter == nullptr) {
    combine(simdgroup.in, lanes, simdgroup.out);
    observe_missed_lanes(worker, simdgroup, first, lanes);
    return;
  }
  // What computes the results stands for hardware, not for the kernel's own operations.
  meter->is_on = false;
  combine(simdgroup.in, lanes, simdgroup.out);
  meter->is_on = meter->counted;
  meter->tally.simd_operations += meter->counted;
}

void pass_barrier(Simdgroup& simdgroup) {
  if (simdgroup.flags & ORDERS_DEVICE) simdgroup.device_epoch++;
  if (simdgroup.flags & ORDERS_THREADGROUP) simdgroup.threadgroup_epoch++;
}

void release_barrier(Worker& worker, uint32_t flags) {
  for (uint32_t i = 0; i < worker.simdgroup_count; i++) {
    Simdgroup& simdgroup = worker.simdgroups[i];
    simdgroup.ready |= simdgroup.at_barrier;
    simdgroup.at_barrier = 0;
    if (simdgroup.ready != 0) worker.ready_simdgroups |= bit(i);
  }
  worker.waiting = 0;
  if (worker.meter != nullptr) worker.meter->tally.barriers += worker.meter->counted;
  if (flags & ORDERS_THREADGROUP) worker.threadgroup_phase++;
  if (flags & ORDERS_DEVICE) worker.device_phase++;
}

void run_fibers(Worker& worker) {
  for (uint32_t i = 0; i < worker.simdgroup_count; i++) {
    Simdgroup& simdgroup = worker.simdgroups[i];
    simdgroup.present = mask_of(worker.threads - i * KW_SIMD_WIDTH);
    simdgroup.live = simdgroup.ready = simdgroup.present;
    simdgroup.at_simd = simdgroup.at_barrier = simdgroup.paused = 0;
    simdgroup.device_epoch = simdgroup.threadgroup_epoch = 0;
  }
  worker.live = worker.threads;
  worker.waiting = 0;
  worker.simdgroup = 0;
  worker.ready_simdgroups = mask_of(worker.simdgroup_count);

  Fiber* first = find_fiber(worker);
  place_thread(worker, index_of(worker, *first), *first);
  give_stack(worker, *first, run_threads);
  worker.running = first;
  kw_switch(&worker.own_stack, first->stack_pointer);
  worker.running = nullptr;
}

}  // namespace kw
