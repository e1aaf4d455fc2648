#include "found.h"

#include "arena.h"
#include "grid.h"

namespace kw {

namespace {

void name_variable(Report& report, const ThreadgroupVariable& variable, uint64_t address) {
  const bool is_argument = variable.id >= ThreadgroupMemory::FIRST_ARGUMENT;
  report.place = is_argument ? Place::ARGUMENT : Place::VARIABLE;
  report.variable = is_argument ? variable.id - ThreadgroupMemory::FIRST_ARGUMENT : variable.id;
  report.offset = (int64_t)(address - (uint64_t)variable.address);
}

}  // namespace

Report* found(Worker& worker, Kind kind, uint64_t pc, uint32_t variable) {
  Report* report = new_report(*worker.launch->reports, kind, pc, variable);
  if (report == nullptr) return nullptr;
  report->pc = pc - worker.launch->module_low;
  report->thread = worker.running->context.position_in_grid;
  report->threadgroup = worker.group_position;
  return report;
}

void locate(Worker& worker, Report& report, uint64_t address) {
  Arena& arena = *worker.launch->arena;
  if (arena.contains(address)) {
    const Slot& slot = arena.slot_of(address);
    report.place = Place::BUFFER;
    report.variable = (uint32_t)(&slot - arena.slots);
    report.offset = (int64_t)(address - (uint64_t)slot.start);
    report.details[0] = (int64_t)slot.size;
  } else if (on_a_stack(worker, address)) {
    report.place = Place::THREAD;
  } else if (const ThreadgroupVariable* variable = worker.memory.nearest(address)) {
    name_variable(report, *variable, address);
    report.details[0] = (int64_t)variable->size;
  }
}

kw_uint3 position_of(const Launch& launch, uint64_t group, uint32_t index) {
  const kw_uint3 place = group_position(launch, group), size = group_size(launch, place);
  const kw_uint3 whole = launch.request.threadgroup;
  return {place.x * whole.x + index % size.x, place.y * whole.y + index / size.x % size.y,
          place.z * whole.z + index / (size.x * size.y)};
}

}  // namespace kw
