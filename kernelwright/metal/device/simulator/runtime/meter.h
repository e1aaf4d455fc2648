// What a counting launch costs: traffic after coalescing, conflicts, operations, divergence.
#pragma once

#include <stdint.h>

#include "fiber.h"
#include "launch.h"

namespace kw {

struct Worker;

constexpr uint32_t SECTOR_BYTES = 32;  // the unit in which a GPU's cache talks to memory
constexpr uint32_t BANKS = 32;         // of threadgroup memory, 4 bytes wide

struct BufferTally {
  uint64_t bytes_read, bytes_written;
  uint64_t sectors_read, sectors_written;
  uint64_t reads, writes;  // by simdgroups, of up to 32 lanes each
  uint64_t group_sectors_read;  // distinct ones of each threadgroup
  uint64_t read_rounds;    // runs of a basic block, by a simdgroup, that begin with a read
  uint64_t looped_rounds;  // of those, in loops of one block
  uint64_t unique_bytes_read, unique_bytes_written;
  uint64_t unique_sectors_read, unique_sectors_written;
  // Of those, what both halves of the sample touched.
  uint64_t shared_bytes_read, shared_bytes_written;
  uint64_t shared_sectors_read, shared_sectors_written;
};

// Sums over the threadgroups that were counted; `Tally` of counters.py.
struct Tally {
  BufferTally buffers[MAXIMUM_BUFFERS];
  uint64_t threadgroup_bytes_read, threadgroup_bytes_written;
  uint64_t bank_conflicts;
  uint64_t barriers;         // passed by a threadgroup
  uint64_t simd_operations;  // performed by a simdgroup
  uint64_t operations[KW_OPERATIONS];
  uint64_t divergent_blocks;  // runs by a simdgroup that some of its lanes sat out
  uint64_t counted_groups, counted_threads;
  uint64_t work, sectors;       // of all counted threadgroups
  // The most that any has: no sums.
  uint64_t threadgroup_memory;  // bytes that a threadgroup takes
  uint64_t largest_work;        // of one threadgroup
  uint64_t largest_sectors;
  double work_squares, sector_squares;  // sums over counted threadgroups
};

// What a basic block is. Orders number a function's blocks so that nothing but a loop stands
// between its head and its end; see loop_order.py.
struct BlockRecord {
  uint32_t work;  // operations in a run
  uint32_t order;
  uint32_t end;  // of the loop that it is the head of, else 0
};

// How often each basic block ran: once for every lane, and once for every 32 lanes that a
// simdgroup issues it for, whether they take part or not.
struct BlockTally {
  uint64_t lanes;
  uint64_t issued;
};

// What the accesses of one instruction to one buffer, or to threadgroup memory, came to.
struct SiteTally {
  uint64_t key;  // 0: free; else the access's site and, in the lowest 8 bits, its buffer
  uint64_t sectors;
  uint64_t bank_conflicts;
};

constexpr uint64_t SITES = 2048;  // of a table; what finds no place in it is left out
constexpr uint64_t THREADGROUP_SITE = 255;  // in place of a buffer

// Which bytes of each buffer were touched: a byte for each grain, with a bit for each half of the
// sample. What few threadgroups touch they share, which the halves tell.
struct Footprint {
  // Grains that are looked at together in the end, if any of them was touched.
  static constexpr uint64_t BLOCK = 512;

  unsigned char* read;
  unsigned char* written;
  unsigned char* blocks;
  uint64_t grains;
  uint32_t grain_shift;
};

// What the workers of one launch share.
struct Counting {
  Tally* tally;        // Python's; added to under a lock
  BlockTally* blocks;  // Python's, block_count of them
  uint32_t block_count;
  SiteTally* sites;  // Python's, SITES of them
  Footprint footprints[MAXIMUM_BUFFERS];
};

struct LoggedAccess {
  uint64_t address;
  uint32_t site;
  uint16_t size;
  uint8_t is_write : 1;
  uint8_t begins : 2;  // a Begin
  uint8_t before;      // bytes of the same run of neighbours in front of it, at most 255
};

// What an access is in its lane's run of a basic block.
enum Begin : uint8_t {
  LATER,
  FIRST,     // nothing was logged since the block began
  REPEATED,  // the same, and the lane ran hardly another block since: a plain loop
};

// A lane's run of a basic block.
struct LoggedRun {
  uint64_t turn;   // when it comes, among the lanes of a simdgroup: the lowest goes first
  uint32_t block;  // NO_BLOCK: the rest of a run whose begin was compared before
  uint32_t accesses;
};

constexpr uint32_t NO_BLOCK = ~0u;

// What a thread ran last.
struct LastRun {
  uint64_t turn;
  uint32_t root;  // the first block of the function that calls all others
  uint32_t block, block_before;
  Begin begins;  // what the next access is
};

// What a lane has done since its simdgroup was compared last.
struct LaneLog {
  // A lane logs so many before it waits for the others.
  static constexpr uint32_t ACCESSES = 256, RUNS = 512;

  uint32_t access_count, run_count;
  LoggedAccess accesses[ACCESSES];
  LoggedRun runs[RUNS];
};

// One worker's logs and sums.
struct Meter {
  bool is_on;        // in a threadgroup that is counted, outside of combine functions
  uint32_t counted;  // the threadgroup is counted
  unsigned char half;  // of the sample that it belongs to: 1 or 2
  uint64_t group_work;      // of the threadgroup that runs: issued blocks by their operations
  uint64_t sectors_before;  // of all counted ones before it
  Tally tally;
  BlockTally* blocks;
  SiteTally* sites;
  // By buffer and sector, the last counted threadgroup that read it.
  uint32_t* readers[MAXIMUM_BUFFERS];
  LastRun last[MAXIMUM_THREADS];
  LaneLog lanes[KW_SIMD_WIDTH];
};

// The tally of a key, null where the table is full.
SiteTally* find_site(SiteTally* sites, uint64_t key);

bool open_counting(Counting& counting, const Request& request);
void close_counting(Counting& counting, const Request& request);

bool prepare_meter(Worker& worker);
void release_meter(Worker& worker);
// Decides whether the worker's threadgroup is counted.
void meter_group(Worker& worker);
// Adds the worker's sums to the launch's.
void add_up(Worker& worker);
// Of a fork: nobody adds up, or registers a library, meanwhile.
void hold_tally();
void release_tally();
void hold_modules();
void release_modules();

// Notes that the running thread begins a basic block.
void log_run(Worker& worker, uint32_t block);
void log_access(Worker& worker, const void* address, uint32_t size, uint32_t kind, uint64_t pc);

// Compares and forgets what the lanes of the running simdgroup have logged, but for what a paused
// lane may still take part in. In lockstep.cpp.
void flush_meter(Worker& worker);

}  // namespace kw
