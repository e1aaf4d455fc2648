// Compares what the lanes of a simdgroup did on their own, as though they had done it together.
#include <string.h>

#include "coalesce.h"
#include "meter.h"
#include "worker.h"

namespace kw {

namespace {

// How far the lanes' logs have been compared.
struct Cursor {
  uint32_t run[KW_SIMD_WIDTH];
  uint32_t access[KW_SIMD_WIDTH];
  uint64_t turn[KW_SIMD_WIDTH];  // of the lane's next run; NEVER where there is none
};

constexpr uint64_t NEVER = ~0ull;

void look_ahead(const Meter& meter, Cursor& cursor, uint32_t lane) {
  const LaneLog& log = meter.lanes[lane];
  const uint32_t run = cursor.run[lane];
  cursor.turn[lane] = run < log.run_count ? log.runs[run].turn : NEVER;
}

// The lanes that go on together: those with the lowest turn. Who has left a branch or a loop comes
// later than who is still in it, so that lanes meet again where both lead.
uint32_t next_lanes(const Cursor& cursor) {
  uint64_t lowest = NEVER;
  uint32_t lanes = 0;
  for (uint64_t turn : cursor.turn) lowest = turn < lowest ? turn : lowest;
  if (lowest == NEVER) return 0;
  for (uint32_t lane = 0; lane < KW_SIMD_WIDTH; lane++)
    lanes |= (uint32_t)(cursor.turn[lane] == lowest) << lane;
  return lanes;
}

// Lanes of `lanes` of which more may come: the rest of their last run, or another that is as early.
uint32_t unfinished(const Meter& meter, const Cursor& cursor, uint32_t lanes, uint32_t paused) {
  uint32_t found = 0;
  for (uint32_t rest = paused; rest != 0; rest &= rest - 1) {
    const uint32_t lane = (uint32_t)__builtin_ctz(rest);
    const uint32_t left = meter.lanes[lane].run_count - cursor.run[lane];
    if (left == 0 || (left == 1 && (lanes >> lane & 1))) found |= bit(lane);
  }
  return found;
}

// The accesses of one run, place by place in the code.
void add_accesses(Worker& worker, Cursor& cursor, uint32_t lanes) {
  const Meter& meter = *worker.meter;
  uint32_t end[KW_SIMD_WIDTH];
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t lane = (uint32_t)__builtin_ctz(rest);
    end[lane] = cursor.access[lane] + meter.lanes[lane].runs[cursor.run[lane]].accesses;
  }
  for (;;) {
    uint64_t site = NEVER;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const uint32_t lane = (uint32_t)__builtin_ctz(rest);
      if (cursor.access[lane] == end[lane]) continue;
      const uint32_t own = meter.lanes[lane].accesses[cursor.access[lane]].site;
      site = own < site ? own : site;
    }
    if (site == NEVER) return;
    LoggedAccess together[KW_SIMD_WIDTH];
    uint32_t count = 0;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const uint32_t lane = (uint32_t)__builtin_ctz(rest);
      if (cursor.access[lane] == end[lane]) continue;
      const LoggedAccess& access = meter.lanes[lane].accesses[cursor.access[lane]];
      if (access.site != site) continue;
      together[count++] = access;
      cursor.access[lane]++;
    }
    coalesce(worker, together, count);
  }
}

void add_block(Worker& worker, const Cursor& cursor, uint32_t lanes) {
  Meter& meter = *worker.meter;
  uint32_t block = NO_BLOCK;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t lane = (uint32_t)__builtin_ctz(rest);
    const uint32_t own = meter.lanes[lane].runs[cursor.run[lane]].block;
    if (own == NO_BLOCK) lanes &= ~bit(lane);
    else block = own;
  }
  if (block == NO_BLOCK) return;
  const uint32_t present = worker.simdgroups[worker.simdgroup].present;
  meter.blocks[block].lanes += (uint32_t)__builtin_popcount(lanes);
  meter.blocks[block].issued++;
  meter.group_work += worker.launch->request.block_records[block].work;
  meter.tally.divergent_blocks += lanes != present;
}

// Drops what was compared.
void advance(LaneLog& log, uint32_t runs, uint32_t accesses) {
  log.run_count -= runs;
  log.access_count -= accesses;
  if (runs != 0) memmove(log.runs, log.runs + runs, log.run_count * sizeof *log.runs);
  if (accesses != 0)
    memmove(log.accesses, log.accesses + accesses, log.access_count * sizeof *log.accesses);
}

}  // namespace

void flush_meter(Worker& worker) {
  Meter& meter = *worker.meter;
  const uint32_t paused = worker.simdgroups[worker.simdgroup].paused;
  Cursor cursor = {};
  for (uint32_t lane = 0; lane < KW_SIMD_WIDTH; lane++) look_ahead(meter, cursor, lane);
  for (bool is_first = true;; is_first = false) {
    const uint32_t lanes = next_lanes(cursor);
    // A log that one run fills is compared as far as it goes.
    if (lanes == 0 || (!is_first && unfinished(meter, cursor, lanes, paused))) break;
    add_accesses(worker, cursor, lanes);
    add_block(worker, cursor, lanes);
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const uint32_t lane = (uint32_t)__builtin_ctz(rest);
      cursor.run[lane]++;
      look_ahead(meter, cursor, lane);
    }
  }
  for (uint32_t lane = 0; lane < KW_SIMD_WIDTH; lane++)
    advance(meter.lanes[lane], cursor.run[lane], cursor.access[lane]);
}

}  // namespace kw
