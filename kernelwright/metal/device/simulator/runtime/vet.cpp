#include "vet.h"

#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "scheduler.h"
#include "suspicion.h"
#include "worker.h"

namespace kw {

namespace {

Findings& findings_of(Worker& worker) { return worker.examiner->findings; }

void suspect(Worker& worker) {
  findings_of(worker).is_suspicious = 1;
  fail(*worker.launch, SUSPICION, 0, 0, &worker);
}

const Vet& vet_of(const Worker& worker) { return *worker.launch->vetting->vet; }

bool waits(const Vet& vet) { return vet.wide.region_count > 1; }

// Tags start anew before they run out, at the beginning of a threadgroup.
constexpr uint32_t LAST_FIRST_PHASE = 1u << 31;
constexpr uint32_t LAST_PHASE = ~0u - MAXIMUM_THREADS;

void enter_phases(Worker& worker) {
  Examiner& examiner = *worker.examiner;
  if (examiner.phase >= LAST_FIRST_PHASE) {
    forget_threadgroup(examiner);
    examiner.phase = 1;
  }
  const Vet& vet = vet_of(worker);
  for (uint64_t i = 0; i < vet.count; i++) {
    Track& track = examiner.findings.tracks[vet.tracked[i].slot];
    if (track.tag == &examiner.threadgroup_tag) track.lowest = examiner.phase;
  }
}

// What threads did to threadgroup memory since the last barrier must be fit to happen in any order.
void end_phase(Worker& worker) {
  Examiner& examiner = *worker.examiner;
  const Vet& vet = vet_of(worker);
  for (uint64_t i = 0; i < vet.count; i++) {
    const Tracked& tracked = vet.tracked[i];
    Track& track = examiner.findings.tracks[tracked.slot];
    if (track.tag != &examiner.threadgroup_tag) continue;
    if (track.write_claims != 0) {
      const Summary summary = summarize(tracked, track, examiner.phase, MAXIMUM_THREADS);
      if (!is_orderless(summary, track.write_claims, track.read_claims)) return suspect(worker);
    }
    track.write_claims = track.read_claims = 0;
  }
  examiner.phase += MAXIMUM_THREADS;
  if (examiner.phase >= LAST_PHASE) suspect(worker);
}

void enter_lanes(Worker& worker, uint32_t first) {
  const kw_uint3 whole = worker.launch->request.threadgroup;
  Examiner& examiner = *worker.examiner;
  const uint32_t threads = whole.x * whole.y * whole.z;
  examiner.device_tag = worker.launch->vetting->first_tag + (uint32_t)worker.group * threads + first;
  examiner.threadgroup_tag = examiner.phase + first;
}

void run_lanes(Worker& worker, uint32_t region, const kw_thread& first, char* frame, uint32_t* at,
               uint32_t count) {
  Findings& findings = findings_of(worker);
  findings.instance_of_some = findings.instance_of_each = 0;
  vet_of(worker).wide.regions[region](worker.buffers, &first, frame, 0, count, at, &findings);
}

// Threads that never wait run a row at a time.
void run_rows(Worker& worker) {
  const uint32_t most = (uint32_t)vet_of(worker).lanes, width = worker.group_size.x;
  Fiber& fiber = *worker.running;
  for (uint32_t row = 0; row < worker.threads; row += width) {
    for (uint32_t x = 0; x < width; x += most) {
      fiber.shape = 0;  // one fiber plays every thread
      place_thread(worker, row + x, fiber);
      enter_lanes(worker, row + x);
      const uint32_t rest = width - x;
      run_lanes(worker, 0, fiber.context, worker.frames, worker.stops, rest < most ? rest : most);
    }
  }
  fiber.shape = 0;
}

// Runs a simdgroup to its next barrier and returns which one, 0 at the end; false in `together`
// when its lanes part.
uint32_t run_to_barrier(Worker& worker, uint32_t index, bool& together) {
  const Wide& wide = vet_of(worker).wide;
  const uint32_t first = index * KW_SIMD_WIDTH;
  uint32_t* at = worker.stops + first;
  char* frame = worker.frames + index * wide.frame_bytes;
  const uint32_t present = worker.simdgroups[index].present;
  const uint32_t count = (uint32_t)__builtin_popcount(present);
  worker.running = &worker.fibers[first];
  enter_lanes(worker, first);
  for (;;) {
    run_lanes(worker, at[0], worker.running->context, frame, at, count);
    for (uint32_t i = 1; i < count; i++) together &= at[i] == at[0];
    const Findings& findings = findings_of(worker);
    together &= at[0] == 0 || findings.instance_of_some == findings.instance_of_each;
    if (!together || at[0] == 0) return at[0];
    const Stop& stop = wide.stops[at[0] - 1];
    if (stop.kind == StopKind::BARRIER) return at[0];
    if (stop.kind == StopKind::SIMDGROUP) {
      worker.missed_lanes = worker.readers = 0;
      stop.combine((const unsigned char*)frame + stop.in, present,
                   (unsigned char*)frame + stop.out);
      together &= (worker.missed_lanes | worker.readers) == 0;
    }
  }
}

void place_simdgroups(Worker& worker) {
  memset(worker.stops, 0, worker.threads * sizeof worker.stops[0]);
  for (uint32_t i = 0; i < worker.simdgroup_count; i++) {
    const uint32_t rest = worker.threads - i * KW_SIMD_WIDTH;
    worker.simdgroups[i].present = rest >= KW_SIMD_WIDTH ? ~0u : bit(rest) - 1;
    place_thread(worker, i * KW_SIMD_WIDTH, worker.fibers[i * KW_SIMD_WIDTH]);
  }
}

// Runs the threadgroup from barrier to barrier; all its threads must come to the same ones.
void run_simdgroups(Worker& worker) {
  Fiber* own = worker.running;
  place_simdgroups(worker);
  for (bool together = true; !stops(*worker.launch);) {
    uint32_t barrier = 0;
    uint64_t instance = 0;
    for (uint32_t i = 0; i < worker.simdgroup_count && together; i++) {
      const uint32_t at = run_to_barrier(worker, i, together);
      const uint64_t found = at == 0 ? 0 : findings_of(worker).instance_of_each;
      if (i == 0) barrier = at, instance = found;
      together &= at == barrier && found == instance;
    }
    if (!together) suspect(worker);
    if (!together || barrier == 0) break;
    if (vet_of(worker).wide.stops[barrier - 1].flags & ORDERS_THREADGROUP) end_phase(worker);
  }
  worker.running = own;
}

}  // namespace

void run_vetted(Worker& worker) {
  const Vet& vet = vet_of(worker);
  const bool has_simdgroups = waits(vet) || vet.lanes == KW_SIMD_WIDTH;
  if (has_simdgroups && !fits_wide(worker)) return suspect(worker);
  enter_phases(worker);
  if (waits(vet))
    run_simdgroups(worker);
  else
    run_rows(worker);
  end_phase(worker);
  if (findings_of(worker).is_suspicious) suspect(worker);
}

}  // namespace kw

// A check of undefined behaviour in code that only the runtime calls.
KW_EXPORT void kw_suspect(void) {
  kw::Worker* worker = kw::current;
  if (worker != nullptr && worker->launch != nullptr && worker->launch->vetting != nullptr)
    worker->examiner->findings.is_suspicious = 1;
}
