#include "suspicion.h"

#include <stdlib.h>
#include <string.h>

#include "platform.h"
#include "worker.h"

namespace kw {

namespace {

// An index of 32 bits that misses stays in the reservation, half of which lies on either side: no
// element is larger than 16 bytes, nor are the traces of one.
constexpr uint64_t RANGE = 128ull << 30;
// Indices are taken not to wrap around, which larger buffers would need.
constexpr uint64_t LARGEST_BUFFER = 1ull << 30;
// What vetted kernels take their arguments to be multiples of; marked.py tells the compiler.
constexpr uint64_t ALIGNMENT = 16;
// What launches leave behind for the next one, so that it need not fault the pages in again.
constexpr uint64_t MOST_KEPT = 256ull << 20;

// Memory in the middle of a wide reservation; kept from launch to launch.
struct Room {
  char* base;
  uint64_t size;  // committed
  uint64_t skew;  // of what begins in it

  char* middle() const {
    return (char*)round_up((uint64_t)base + RANGE / 2, HUGE_PAGE_BYTES);
  }
  char* start() const { return middle() + skew; }
  bool make(uint64_t wanted) {
    wanted = round_up(wanted + skew, HUGE_PAGE_BYTES);
    if (base == nullptr) base = reserve(RANGE);
    if (base == nullptr) return false;
    if (wanted <= size) return true;
    if (!commit(middle() + size, wanted - size)) return false;
    prefer_huge_pages(middle() + size, wanted - size);
    size = wanted;
    return true;
  }
  void forget() {
    if (size != 0) discard(middle(), size);
  }
  // Unlike forgotten pages, none of it counts against a limit on memory any more.
  void leave() {
    if (base != nullptr) release(base, RANGE);
    base = nullptr;
    size = 0;
  }
};

// One launch at a time uses them.
Room data[MAXIMUM_BUFFERS], writes[MAXIMUM_BUFFERS], reads[MAXIMUM_BUFFERS];
uint32_t next_tag = 1;

void forget_traces() {
  for (Room& room : writes) room.forget();
  for (Room& room : reads) room.forget();
  next_tag = 1;
}

// Buffers and traces are gone through side by side. Where they begin at one distance from a large
// power of two, their addresses are alike in all bits that a cache looks at first (10 ms against 5
// for a multiplication of 4 million elements).
void stagger_rooms() {
  for (uint32_t i = 0; i < MAXIMUM_BUFFERS; i++) {
    data[i].skew = (3 * i * 13 % 61) * page_size();
    writes[i].skew = ((3 * i + 1) * 13 % 61) * page_size();
    reads[i].skew = ((3 * i + 2) * 13 % 61) * page_size();
  }
}

uint64_t trace_bytes(const Tracked& tracked, uint64_t size) { return size << tracked.scale; }

// True when the buffer can be written in place of a copy: nothing is written.
bool open_buffer(Vetting& vetting, const Request& request, const Tracked& tracked) {
  const uint32_t i = tracked.slot;
  const Buffer& buffer = request.buffers[i];
  if (!tracked.is_written) return buffer.initialised || !tracked.is_read;
  if (!buffer.writable) return false;
  const uint64_t bytes = trace_bytes(tracked, buffer.size);
  if (!data[i].make(buffer.size) || !writes[i].make(bytes)) return false;
  if (tracked.is_read && !reads[i].make(bytes)) return false;
  vetting.is_copied[i] = true;
  vetting.data[i] = data[i].start();
  // What holds nothing yet is all written, or the launch is suspicious.
  if (buffer.initialised) memcpy(vetting.data[i], buffer.data, buffer.size);
  return true;
}

bool take_tags(Vetting& vetting, const Request& request) {
  const kw_uint3 grid = request.grid, size = request.threadgroup;
  const uint64_t groups = (uint64_t)((grid.x + size.x - 1) / size.x) *
                          ((grid.y + size.y - 1) / size.y) * ((grid.z + size.z - 1) / size.z);
  const uint64_t tags = groups * size.x * size.y * size.z;
  if (tags >= 1ull << 31) return false;
  if (next_tag + tags >= 1ull << 32) forget_traces();
  vetting.first_tag = next_tag;
  vetting.tags = (uint32_t)tags;
  next_tag += (uint32_t)tags;
  return true;
}

void track_buffer(Examiner& examiner, const Vetting& vetting, const Request& request,
                  uint32_t i) {
  Track& track = examiner.findings.tracks[i];
  const Buffer& buffer = request.buffers[i];
  track = {vetting.data[i], buffer.size, nullptr, nullptr, &examiner.device_tag, 0, ~0u, 0, 0};
  if (!vetting.is_copied[i]) return;
  track.writes = writes[i].start();
  track.reads = reads[i].base != nullptr ? reads[i].start() : nullptr;
  if (buffer.initialised) return;
  track.lowest = vetting.first_tag;
  track.span = vetting.tags - 1;
}

void track_memory(Worker& worker, uint32_t slot, char* address, uint64_t size) {
  Examiner& examiner = *worker.examiner;
  const uint64_t offset = 4 * (uint64_t)(address - worker.memory.start());
  examiner.findings.tracks[slot] = {address, size, examiner.writes + offset,
                                    examiner.reads + offset, &examiner.threadgroup_tag, 1,
                                    0x7fffffff, 0, 0};
}

char* place_variable(ThreadgroupMemory& memory, const Tracked& tracked) {
  if (char* address = memory.find(tracked.id, tracked.size)) return address;
  return memory.allocate(tracked.id, tracked.size, tracked.alignment, 4);
}

bool make_examiner(Worker& worker) {
  if (worker.examiner != nullptr) return true;
  Examiner* examiner = (Examiner*)calloc(1, sizeof(Examiner));
  if (examiner == nullptr) return false;
  Room written{}, read{};
  read.skew = page_size();
  if (!written.make(4 * ThreadgroupMemory::BYTES) || !read.make(4 * ThreadgroupMemory::BYTES))
    return false;
  examiner->writes = written.start();
  examiner->reads = read.start();
  examiner->phase = 1;
  worker.examiner = examiner;
  return true;
}

}  // namespace

bool open_vetting(Vetting& vetting, const Request& request) {
  stagger_rooms();
  vetting.vet = request.code.vet;
  if (!take_tags(vetting, request)) return false;
  uint64_t touched = 0;
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    const Buffer& buffer = request.buffers[i];
    vetting.data[i] = buffer.data;
    if (buffer.size >= LARGEST_BUFFER) return false;
    if ((uint64_t)buffer.data % ALIGNMENT == 0) continue;
    if (!data[i].make(buffer.size)) return false;
    vetting.data[i] = data[i].start();
    memcpy(vetting.data[i], buffer.data, buffer.size);
  }
  for (uint64_t i = 0; i < vetting.vet->count; i++) {
    const Tracked& tracked = vetting.vet->tracked[i];
    if (tracked.slot >= request.buffer_count) continue;
    touched |= 1ull << tracked.slot;
    if (!open_buffer(vetting, request, tracked)) return false;
  }
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    const Buffer& buffer = request.buffers[i];
    const bool is_touched = touched >> i & 1 && vetting.is_copied[i];
    if (buffer.writable && !buffer.initialised && !is_touched) return false;
  }
  return true;
}

void close_vetting() {
  uint64_t kept = 0;
  for (uint32_t i = 0; i < MAXIMUM_BUFFERS; i++) kept += data[i].size + writes[i].size + reads[i].size;
  if (kept <= MOST_KEPT) return;
  for (uint32_t i = 0; i < MAXIMUM_BUFFERS; i++) {
    data[i].leave();
    writes[i].leave();
    reads[i].leave();
  }
}

bool prepare_examiner(Worker& worker) {
  const Vetting* vetting = worker.launch->vetting;
  if (vetting == nullptr) return true;
  if (!make_examiner(worker)) return false;
  const Request& request = worker.launch->request;
  Examiner& examiner = *worker.examiner;
  examiner.findings.is_suspicious = 0;
  // The launch before may have been left in the middle of a phase.
  examiner.phase += MAXIMUM_THREADS;
  for (uint64_t i = 0; i < vetting->vet->count; i++) {
    const Tracked& tracked = vetting->vet->tracked[i];
    if (tracked.slot < request.buffer_count) {
      track_buffer(examiner, *vetting, request, tracked.slot);
    } else if (tracked.slot < FIRST_VARIABLE) {
      const uint32_t argument = tracked.slot - request.buffer_count;
      // Nobody writes what is read, so it holds nothing.
      if (argument >= request.argument_count || !tracked.is_written) return false;
      track_memory(worker, tracked.slot, (char*)worker.buffers[tracked.slot],
                   request.arguments[argument].size);
    } else {
      char* address = place_variable(worker.memory, tracked);
      if (address == nullptr) return false;
      track_memory(worker, tracked.slot, address, tracked.size);
    }
  }
  return true;
}

Summary summarize(const Tracked& tracked, const Track& track, uint32_t first, uint32_t tags) {
  const uint64_t step = tracked.grain > 4 ? tracked.grain / 4 : 1;
  const uint64_t end = track.size / tracked.grain * step;
  const uint32_t* writes = (const uint32_t*)track.writes;
  Summary summary = {};
  if (!tracked.is_read) {
    for (uint64_t i = 0; i < end; i += step) summary.written += writes[i] - first < tags;
    return summary;
  }
  const uint32_t* reads = (const uint32_t*)track.reads;
  uint32_t shared = 0, mixed = 0;
  for (uint64_t i = 0; i < end; i += step) {
    const uint32_t is_written = writes[i] - first < tags, is_read = reads[i] - first < tags;
    summary.written += is_written;
    summary.read += is_read;
    shared |= is_written & is_read;
    mixed |= is_written & is_read & (writes[i] != reads[i]);
  }
  summary.is_shared = shared != 0;
  summary.is_mixed = mixed != 0;
  return summary;
}

bool is_orderless(const Summary& summary, uint64_t write_claims, uint64_t read_claims) {
  if (summary.written != write_claims || summary.is_mixed) return false;
  return !summary.is_shared || summary.read == read_claims;
}

void forget_threadgroup(Examiner& examiner) {
  memset(examiner.writes, 0, 4 * ThreadgroupMemory::BYTES);
  memset(examiner.reads, 0, 4 * ThreadgroupMemory::BYTES);
}

bool conclude(const Vetting& vetting, const Request& request, Worker* const* workers,
              uint32_t count) {
  for (uint64_t i = 0; i < vetting.vet->count; i++) {
    const Tracked& tracked = vetting.vet->tracked[i];
    if (tracked.slot >= request.buffer_count || !tracked.is_written) continue;
    uint64_t write_claims = 0, read_claims = 0;
    for (uint32_t k = 0; k < count; k++) {
      const Track& track = workers[k]->examiner->findings.tracks[tracked.slot];
      write_claims += track.write_claims;
      read_claims += track.read_claims;
    }
    const Track& track = workers[0]->examiner->findings.tracks[tracked.slot];
    const Summary summary = summarize(tracked, track, vetting.first_tag, vetting.tags);
    if (!is_orderless(summary, write_claims, read_claims)) return false;
    const Buffer& buffer = request.buffers[tracked.slot];
    if (!buffer.initialised && summary.written * tracked.grain != buffer.size) return false;
  }
  for (uint32_t i = 0; i < request.buffer_count; i++) {
    if (vetting.is_copied[i])
      memcpy(request.buffers[i].data, vetting.data[i], request.buffers[i].size);
  }
  return true;
}

}  // namespace kw
