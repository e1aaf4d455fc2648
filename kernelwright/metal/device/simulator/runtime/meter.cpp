#include "meter.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "order.h"
#include "platform.h"
#include "scheduler.h"

namespace kw {

namespace {

pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

struct Marked {
  uint64_t any, both;
};

// Sectors with a mark, which cover `width` marks each: a multiple of 8, as is the allocation.
Marked marked_sectors(const unsigned char* marks, uint64_t count, uint64_t width) {
  constexpr uint64_t FIRST = 0x0101010101010101, SECOND = FIRST << 1;
  Marked sum = {};
  for (uint64_t start = 0; start < count; start += width) {
    uint64_t any = 0, word;
    for (uint64_t i = start; i < start + width; i += sizeof word) {
      memcpy(&word, marks + i, sizeof word);
      any |= word;
    }
    sum.any += any != 0;
    sum.both += (any & FIRST) != 0 && (any & SECOND) != 0;
  }
  return sum;
}

Marked marked(const unsigned char* marks, uint64_t count) {
  Marked sum = {};
  for (uint64_t i = 0; i < count; i++) {
    sum.any += marks[i] != 0;
    sum.both += marks[i] == 3;
  }
  return sum;
}

// Adds up what was touched; most blocks of a sampled launch never were, and are not looked at.
void add_footprint(BufferTally& tally, const Footprint& footprint) {
  const uint32_t shift = footprint.grain_shift;
  const uint64_t width = SECTOR_BYTES >> shift;
  for (uint64_t start = 0; start < footprint.grains; start += Footprint::BLOCK) {
    if (!footprint.blocks[start / Footprint::BLOCK]) continue;
    const uint64_t rest = footprint.grains - start;
    const uint64_t count = rest < Footprint::BLOCK ? rest : Footprint::BLOCK;
    const unsigned char *read = footprint.read + start, *written = footprint.written + start;
    const Marked bytes_read = marked(read, count), bytes_written = marked(written, count);
    const Marked sectors_read = marked_sectors(read, count, width);
    const Marked sectors_written = marked_sectors(written, count, width);
    tally.unique_bytes_read += bytes_read.any << shift;
    tally.unique_bytes_written += bytes_written.any << shift;
    tally.unique_sectors_read += sectors_read.any;
    tally.unique_sectors_written += sectors_written.any;
    tally.shared_bytes_read += bytes_read.both << shift;
    tally.shared_bytes_written += bytes_written.both << shift;
    tally.shared_sectors_read += sectors_read.both;
    tally.shared_sectors_written += sectors_written.both;
  }
}

// Adds an access to the one that it lies right behind, within the same 16 bytes and run of a block:
// GPU compilers join the parts of a vector, which clang's may have split. Where a lane goes on
// beyond two vectors it walks along a row by itself, and its accesses stay apart.
bool join(LaneLog& log, LoggedAccess& access) {
  constexpr uint64_t WIDEST = 16;
  constexpr uint32_t LATEST = 16;
  const uint32_t of_run = log.runs[log.run_count - 1].accesses;
  for (uint32_t back = 1; back <= of_run && back < LATEST; back++) {
    LoggedAccess& front = log.accesses[log.access_count - back];
    if (front.is_write != access.is_write || front.address + front.size != access.address) continue;
    const uint32_t before = (uint32_t)front.before + front.size;
    access.before = (uint8_t)(before < 255 ? before : 255);
    if (before >= 2 * WIDEST || front.size + access.size > WIDEST) return false;
    front.size = (uint16_t)(front.size + access.size);
    return true;
  }
  return false;
}

void add_access(LaneLog& log, LastRun& last, LoggedAccess access) {
  if (last.begins == LATER && join(log, access)) return;
  access.begins = last.begins;
  last.begins = LATER;
  log.accesses[log.access_count++] = access;
  log.runs[log.run_count - 1].accesses++;
}

// Whether a function consists of this block, such as an entry that only calls its kernel.
bool is_single(const BlockRecord& first) { return first.end == first.order + 1; }

LastRun& last_run(Worker& worker) {
  return worker.meter->last[worker.running - worker.fibers];
}

void add(uint64_t* to, const uint64_t* from, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) to[i] += from[i];
}

void add_sites(SiteTally* to, const SiteTally* from) {
  for (uint64_t i = 0; i < SITES; i++) {
    if (from[i].key == 0) continue;
    SiteTally* site = find_site(to, from[i].key);
    if (site == nullptr) continue;
    site->sectors += from[i].sectors;
    site->bank_conflicts += from[i].bank_conflicts;
  }
}

void raise_to(uint64_t& most, uint64_t value) {
  if (value > most) most = value;
}

// Compares the threadgroup that ran last, if it was counted, with the others.
void end_group(Meter& meter, uint32_t buffers) {
  if (!meter.counted) return;
  uint64_t sectors = 0;
  for (uint32_t i = 0; i < buffers; i++)
    sectors += meter.tally.buffers[i].sectors_read + meter.tally.buffers[i].sectors_written;
  raise_to(meter.tally.largest_work, meter.group_work);
  raise_to(meter.tally.largest_sectors, sectors - meter.sectors_before);
  const double work = (double)meter.group_work, moved = (double)(sectors - meter.sectors_before);
  meter.tally.work_squares += work * work;
  meter.tally.sector_squares += moved * moved;
  meter.tally.work += meter.group_work;
  meter.tally.sectors = meter.sectors_before = sectors;
  meter.group_work = 0;
}

}  // namespace

SiteTally* find_site(SiteTally* sites, uint64_t key) {
  const uint64_t start = (key * 0x9e3779b97f4a7c15ull) >> 32;
  for (uint64_t i = 0; i < SITES; i++) {
    SiteTally& site = sites[(start + i) % SITES];
    if (site.key == 0) site.key = key;
    if (site.key == key) return &site;
  }
  return nullptr;
}

bool open_counting(Counting& counting, const Request& request) {
  counting.sites = request.sites;
  counting.tally = request.tally;
  counting.blocks = request.blocks;
  counting.block_count = request.block_count;
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    Footprint& footprint = counting.footprints[i];
    const uint32_t itemsize = request.buffers[i].itemsize;
    footprint.grain_shift = itemsize >= 4 ? 2 : itemsize >= 2 ? 1 : 0;
    // Whole sectors, so that they can be counted by words.
    footprint.grains = round_up(request.buffers[i].size + 1, SECTOR_BYTES) >> footprint.grain_shift;
    const uint64_t blocks = footprint.grains / Footprint::BLOCK + 1;
    footprint.read = (unsigned char*)calloc(1, 2 * footprint.grains + blocks);
    if (footprint.read == nullptr) return false;
    footprint.written = footprint.read + footprint.grains;
    footprint.blocks = footprint.written + footprint.grains;
  }
  return true;
}

void close_counting(Counting& counting, const Request& request) {
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    const Footprint& footprint = counting.footprints[i];
    if (footprint.read == nullptr) continue;
    add_footprint(counting.tally->buffers[i], footprint);
    free(footprint.read);
  }
}

bool prepare_meter(Worker& worker) {
  worker.meter = nullptr;
  const Counting* counting = worker.launch->counting;
  if (counting == nullptr) return true;
  const uint64_t blocks = counting->block_count + 1;
  Meter* meter = (Meter*)calloc(1, sizeof(Meter));
  if (meter == nullptr) return false;
  meter->blocks = (BlockTally*)calloc(blocks, sizeof(BlockTally));
  meter->sites = (SiteTally*)calloc(SITES, sizeof(SiteTally));
  worker.meter = meter;
  const Request& request = worker.launch->request;
  bool is_whole = meter->blocks && meter->sites;
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    // One more than the size fills: an access may begin at the last byte and go on.
    const uint64_t sectors = request.buffers[i].size / SECTOR_BYTES + 2;
    meter->readers[i] = (uint32_t*)calloc(sectors, sizeof(uint32_t));
    is_whole = is_whole && meter->readers[i];
  }
  return is_whole;
}

void release_meter(Worker& worker) {
  if (worker.meter == nullptr) return;
  free(worker.meter->blocks);
  free(worker.meter->sites);
  for (uint32_t* readers : worker.meter->readers) free(readers);
  free(worker.meter);
  worker.meter = nullptr;
}

void meter_group(Worker& worker) {
  Meter& meter = *worker.meter;
  const Request& request = worker.launch->request;
  end_group(meter, request.buffer_count);
  // One of each stretch of threadgroups, drawn by a seed that no kernel knows: neighbours cost
  // alike, no period hides, and nothing can be right or quick where it is counted alone.
  Random random{request.sample_seed + (worker.group / request.sample) * 0xd1342543de82ef95ull};
  meter.counted = worker.group % request.sample == random.next() % request.sample;
  meter.half = random.next() % 2 ? 1 : 2;
  meter.is_on = meter.counted;
  if (!meter.counted) return;
  meter.tally.counted_groups++;
  meter.tally.counted_threads += worker.threads;
  for (uint32_t i = 0; i < worker.threads; i++) meter.last[i] = {0, NO_BLOCK, NO_BLOCK, NO_BLOCK, LATER};
}

void add_up(Worker& worker) {
  if (worker.meter == nullptr) return;
  Meter& meter = *worker.meter;
  const Counting& counting = *worker.launch->counting;
  end_group(meter, worker.launch->request.buffer_count);
  constexpr uint64_t SUMS = offsetof(Tally, threadgroup_memory) / 8;
  pthread_mutex_lock(&adding);
  Tally& whole = *counting.tally;
  add((uint64_t*)&whole, (const uint64_t*)&meter.tally, SUMS);
  raise_to(whole.threadgroup_memory, worker.memory.used);
  raise_to(whole.largest_work, meter.tally.largest_work);
  raise_to(whole.largest_sectors, meter.tally.largest_sectors);
  whole.work_squares += meter.tally.work_squares;
  whole.sector_squares += meter.tally.sector_squares;
  add_sites(counting.sites, meter.sites);
  add((uint64_t*)counting.blocks, (const uint64_t*)meter.blocks, 2ull * counting.block_count);
  pthread_mutex_unlock(&adding);
}

void hold_tally() { pthread_mutex_lock(&adding); }
void release_tally() { pthread_mutex_unlock(&adding); }

void log_run(Worker& worker, uint32_t block) {
  LaneLog& log = worker.meter->lanes[worker.running->lane];
  LastRun& last = last_run(worker);
  if (log.run_count == LaneLog::RUNS) pause(worker);
  const BlockRecord* records = worker.launch->request.block_records;
  const BlockRecord& record = records[block];
  // Who goes round a loop waits at its end for the lanes that are still in the round before.
  const uint32_t before = last.block == NO_BLOCK ? 0 : records[last.block].order;
  const bool goes_round = before >= record.order && before < record.end;
  const uint64_t own = goes_round ? record.end : record.order;
  // What is called comes within the run that calls it.
  const bool has_root = last.root != NO_BLOCK && !is_single(records[last.root]);
  const uint32_t root = has_root ? last.root : block;
  const bool is_called = record.order < records[root].order || record.order >= records[root].end;
  const uint64_t turn = is_called ? last.turn >> 32 << 32 | own : own << 32;
  // The way back to a loop's start is a block of its own.
  const bool is_repeated = block == last.block || block == last.block_before;
  last = {turn, root, block, last.block, is_repeated ? REPEATED : FIRST};
  log.runs[log.run_count++] = {last.turn, block, 0};
}

void log_access(Worker& worker, const void* address, uint32_t size, uint32_t kind, uint64_t pc) {
  LaneLog& log = worker.meter->lanes[worker.running->lane];
  LastRun& last = last_run(worker);
  if (log.access_count + 2 > LaneLog::ACCESSES) pause(worker);
  if (log.run_count == 0) log.runs[log.run_count++] = {last.turn, NO_BLOCK, 0};
  const uint32_t site = (uint32_t)(pc - worker.launch->module_low);
  // Reads come before writes, and are told apart by the site's lowest bit.
  if (kind & READ)
    add_access(log, last, {(uint64_t)address, 2 * site, (uint16_t)size, 0, LATER, 0});
  if (kind & WRITE)
    add_access(log, last, {(uint64_t)address, 2 * site + 1, (uint16_t)size, 1, LATER, 0});
}

}  // namespace kw
