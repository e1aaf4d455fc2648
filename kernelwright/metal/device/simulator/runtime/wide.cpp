#include "wide.h"

#include <string.h>

#include "grid.h"
#include "scheduler.h"
#include "stack.h"
#include "vet.h"

namespace kw {

namespace {

// One simdgroup of the threadgroup at hand.
struct Lanes {
  Worker& worker;
  const Wide& wide;
  Simdgroup& simdgroup;
  uint32_t* at;     // the stop of each lane
  uint64_t* paths;  // once they have parted
  char* frame;
  uint32_t count;

  const Stop& stop(uint32_t lane) const { return wide.stops[at[lane] - 1]; }

  void run(uint32_t from, uint32_t end) {
    const kw_thread* first = &worker.running->context;
    wide.regions[at[from]](worker.buffers, first, frame, from, end, at, nullptr);
  }
};

bool are_together(const uint32_t* at, uint32_t count) {
  uint32_t differs = 0;
  // Of all 32, which are the rule, a few vectors.
  if (count == KW_SIMD_WIDTH)
    for (uint32_t i = 0; i < KW_SIMD_WIDTH; i++) differs |= at[i] ^ at[0];
  else
    for (uint32_t i = 1; i < count; i++) differs |= at[i] ^ at[0];
  return differs == 0;
}

// Runs the whole simdgroup while its lanes stay together. True when all wait in a barrier or have
// ended; false once they wait at different places.
bool run_together(Lanes& lanes) {
  Simdgroup& simdgroup = lanes.simdgroup;
  for (;;) {
    lanes.run(0, lanes.count);
    if (!are_together(lanes.at, lanes.count)) return false;
    if (lanes.at[0] == 0) {
      simdgroup.live = 0;
      return true;
    }
    const Stop& stop = lanes.stop(0);
    if (stop.kind == StopKind::BARRIER) {
      simdgroup.at_barrier = simdgroup.present;
      return true;
    }
    if (stop.kind == StopKind::SIMDGROUP)
      stop.combine((const unsigned char*)lanes.frame + stop.in, simdgroup.present,
                   (unsigned char*)lanes.frame + stop.out);
  }
}

// Notes where the lanes `from` to `end` have come to.
void sort(Lanes& lanes, uint32_t from, uint32_t end) {
  Simdgroup& simdgroup = lanes.simdgroup;
  for (uint32_t lane = from; lane < end; lane++) {
    lanes.paths[lane] = Random{lanes.paths[lane] + lanes.at[lane]}.next();
    simdgroup.ready &= ~bit(lane);
    if (lanes.at[lane] == 0)
      simdgroup.live &= ~bit(lane);
    else if (lanes.stop(lane).kind == StopKind::BARRIER)
      simdgroup.at_barrier |= bit(lane);
    else
      simdgroup.at_simd |= bit(lane);
  }
}

// Runs the lanes that can, in stretches of neighbours that came by the same stops: values that are
// uniform, such as the counter of a loop, are one for those only.
void run_apart(Lanes& lanes) {
  Simdgroup& simdgroup = lanes.simdgroup;
  const uint64_t* paths = lanes.paths;
  while (simdgroup.ready != 0) {
    const uint32_t from = (uint32_t)__builtin_ctz(simdgroup.ready);
    uint32_t end = from + 1;
    while (end < lanes.count && simdgroup.ready & bit(end) && paths[end] == paths[from]) end++;
    lanes.run(from, end);
    sort(lanes, from, end);
  }
}

// The lanes that wait for their simdgroup go on without those that have ended, or are at a barrier.
// Where they wait at different stops only fibers know who comes first, and run the launch instead.
void release_some(Lanes& lanes) {
  Simdgroup& simdgroup = lanes.simdgroup;
  const uint32_t together = simdgroup.at_simd, first = (uint32_t)__builtin_ctz(together);
  for (uint32_t rest = together; rest != 0; rest &= rest - 1)
    if (lanes.at[__builtin_ctz(rest)] != lanes.at[first]) {
      fail(*lanes.worker.launch, PARTED, 0, 0, nullptr);
      abandon(lanes.worker);
    }
  const Stop& stop = lanes.stop(first);
  if (stop.kind == StopKind::SIMDGROUP)
    stop.combine((const unsigned char*)lanes.frame + stop.in, together,
                 (unsigned char*)lanes.frame + stop.out);
  simdgroup.at_simd = 0;
  simdgroup.ready = together;
}

// Runs a simdgroup until all its lanes wait in a barrier or have ended.
void run_simdgroup(Lanes& lanes) {
  Simdgroup& simdgroup = lanes.simdgroup;
  uint32_t& parted = lanes.worker.parted_simdgroups;
  if (!(parted & bit(simdgroup.index))) {
    if (run_together(lanes)) {
      simdgroup.ready = 0;
      return;
    }
    parted |= bit(simdgroup.index);
    memset(lanes.paths, 0, lanes.count * sizeof lanes.paths[0]);
    sort(lanes, 0, lanes.count);
  }
  for (;;) {
    run_apart(lanes);
    if (simdgroup.at_simd == 0) return;
    release_some(lanes);
  }
}

}  // namespace

bool fits_wide(const Worker& worker) {
  const kw_uint3 size = worker.group_size;
  return size.x % KW_SIMD_WIDTH == 0 || (size.y == 1 && size.z == 1);
}

bool prepare_wide(Worker& worker) {
  const Wide* wide = worker.launch->request.code.wide;
  if (wide == nullptr) wide = worker.launch->request.uncounted.wide;
  if (const Vetting* vetting = worker.launch->vetting) wide = &vetting->vet->wide;
  if (wide == nullptr) return true;
  const uint64_t size = round_up(wide->frame_bytes * MAXIMUM_SIMDGROUPS, page_size());
  if (size <= worker.frames_size) return true;
  if (worker.frames != nullptr) release(worker.frames, worker.frames_size);
  worker.frames_size = 0;
  worker.frames = reserve(size);
  if (worker.frames == nullptr || !commit(worker.frames, size)) return false;
  worker.frames_size = size;
  return true;
}

void run_wide(Worker& worker) {
  const Wide& wide = *worker.code->wide;
  Fiber* own = worker.running;
  memset(worker.stops, 0, worker.threads * sizeof worker.stops[0]);
  worker.parted_simdgroups = 0;
  for (uint32_t i = 0; i < worker.simdgroup_count; i++) {
    Simdgroup& simdgroup = worker.simdgroups[i];
    const uint32_t rest = worker.threads - i * KW_SIMD_WIDTH;
    simdgroup.present = rest >= KW_SIMD_WIDTH ? ~0u : bit(rest) - 1;
    simdgroup.live = simdgroup.ready = simdgroup.present;
    simdgroup.at_simd = simdgroup.at_barrier = 0;
    place_thread(worker, i * KW_SIMD_WIDTH, worker.fibers[i * KW_SIMD_WIDTH]);
  }
  for (bool waits = true; waits;) {
    waits = false;
    for (uint32_t i = 0; i < worker.simdgroup_count; i++) {
      Simdgroup& simdgroup = worker.simdgroups[i];
      if (simdgroup.ready == 0) continue;
      worker.running = &worker.fibers[i * KW_SIMD_WIDTH];
      Lanes lanes = {worker,
                     wide,
                     simdgroup,
                     worker.stops + i * KW_SIMD_WIDTH,
                     worker.paths + i * KW_SIMD_WIDTH,
                     worker.frames + i * wide.frame_bytes,
                     (uint32_t)__builtin_popcount(simdgroup.present)};
      run_simdgroup(lanes);
    }
    if (stops(*worker.launch)) break;
    // Everyone who is left waits in a barrier, or has gone.
    for (uint32_t i = 0; i < worker.simdgroup_count; i++) {
      Simdgroup& simdgroup = worker.simdgroups[i];
      simdgroup.ready = simdgroup.at_barrier;
      simdgroup.at_barrier = 0;
      waits |= simdgroup.ready != 0;
    }
  }
  worker.running = own;
}

}  // namespace kw
