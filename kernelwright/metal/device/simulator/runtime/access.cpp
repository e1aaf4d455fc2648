#include "access.h"

#include <dlfcn.h>
#include <string.h>

#include "arena.h"
#include "found.h"
#include "shadow.h"
#include "stack.h"

namespace kw {

namespace {

// The grains of one memory that an access touches.
struct Grains {
  Shadow& shadow;
  uint64_t first, last;
  bool forgets;           // threadgroup memory: what other threadgroups did is void
  bool tracks_first_use;  // reading before writing is an error
};

// Ends a launch in which an access is to a part of a grain, `memory` being its buffer: the same
// launch is to start again with each byte tracked.
[[noreturn]] void ask_for_bytes(Worker& worker, uint64_t memory) {
  fail(*worker.launch, PART, 0, memory, &worker);
  abandon(worker);
}

bool is_part(uint64_t offset, uint32_t size, uint32_t shift) {
  return ((offset | size) & ((1ull << shift) - 1)) != 0;
}

Grains grains_of(Shadow& shadow, uint64_t offset, uint32_t size, uint32_t shift, uint64_t base) {
  return {shadow, base + (offset >> shift), base + ((offset + size - 1) >> shift), false, false};
}

// True when an earlier access conflicts with this one, given that one of them writes.
bool conflicts(const Grains& grains, Trace before, Trace now) {
  if (!before.exists() || (grains.forgets && before.group() != now.group())) return false;
  if (before.has(Trace::ATOMIC) && now.has(Trace::ATOMIC)) return false;
  return concurrent(before, now);
}

bool is_first_use(const Grains& grains, Trace write, Trace now) {
  return !write.exists() || (grains.forgets && write.group() != now.group());
}

void report_race(Worker& worker, const Pending& race, bool is_write) {
  const bool on_device = worker.launch->arena->contains(race.address);
  const Kind kind = on_device ? Kind::DEVICE_RACE : Kind::THREADGROUP_RACE;
  Report* report = new_report(*worker.launch->reports, kind, race.pc, race.other_is_write);
  if (report == nullptr) return;
  const Trace other{race.other};
  locate(worker, *report, race.address);
  report->pc = race.pc - worker.launch->module_low;
  report->other_pc = race.other_site;
  report->thread = race.thread;
  report->threadgroup = race.threadgroup;
  report->other_thread = position_of(*worker.launch, other.group(), other.thread());
  report->has_other = !race.stands_for_other;
  report->is_write = is_write;
  report->other_is_write = race.other_is_write;
  report->size = race.size;
  report->details[1] = other.group() == (worker.group & GROUP_MASK);
  publish(*report);
}

Pending race_with(const Worker& worker, const Access& access, Trace now, Trace other,
                  uint32_t site, bool is_write) {
  Pending race = {};
  race.address = access.address;
  race.size = access.size < sizeof race.before ? access.size : sizeof race.before;
  race.pc = access.pc;
  race.other = other.bits;
  race.other_site = site;
  race.other_is_write = is_write;
  race.stands_for_other = !concurrent(alone(other), now);
  race.thread = worker.running->context.position_in_grid;
  race.threadgroup = worker.group_position;
  return race;
}

// The last reader, or the one before it where only that one is known to conflict.
Pending race_with_reader(const Worker& worker, const Access& access, const Grains& grains,
                         uint64_t grain, Trace now) {
  const Shadow& shadow = grains.shadow;
  const Trace read = load_trace(&shadow.reads[grain]);
  const Trace earlier = load_trace(&shadow.earlier_reads[grain]);
  if (!concurrent(alone(read), now) && conflicts(grains, alone(earlier), now))
    return race_with(worker, access, now, earlier, shadow.earlier_sites[grain], false);
  return race_with(worker, access, now, read, shadow.read_sites[grain], false);
}

void report_first_use(Worker& worker, const Access& access) {
  const bool on_device = worker.launch->arena->contains(access.address);
  Report* report = found(worker, on_device ? Kind::UNINITIALISED_OUTPUT_READ
                                           : Kind::UNINITIALISED_THREADGROUP_READ, access.pc);
  if (report == nullptr) return;
  locate(worker, *report, access.address);
  report->size = access.size;
  publish(*report);
}

void check_read(Worker& worker, const Access& access, const Grains& grains, Moment moment) {
  Shadow& shadow = grains.shadow;
  const Trace now = trace_now(worker, moment, access.kind & ATOMIC ? Trace::ATOMIC : 0);
  const uint32_t site = (uint32_t)(access.pc - worker.launch->module_low);
  bool is_first = false;
  for (uint64_t i = grains.first; i <= grains.last; i++) {
    Trace mine = now;
    const Trace write = load_trace(&shadow.writes[i]);
    is_first |= grains.tracks_first_use && is_first_use(grains, write, now);
    if (!is_same_place(write, mine) && conflicts(grains, write, mine))
      report_race(worker, race_with(worker, access, mine, write, shadow.write_sites[i], true),
                  false);
    // The write of one atomic operation stands for its read: it conflicts with all that does.
    if (access.kind & WRITE) continue;
    const Trace read = load_trace(&shadow.reads[i]);
    if (is_same_place(read, mine) && !read.has(Trace::ATOMIC)) continue;
    if (conflicts(grains, read, mine)) {
      keep_earlier(shadow, i, read);
      mine = joined(read, mine);
    }
    note_reads(shadow);
    store_trace(&shadow.reads[i], mine);
    shadow.read_sites[i] = site;
  }
  if (is_first) report_first_use(worker, access);
}

void check_write(Worker& worker, const Access& access, const Grains& grains, Moment moment) {
  Shadow& shadow = grains.shadow;
  const Trace now = trace_now(worker, moment, access.kind & ATOMIC ? Trace::ATOMIC : 0);
  const uint32_t site = (uint32_t)(access.pc - worker.launch->module_low);
  for (uint64_t i = grains.first; i <= grains.last; i++) {
    const Trace write = load_trace(&shadow.writes[i]), read = load_trace(&shadow.reads[i]);
    const bool after_write = conflicts(grains, write, now);
    if ((after_write || conflicts(grains, read, now)) && worker.pending.size == 0) {
      worker.pending = after_write
                           ? race_with(worker, access, now, write, shadow.write_sites[i], true)
                           : race_with_reader(worker, access, grains, i, now);
      memcpy(worker.pending.before, (void*)access.address, worker.pending.size);
    }
    store_trace(&shadow.writes[i], now);
    shadow.write_sites[i] = site;
  }
}

void check_grains(Worker& worker, const Access& access, const Grains& grains, Moment moment) {
  if (access.kind & READ) check_read(worker, access, grains, moment);
  if (access.kind & WRITE) check_write(worker, access, grains, moment);
}

void report_out_of_bounds(Worker& worker, const Access& access, Kind kind) {
  Report* report = found(worker, kind, access.pc);
  if (report == nullptr) return;
  locate(worker, *report, access.address);
  report->size = access.size;
  report->is_write = (access.kind & WRITE) != 0;
  publish(*report);
}

// From here on an address is no element of what a null pointer would point to.
constexpr uint64_t NULL_BYTES = 1 << 16;

void report_null(Worker& worker, const Access& access) {
  Report* report = found(worker, Kind::NULL_POINTER, access.pc);
  if (report == nullptr) return;
  report->size = access.size;
  report->is_write = (access.kind & WRITE) != 0;
  publish(*report);
}

[[noreturn]] void refuse(Worker& worker, const Access& access) {
  fail(*worker.launch, INVALID_ADDRESS, access.pc, access.address, &worker);
  abandon(worker);
}

void check_device(Worker& worker, const Access& access) {
  Arena& arena = *worker.launch->arena;
  Slot& slot = arena.slot_of(access.address);
  const uint64_t offset = access.address - (uint64_t)slot.start;
  if (offset + access.size > slot.size || offset >= slot.size) {
    report_out_of_bounds(worker, access, Kind::DEVICE_OUT_OF_BOUNDS);
    const uint32_t poison = worker.launch->request.poison;
    if (!commit_red_zone(arena, access.address, access.size, poison)) refuse(worker, access);
    return;
  }
  if (slot.writable) {
    if (is_part(offset, access.size, slot.grain_shift))
      ask_for_bytes(worker, (uint64_t)(&slot - arena.slots));
    Grains grains = grains_of(*slot.shadow, offset, access.size, slot.grain_shift, 0);
    grains.tracks_first_use = !slot.initialised;
    check_grains(worker, access, grains, device_moment(worker));
  } else if (access.kind & WRITE) {
    report_out_of_bounds(worker, access, Kind::WRITE_TO_INPUT);
  }
}

void check_threadgroup(Worker& worker, const Access& access) {
  const ThreadgroupVariable* variable = worker.memory.owner(access.address);
  const uint64_t offset = variable ? access.address - (uint64_t)variable->address : 0;
  if (variable == nullptr || offset + access.size > variable->size || offset >= variable->size) {
    report_out_of_bounds(worker, access, Kind::THREADGROUP_OUT_OF_BOUNDS);
    return;
  }
  const uint32_t shift = grain_shift_of(variable->grain);
  if (is_part(offset, access.size, shift)) ask_for_bytes(worker, MAXIMUM_BUFFERS);
  const uint64_t base = (uint64_t)(variable->address - worker.memory.start());
  Grains grains = grains_of(*worker.shadow, offset, access.size, shift, base);
  grains.forgets = grains.tracks_first_use = true;
  check_grains(worker, access, grains, threadgroup_moment(worker));
}

bool is_constant(Worker& worker, uint64_t address) {
  if (address >= worker.constants_low && address < worker.constants_high) return true;
  Dl_info library;
  if (!dladdr((void*)address, &library)) return false;
  if ((uint64_t)library.dli_fbase != worker.launch->module_low) return false;
  if (worker.constants_low == 0) worker.constants_low = worker.constants_high = address;
  if (address < worker.constants_low) worker.constants_low = address;
  if (address >= worker.constants_high) worker.constants_high = address + 1;
  return true;
}

// The simulator's own memory that compiled code may touch: a thread's stack and its attributes,
// the argument array, and the slots of simdgroup operations.
bool is_own(const Worker& worker, const Access& access) {
  if (on_a_stack(worker, access.address)) return true;
  const char* place = (const char*)access.address;
  const char* slots = (const char*)worker.simdgroups;
  if (place >= slots && place < (const char*)(worker.simdgroups + MAXIMUM_SIMDGROUPS)) return true;
  return !(access.kind & WRITE) && place >= worker.block && place < worker.signal_stack;
}

uint64_t distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

}  // namespace

void report_misaligned(Worker& worker, const Access& access, uint32_t alignment) {
  Report* report = found(worker, Kind::MISALIGNED_ACCESS, access.pc);
  if (report == nullptr) return;
  locate(worker, *report, access.address);
  report->size = access.size;
  report->details[1] = alignment;
  publish(*report);
}

void report_beyond_own(Worker& worker, uint64_t pc) {
  Report* report = found(worker, Kind::THREAD_OUT_OF_BOUNDS, pc);
  if (report == nullptr) return;
  report->place = Place::THREAD;
  publish(*report);
}

void check_access(Worker& worker, const Access& access) {
  if (worker.pending.size != 0) settle(worker);
  worker.last_address = access.address;
  worker.last_pc = access.pc;
  // Sizes of such accesses are powers of two.
  const uint32_t alignment = access.size < 8 ? access.size : 8;
  if (access.kind & ALIGNED && (access.address & (alignment - 1)) != 0)
    report_misaligned(worker, access, alignment);
  if (access.address - worker.arena_low < worker.arena_size) return check_device(worker, access);
  if (worker.memory.contains(access.address)) return check_threadgroup(worker, access);
  if (is_own(worker, access)) return;
  if (!(access.kind & WRITE) && is_constant(worker, access.address)) return;
  if (access.address < NULL_BYTES) {
    report_null(worker, access);
    refuse(worker, access);
  }
  // Nothing near is the kernel's. Whose pointer it was can only be guessed by distance.
  const uint64_t to_memory = distance(access.address, (uint64_t)worker.memory.base);
  const bool near_memory = worker.memory.count != 0 && to_memory < 64ull << 30 &&
                           to_memory < distance(access.address, worker.arena_low);
  report_out_of_bounds(worker, access, near_memory ? Kind::THREADGROUP_OUT_OF_BOUNDS
                                                   : Kind::DEVICE_OUT_OF_BOUNDS);
  refuse(worker, access);
}

void settle(Worker& worker) {
  Pending race = worker.pending;
  worker.pending.size = 0;
  if (memcmp((void*)race.address, race.before, race.size) != 0) report_race(worker, race, true);
}

namespace {

// Whether no member of the text's type takes any byte of a grain.
bool is_padding(const Slot& slot, uint64_t grain) {
  if (slot.element == 0) return false;
  const uint64_t first = grain << slot.grain_shift;
  for (uint64_t byte = first; byte < first + (1ull << slot.grain_shift); byte++)
    if (slot.taken[byte % slot.element]) return false;
  return true;
}

}  // namespace

void report_unwritten(Launch& launch) {
  for (uint32_t i = 0; i < launch.arena->count; i++) {
    const Slot& slot = launch.arena->slots[i];
    if (!slot.writable || slot.initialised) continue;
    uint64_t missing = 0, first = 0;
    for (uint64_t grain = 0; grain < slot.shadow->count; grain++) {
      if (slot.shadow->writes[grain] != 0 || is_padding(slot, grain)) continue;
      if (missing++ == 0) first = grain;
    }
    Report* report =
        missing == 0 ? nullptr : new_report(*launch.reports, Kind::UNWRITTEN_OUTPUT, 0, i);
    if (report == nullptr) continue;
    report->place = Place::BUFFER;
    report->variable = i;
    report->offset = (int64_t)(first << slot.grain_shift);
    report->details[0] = (int64_t)slot.size;
    report->details[1] = (int64_t)(missing << slot.grain_shift);
    publish(*report);
  }
}

}  // namespace kw
