// What one worker thread owns: the fibers, stacks and threadgroup memory of the threadgroup it runs.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "fiber.h"
#include "launch.h"
#include "order.h"
#include "platform.h"
#include "threadgroup_memory.h"

namespace kw {

constexpr uint64_t SIGNAL_STACK_BYTES = 64 * 1024;
// Uncommitted on both sides of threadgroup memory and of the stacks: what is far out faults. A
// 32-bit index of 4-byte elements stays within the wide one.
constexpr uint64_t WIDE_NO_MANS_LAND = 16ull << 30;
constexpr uint64_t NO_MANS_LAND = 16ull << 20;

struct Examiner;
struct Meter;
struct Shadow;

// A write that conflicts with another thread's access. Whether it changed anything, and so is
// worth a report, shows at the worker's next step only: instrumentation speaks before the store.
struct Pending {
  uint64_t address;
  uint32_t size;  // 0: none
  unsigned char before[16];
  uint64_t pc;
  uint64_t other;  // the bits of the other access's Trace
  uint32_t other_site;
  uint32_t other_is_write;
  uint32_t stands_for_other;  // that access is ordered itself, and one for which it stands is not
  kw_uint3 thread, threadgroup;
};

// Places in device memory that the threadgroup at hand has written by atomic operations.
struct OwnAtomics {
  static constexpr uint32_t MOST = 256;
  uint64_t addresses[MOST];
  uint32_t stale_count;  // loads that were told what was before
  bool is_used;
  bool has_fenced;  // since the last place was added: what was read there orders what follows
};

struct Worker {
  Fiber* running;    // null while the worker itself runs
  void* own_stack;   // the worker's stack pointer while a fiber runs
  Launch* launch;

  const Code* code;  // that the threadgroup at hand runs
  void (*body)(Worker&);  // what a fiber that stands for all threads runs

  // The threadgroup at hand.
  uint64_t group;
  kw_uint3 group_position;
  kw_uint3 group_size;
  uint64_t shape;  // counts changes of group_size over the worker's life
  uint32_t threads, live, waiting;  // waiting: in a threadgroup barrier
  uint32_t simdgroup_count;
  uint32_t ready_simdgroups;
  uint32_t simdgroup;  // index of the one that runs
  bool shuffles;
  Random random;

  // Barriers passed so far that order threadgroup and device memory, for the sanitizer.
  uint32_t threadgroup_phase, device_phase;

  ThreadgroupMemory memory;
  void* buffers[MAXIMUM_BUFFERS + MAXIMUM_ARGUMENTS];

  bool sanitizes;
  // Of a sanitizing launch.
  uint64_t arena_low, arena_size;
  Shadow* shadow;  // of threadgroup memory; kept between launches
  Pending pending;
  // Of the operation at hand: lanes that it needs and that take no part, and who reads one of them, or
  // one that no group has.
  uint32_t missed_lanes, readers;
  uint64_t last_address, last_pc;  // of the last access seen; a fault right after it is its own
  OwnAtomics own_atomics;
  uint64_t constants_low, constants_high;  // addresses known to be the library's own

  uint64_t waits;      // of the launch: how often a fiber has come to a barrier or an operation
  int64_t group_work;  // of a metered launch, what the threadgroup has taken, see work.h

  Meter* meter;  // of a counting launch, else null
  Examiner* examiner;  // of vetted launches; kept between them

  // Of a launch that runs lanes in loops: see wide.h.
  char* frames;
  uint64_t frames_size;
  uint32_t stops[MAXIMUM_THREADS];
  uint32_t parted_simdgroups;  // whose lanes have come to different stops before
  uint64_t paths[MAXIMUM_THREADS];  // of a parted lane: a hash of the stops that it has come to

  uint32_t free_stacks[MAXIMUM_THREADS];
  uint32_t free_stack_count;
  // Since the stacks were last freed: the stacks and fibers that have been in use.
  uint32_t fewest_free_stacks, most_threads;
  Fiber* fibers;
  Simdgroup* simdgroups;
  char* stacks;
  char* signal_stack;

  // Everything above and what it points to lies in one reservation, so one comparison tells
  // whether an address is the simulator's own.
  char* block;
  uint64_t block_size;

  // Not zero where the watchdog must not take the worker away: it holds a lock.
  uint32_t critical;
  uint32_t finished;  // atomic
  Worker* next;       // in the list of idle workers

  // The worker's thread, which waits between launches for the next one.
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t called;
  void (*task)(Worker&);  // behind the lock; null while there is none
  pid_t process;          // whose thread it is; 0: there is none
};

// constinit, or every use would ask whether it has been constructed.
extern constinit thread_local Worker* current KW_TLS;

// A worker with its memory, kept between launches; null without memory.
Worker* take_worker();
void give_worker(Worker* worker);
// Of a fork: nobody takes or gives one meanwhile.
void hold_workers();
void release_workers();
// Has the worker's thread do something; false when the system gives it none.
bool set_to_work(Worker& worker, void (*task)(Worker&));

inline bool owns(const Worker& worker, uint64_t address) {
  return address - (uint64_t)worker.block < worker.block_size;
}
inline bool on_a_stack(const Worker& worker, uint64_t address) {
  return address - (uint64_t)worker.stacks < MAXIMUM_THREADS * STACK_STRIDE;
}

}  // namespace kw
