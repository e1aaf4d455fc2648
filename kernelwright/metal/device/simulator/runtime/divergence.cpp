// Reports threads that do not meet where they must.
#include "found.h"
#include "observe.h"
#include "scheduler.h"

namespace kw {

namespace {

Report* found_in(Worker& worker, Kind kind, const Fiber& fiber) {
  Report* report = new_report(*worker.launch->reports, kind, fiber.wait_pc, 0);
  if (report == nullptr) return nullptr;
  report->pc = fiber.wait_pc - worker.launch->module_low;
  report->line = fiber.wait_site & KW_LINES;
  report->thread = fiber.context.position_in_grid;
  report->threadgroup = worker.group_position;
  return report;
}

// A lane that has returned was placed; one that never ran has not been.
void name_other(Worker& worker, Report& report, uint32_t index) {
  report.other_thread = position_of(*worker.launch, worker.group, index);
  report.has_other = 1;
}

}  // namespace

void report_divergent_simd(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                           const Meeting& meeting) {
  const bool is_barrier = first.wait_combine == nullptr;
  Report* report = found_in(
      worker, is_barrier ? Kind::DIVERGENT_BARRIER : Kind::DIVERGENT_SIMD_OPERATION, first);
  if (report == nullptr) return;
  const uint32_t together = meeting.together, all = simdgroup.present & ~together;
  const uint32_t missing = meeting.astray ? meeting.astray : meeting.missed ? meeting.missed : all;
  if (missing != 0) {
    const uint32_t lane = simdgroup.index * KW_SIMD_WIDTH + (uint32_t)__builtin_ctz(missing);
    const Fiber& other = worker.fibers[lane];
    name_other(worker, *report, lane);
    const bool waits = (simdgroup.at_simd | simdgroup.at_barrier) & missing & -missing;
    report->other_pc = waits ? other.wait_pc - worker.launch->module_low : 0;
  }
  report->is_astray = meeting.astray != 0;
  report->size = 1;  // a matter of one simdgroup
  report->details[0] = __builtin_popcount(together);
  report->details[1] = __builtin_popcount(simdgroup.present);
  report->details[2] = __builtin_popcount(simdgroup.present & ~simdgroup.live);
  publish(*report);
}

void report_lane_beyond(Worker& worker, const Simdgroup& simdgroup, const Fiber& first,
                        uint32_t together) {
  Report* report = found_in(worker, Kind::DIVERGENT_SIMD_OPERATION, first);
  if (report == nullptr) return;
  const uint32_t lane = (uint32_t)__builtin_ctz(worker.readers ? worker.readers : together);
  report->thread = position_of(*worker.launch, worker.group, simdgroup.index * KW_SIMD_WIDTH + lane);
  report->is_beyond = 1;
  publish(*report);
}

void report_missing_at_barrier(Worker& worker) {
  uint32_t first = worker.threads, gone = worker.threads;
  for (uint32_t i = 0; i < worker.threads; i++) {
    const Simdgroup& simdgroup = worker.simdgroups[i / KW_SIMD_WIDTH];
    const uint32_t lane = bit(i % KW_SIMD_WIDTH);
    if (first == worker.threads && simdgroup.at_barrier & lane) first = i;
    if (gone == worker.threads && !(simdgroup.live & lane)) gone = i;
  }
  if (first == worker.threads) return;
  Report* report = found_in(worker, Kind::DIVERGENT_BARRIER, worker.fibers[first]);
  if (report == nullptr) return;
  if (gone != worker.threads) name_other(worker, *report, gone);
  report->details[0] = worker.waiting;
  report->details[1] = worker.threads;
  report->details[2] = worker.threads - worker.live;
  publish(*report);
}

void report_barrier_sites(Worker& worker) {
  const Fiber& first = worker.fibers[0];
  uint32_t elsewhere = 0, other = 0;
  for (uint32_t i = 1; i < worker.threads; i++) {
    const Fiber& fiber = worker.fibers[i];
    if (wait_together(fiber, first)) continue;
    if (elsewhere++ == 0) other = i;
  }
  if (elsewhere == 0) return;
  Report* report = found_in(worker, Kind::DIVERGENT_BARRIER, first);
  if (report == nullptr) return;
  name_other(worker, *report, other);
  report->is_astray = worker.fibers[other].wait_site == first.wait_site;
  report->other_pc = worker.fibers[other].wait_pc - worker.launch->module_low;
  report->details[0] = worker.threads - elsewhere;
  report->details[1] = worker.threads;
  publish(*report);
}

}  // namespace kw
