#include "launch.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access.h"
#include "arena.h"
#include "fault.h"
#include "fence.h"
#include "grid.h"
#include "meter.h"
#include "plain.h"
#include "scheduler.h"
#include "shadow.h"
#include "stack.h"
#include "vet.h"
#include "wide.h"
#include "work.h"

namespace kw {

bool stops(const Launch& launch) { return __atomic_load_n(&launch.stop, __ATOMIC_RELAXED) != 0; }

void fail(Launch& launch, Failure failure, uint64_t pc, uint64_t address, const Worker* worker) {
  if (__atomic_exchange_n(&launch.failed, 1, __ATOMIC_ACQ_REL) == 0) {
    launch.outcome.failure = failure;
    launch.outcome.pc = pc - launch.module_low;
    launch.outcome.address = address;
    if (worker != nullptr && worker->running != nullptr)
      launch.outcome.thread = worker->running->context.position_in_grid;
  }
  __atomic_store_n(&launch.stop, 1, __ATOMIC_RELEASE);
}

namespace {

struct Team {
  Launch launch;
  Arena arena;
  Counting counting;
  Vetting vetting;
  Fencing fencing;
  const Buffer* own;  // of a launch with fences, the caller's arrays
  Worker** workers;
  uint32_t count;
  uint32_t running;  // behind the lock: workers, and who holds the launch
  double start_s;
};

// One launch at a time: signal handlers belong to the process.
pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;

// Of the launch that runs. They outlive it, for a worker that has left it may still be about to let
// go of the lock.
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t ended = PTHREAD_COND_INITIALIZER;  // once nothing runs

// Lets go of a launch, which may be gone afterwards.
void leave(Team& team) {
  pthread_mutex_lock(&lock);
  if (--team.running == 0) pthread_cond_signal(&ended);
  pthread_mutex_unlock(&lock);
}

// Lanes are compared while they are counted, so these wait for each other.
bool shares_a_fiber(const Request& request) {
  return request.vets || (!request.code.waits && !request.counts);
}

bool runs_wide(const Worker& worker) {
  return worker.code->wide != nullptr && !worker.shuffles && fits_wide(worker);
}

void run_group(Worker& worker) {
  const Request& request = worker.launch->request;
  if (request.vets) return run_vetted(worker);
  if (shares_a_fiber(request)) return run_in_order(worker);
  const bool is_uncounted = worker.meter != nullptr && !worker.meter->counted;
  worker.code = is_uncounted ? &request.uncounted : &request.code;
  if (is_uncounted && !request.uncounted.waits)
    run_alone(worker, run_in_order);
  else if (runs_wide(worker))
    run_alone(worker, run_wide);
  else
    run_fibers(worker);
}

void run_batch(Worker& worker, uint64_t first, uint64_t last) {
  Launch& launch = *worker.launch;
  const Permutation order(launch.group_count, launch.request.order_seed);
  for (uint64_t i = first; i < last && !stops(launch); i++) {
    enter_group(worker, order(i));
    if (worker.memory.count != 0) worker.memory.poison((unsigned char)launch.request.poison);
    if (worker.meter != nullptr) meter_group(worker);
    if (launch.request.work_limit == 0) {
      run_group(worker);
      continue;
    }
    open_account(worker);
    run_group(worker);
    close_account(worker);
  }
}

// Takes threadgroups until none is left. Kernels whose threads never wait run here on one fiber.
void run_share(Worker& worker) {
  Launch& launch = *worker.launch;
  while (!stops(launch)) {
    uint64_t first = __atomic_fetch_add(&launch.next_group, launch.group_batch, __ATOMIC_RELAXED);
    if (first >= launch.group_count) return;
    uint64_t last = first + launch.group_batch;
    run_batch(worker, first, last < launch.group_count ? last : launch.group_count);
  }
}

void run_share_on_fiber() {
  run_share(*current);
  abandon(*current);
}

bool place_arguments(Worker& worker) {
  const Request& request = worker.launch->request;
  const Arena* arena = worker.launch->arena;
  const Vetting* vetting = worker.launch->vetting;
  for (uint32_t i = 0; i < request.buffer_count; i++)
    worker.buffers[i] = arena != nullptr     ? arena->slots[i].start
                        : vetting != nullptr ? vetting->data[i]
                                             : request.buffers[i].data;
  worker.memory.limit = request.threadgroup_bytes;
  worker.memory.clear();
  for (uint32_t i = 0; i < request.argument_count; i++) {
    const Argument& argument = request.arguments[i];
    char* address = worker.memory.allocate(ThreadgroupMemory::FIRST_ARGUMENT + i, argument.size, 16,
                                           request.tracks_bytes ? 1 : (uint32_t)argument.itemsize);
    if (address == nullptr) return false;
    worker.buffers[request.buffer_count + i] = address;
  }
  return true;
}

// False without memory.
bool prepare_sanitizer(Worker& worker) {
  worker.pending.size = 0;
  worker.threadgroup_phase = worker.device_phase = 0;
  worker.constants_low = worker.constants_high = 0;
  worker.sanitizes = worker.launch->arena != nullptr;
  if (!worker.sanitizes) return true;
  worker.arena_low = (uint64_t)worker.launch->arena->base;
  worker.arena_size = worker.launch->arena->size;
  if (worker.shadow != nullptr)
    clear_shadow(*worker.shadow);
  else
    worker.shadow = make_shadow(ThreadgroupMemory::BYTES, 0);
  return worker.shadow != nullptr;
}

// What a worker's thread does of a launch.
void work(Worker& worker) {
  Team& team = *(Team*)worker.launch;
  worker.shape++;  // a new launch
  worker.code = &team.launch.request.code;
  worker.group_size = {0, 0, 0};
  free_stacks(worker);
  // Lanes are compared when their simdgroup stops, so counting runs one simdgroup at a time.
  worker.shuffles = team.launch.request.order_seed != 0 && !team.launch.request.counts;
  if (!prepare_sanitizer(worker) || !prepare_meter(worker) || !prepare_wide(worker)) {
    fail(team.launch, NO_MEMORY, 0, 0, nullptr);
  } else if (!place_arguments(worker)) {
    fail(team.launch, THREADGROUP_MEMORY, 0, worker.memory.used, nullptr);
  } else if (!prepare_examiner(worker)) {
    fail(team.launch, SUSPICION, 0, 0, nullptr);
  } else if (!shares_a_fiber(team.launch.request)) {
    run_share(worker);
  } else {
    Fiber& fiber = worker.fibers[0];
    give_stack(worker, fiber, run_share_on_fiber);
    worker.running = &fiber;
    kw_switch(&worker.own_stack, fiber.stack_pointer);
  }
  worker.running = nullptr;
  add_up(worker);
  release_meter(worker);
  __atomic_store_n(&worker.finished, 1, __ATOMIC_RELEASE);
  leave(team);
}

// A worker's stacks are 2048 mappings, of which Linux allows a process 65530.
constexpr uint64_t MOST_WORKERS = 24;

uint32_t useful_workers(const Launch& launch) {
  uint64_t workers = launch.request.workers;
  if (workers > launch.group_count) workers = launch.group_count;
  return (uint32_t)(workers < MOST_WORKERS ? workers : MOST_WORKERS);
}

kw_uint3 groups_of(const Request& request) {
  const kw_uint3 grid = request.grid, size = request.threadgroup;
  // The sum of a grid and a threadgroup may be more than 32 bits hold.
  return {(grid.x - 1) / size.x + 1, (grid.y - 1) / size.y + 1, (grid.z - 1) / size.z + 1};
}

// Up to here one thread mostly ends a launch in the time that starting another takes.
constexpr uint64_t SMALL_THREADS = 1 << 14;

uint32_t first_workers(const Launch& launch) {
  const kw_uint3 grid = launch.request.grid;
  const bool is_small = (uint64_t)grid.x * grid.y * grid.z <= SMALL_THREADS;
  return is_small ? 1 : useful_workers(launch);
}

// Says of a running launch that it goes on for now; false when it has ended.
bool hold(Team& team) {
  pthread_mutex_lock(&lock);
  const bool runs = team.running != 0;
  if (runs) team.running++;
  pthread_mutex_unlock(&lock);
  return runs;
}

// Waits up to `milliseconds` for the end; true when the launch has ended.
bool wait_for_end(Team& team, int milliseconds) {
  constexpr long MILLISECOND_NS = 1000000, SECOND_NS = 1000000000;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000;
  until.tv_nsec += milliseconds % 1000 * MILLISECOND_NS;
  if (until.tv_nsec >= SECOND_NS) until.tv_sec++, until.tv_nsec -= SECOND_NS;
  pthread_mutex_lock(&lock);
  while (team.running != 0 && milliseconds > 0)
    if (pthread_cond_timedwait(&ended, &lock, &until) != 0) break;
  const bool has_ended = team.running == 0;
  pthread_mutex_unlock(&lock);
  return has_ended;
}

// Has so many workers run a launch that is held, and lets go of it.
void start_workers(Team& team, uint32_t wanted) {
  while (team.count < wanted) {
    Worker* worker = take_worker();
    if (worker == nullptr) break;
    worker->launch = &team.launch;
    worker->finished = worker->critical = 0;
    worker->waits = 0;
    worker->running = nullptr;
    hold(team);
    if (!set_to_work(*worker, work)) {
      leave(team);
      give_worker(worker);
      break;
    }
    team.workers[team.count++] = worker;
  }
  if (team.count == 0) fail(team.launch, NO_MEMORY, 0, 0, nullptr);
  leave(team);
}

Team* free_team(Team* team) {
  free(team->launch.fenced);
  free(team->workers);
  free(team);
  return nullptr;
}

// Looks for stray writes, and gives the caller what a launch without any has written.
void end_fencing(Team& team) {
  Launch& launch = team.launch;
  const uint32_t stray = launch.failed ? 0 : find_stray_write(team.fencing, launch.request);
  if (stray != 0) fail(launch, STRAY_WRITE, launch.module_low, stray - 1, nullptr);
  const bool keeps = !launch.failed && launch.request.fences == COPIED;
  close_fencing(team.fencing, team.own, launch.request.buffer_count, keeps);
}

// Where the library of a kernel is loaded; the last answer is kept, for the loader takes long.
uint64_t load_address(const void* entry) {
  static const void* last = nullptr;
  static uint64_t address = 0;
  Dl_info library;
  if (entry != last) {
    address = dladdr(entry, &library) ? (uint64_t)library.dli_fbase : 0;
    last = entry;
  }
  return address;
}

}  // namespace

void forget_launch() {
  pthread_mutex_init(&launching, nullptr);
  pthread_mutex_init(&lock, nullptr);
  pthread_cond_init(&ended, nullptr);
}

}  // namespace kw

using namespace kw;

// Starts a launch on threads of the runtime's own; null when the system has no memory left.
KW_EXPORT Team* kw_start(const Request* request) {
  Team* team = (Team*)calloc(1, sizeof(Team));
  if (team == nullptr) return nullptr;
  team->workers = (Worker**)calloc(request->workers, sizeof(Worker*));
  if (team->workers == nullptr) return free_team(team);
  Launch& launch = team->launch;
  launch.request = *request;
  launch.groups = groups_of(*request);
  launch.group_count = (uint64_t)launch.groups.x * launch.groups.y * launch.groups.z;
  launch.group_batch = launch.group_count / (request->workers * 32ull) + 1;
  if (request->sanitizes) {
    launch.reports = request->reports;
    launch.fenced = (uint8_t*)calloc(launch.group_count / 8 + 1, 1);
    launch.arena = &team->arena;
    if (!open_arena(team->arena, *request)) {
      close_arena(team->arena);
      return free_team(team);
    }
  }
  if (request->counts) {
    launch.counting = &team->counting;
    if (!open_counting(team->counting, *request)) {
      close_counting(team->counting, *request);
      return free_team(team);
    }
  }
  if (request->fences != IN_PLACE) {
    launch.fencing = &team->fencing;
    team->own = request->buffers;
    if (!open_fencing(team->fencing, launch.request)) {
      if (launch.counting != nullptr) close_counting(team->counting, *request);
      return free_team(team);
    }
  }
  pthread_mutex_lock(&launching);
  launch.module_low = load_address((void*)request->code.entry);
  catch_faults();
  team->start_s = now_s();
  if (request->vets) {
    if (open_vetting(team->vetting, *request))
      launch.vetting = &team->vetting;
    else
      fail(launch, SUSPICION, 0, 0, nullptr);
  }
  team->running = 1;
  start_workers(*team, first_workers(launch));
  return team;
}

// Waits up to `milliseconds`; 1 when the launch has ended. A small one that goes on gets the rest of
// its workers.
KW_EXPORT int kw_wait(Team* team, int milliseconds) {
  const uint32_t useful = useful_workers(team->launch);
  if (milliseconds > 0 && team->count < useful) {
    if (wait_for_end(*team, 1)) return 1;
    if (hold(*team)) start_workers(*team, useful);
  }
  return wait_for_end(*team, milliseconds);
}

// Ends the launch, by force when it still runs, and tells how it went.
KW_EXPORT void kw_finish(Team* team, Outcome* outcome) {
  while (!kw_wait(team, 0)) {
    fail(team->launch, TIMEOUT, team->launch.module_low, 0, nullptr);
    for (uint32_t i = 0; i < team->count; i++) {
      if (!__atomic_load_n(&team->workers[i]->finished, __ATOMIC_ACQUIRE))
        pthread_kill(team->workers[i]->thread, WAKE_SIGNAL);
    }
    kw_wait(team, 5);
  }
  if (team->launch.vetting != nullptr) {
    if (!team->launch.failed &&
        !conclude(team->vetting, team->launch.request, team->workers, team->count))
      fail(team->launch, SUSPICION, 0, 0, nullptr);
    close_vetting();
  }
  for (uint32_t i = 0; i < team->count; i++) {
    team->launch.outcome.waits += team->workers[i]->waits;
    give_worker(team->workers[i]);
  }
  team->launch.outcome.work = team->launch.work;
  team->launch.outcome.elapsed_s = now_s() - team->start_s;
  leave_faults();
  pthread_mutex_unlock(&launching);
  if (team->launch.fencing != nullptr) end_fencing(*team);
  *outcome = team->launch.outcome;
  if (team->launch.arena != nullptr) {
    if (team->launch.outcome.failure != PART) copy_out(team->arena, team->launch.request);
    if (!team->launch.failed) report_unwritten(team->launch);
    close_arena(team->arena);
  }
  if (team->launch.counting != nullptr) close_counting(team->counting, team->launch.request);
  free_team(team);
}
