#include "coalesce.h"

#include <string.h>

#include "worker.h"

namespace kw {

namespace {

constexpr uint32_t MOST_SECTORS = 2 * KW_SIMD_WIDTH * 3;

// Distinct sectors; lanes mostly ask for neighbours in order, which the last sector tells.
uint32_t distinct_sectors(const LoggedAccess* accesses, uint32_t count, uint64_t base,
                          uint64_t* seen) {
  uint32_t distinct = 0;
  for (uint32_t i = 0; i < count; i++) {
    // Relative to the buffer: Metal aligns buffers, the arrays here need not be.
    const uint64_t offset = accesses[i].address - base;
    const uint64_t first = offset / SECTOR_BYTES;
    const uint64_t last = (offset + accesses[i].size - 1) / SECTOR_BYTES;
    for (uint64_t sector = first; sector <= last; sector++) {
      bool is_new = true;
      for (uint32_t k = distinct; is_new && k > 0; k--) is_new = seen[k - 1] != sector;
      if (is_new && distinct < MOST_SECTORS) seen[distinct++] = sector;
    }
  }
  return distinct;
}

SiteTally* site_of(Meter& meter, const LoggedAccess& access, uint64_t place) {
  return find_site(meter.sites, (uint64_t)access.site << 8 | place);
}

void mark(unsigned char* marks, const Footprint& footprint, unsigned char half, uint64_t offset,
          uint32_t size) {
  const uint64_t first = offset >> footprint.grain_shift;
  const uint64_t last = (offset + size - 1) >> footprint.grain_shift;
  for (uint64_t grain = first; grain <= last && grain < footprint.grains; grain++) {
    marks[grain] |= half;
    footprint.blocks[grain / Footprint::BLOCK] = 1;
  }
}

// Sectors that the worker's threadgroup did not read before.
uint32_t first_reads(Meter& meter, uint32_t group, uint32_t index, const uint64_t* sectors,
                     uint32_t count) {
  uint32_t* readers = meter.readers[index];
  uint32_t first = 0;
  for (uint32_t i = 0; i < count; i++) {
    first += readers[sectors[i]] != group + 1;
    readers[sectors[i]] = group + 1;
  }
  return first;
}

void add_device(Worker& worker, const Footprint& footprint, const Buffer& buffer, uint32_t index,
                const LoggedAccess* accesses, uint32_t count) {
  Meter& meter = *worker.meter;
  BufferTally& tally = meter.tally.buffers[index];
  uint64_t bytes = 0;
  const bool is_write = accesses[0].is_write;
  for (uint32_t i = 0; i < count; i++) {
    bytes += accesses[i].size;
    mark(is_write ? footprint.written : footprint.read, footprint, meter.half,
         accesses[i].address - (uint64_t)buffer.data, accesses[i].size);
  }
  (is_write ? tally.bytes_written : tally.bytes_read) += bytes;
  (is_write ? tally.writes : tally.reads) += 1;
  uint64_t sectors[MOST_SECTORS];
  const uint32_t distinct = distinct_sectors(accesses, count, (uint64_t)buffer.data, sectors);
  (is_write ? tally.sectors_written : tally.sectors_read) += distinct;
  if (SiteTally* site = site_of(meter, accesses[0], index)) site->sectors += distinct;
  if (is_write) return;
  tally.group_sectors_read += first_reads(meter, worker.group, index, sectors, distinct);
  Begin begin = LATER;
  for (uint32_t i = 0; i < count && begin != FIRST; i++)
    if (accesses[i].begins != LATER) begin = (Begin)accesses[i].begins;
  tally.read_rounds += begin != LATER;
  tally.looped_rounds += begin == REPEATED;
}

// Cycles beyond the first for lanes that share an issue: each bank serves one word a cycle, and
// lanes that want the same word share it.
uint32_t conflicts(const LoggedAccess* accesses, uint32_t count) {
  uint64_t words[BANKS][KW_SIMD_WIDTH];
  uint8_t depth[BANKS] = {};
  uint32_t worst = 1;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t first = accesses[i].address / 4;
    const uint64_t last = (accesses[i].address + accesses[i].size - 1) / 4;
    for (uint64_t word = first; word <= last; word++) {
      const uint32_t bank = word % BANKS;
      bool is_new = true;
      for (uint32_t k = 0; is_new && k < depth[bank]; k++) is_new = words[bank][k] != word;
      if (!is_new || depth[bank] == KW_SIMD_WIDTH) continue;
      words[bank][depth[bank]++] = word;
      if (depth[bank] > worst) worst = depth[bank];
    }
  }
  return worst - 1;
}

void add_threadgroup(Meter& meter, const LoggedAccess* accesses, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; i++) bytes += accesses[i].size;
  (accesses[0].is_write ? meter.tally.threadgroup_bytes_written
                        : meter.tally.threadgroup_bytes_read) += bytes;
  // A vector access is served in as many parts as it has words.
  const uint32_t parts = (accesses[0].size + 3) / 4, lanes = KW_SIMD_WIDTH / parts;
  uint64_t found = 0;
  for (uint32_t i = 0; lanes > 0 && i < count; i += lanes)
    found += conflicts(accesses + i, count - i < lanes ? count - i : lanes);
  meter.tally.bank_conflicts += found;
  SiteTally* site = found ? site_of(meter, accesses[0], THREADGROUP_SITE) : nullptr;
  if (site != nullptr) site->bank_conflicts += found;
}

int buffer_of(const Request& request, uint64_t address) {
  for (uint32_t i = 0; i < request.buffer_count; i++)
    if (address - (uint64_t)request.buffers[i].data < request.buffers[i].size) return (int)i;
  return -1;
}

}  // namespace

void coalesce(Worker& worker, const LoggedAccess* accesses, uint32_t count) {
  const Request& request = worker.launch->request;
  uint32_t first = 0;
  // Lanes that chose between buffers are served one run of lanes at a time.
  while (first < count) {
    const int index = buffer_of(request, accesses[first].address);
    uint32_t end = first + 1;
    if (index >= 0) {
      const Buffer& buffer = request.buffers[index];
      while (end < count && accesses[end].address - (uint64_t)buffer.data < buffer.size) end++;
      add_device(worker, worker.launch->counting->footprints[index], buffer,
                 (uint32_t)index, accesses + first, end - first);
    } else if (worker.memory.contains(accesses[first].address)) {
      while (end < count && worker.memory.contains(accesses[end].address)) end++;
      add_threadgroup(*worker.meter, accesses + first, end - first);
    }
    first = end;
  }
}

}  // namespace kw
