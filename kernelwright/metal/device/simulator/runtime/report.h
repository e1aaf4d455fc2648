// What the sanitizer found, as records that Python turns into words.
#pragma once

#include <stdint.h>

#include "launch.h"

namespace kw {

// In the order of `REPORT_KINDS` in sanitizer.py.
enum class Kind : uint32_t {
  DEVICE_OUT_OF_BOUNDS,
  THREADGROUP_OUT_OF_BOUNDS,
  THREAD_OUT_OF_BOUNDS,
  UNINITIALISED_THREADGROUP_READ,
  UNINITIALISED_OUTPUT_READ,
  THREADGROUP_RACE,
  DEVICE_RACE,
  DIVERGENT_BARRIER,
  DIVERGENT_SIMD_OPERATION,
  MISALIGNED_ACCESS,
  WRITE_TO_INPUT,
  UNWRITTEN_OUTPUT,
  DIVISION_BY_ZERO,
  SHIFT_OUT_OF_RANGE,
  UNINITIALISED_VARIABLE_READ,  // found by comparing two runs, not here
  NULL_POINTER,
  MISSING_RETURN,
};

// What kind of place `variable` names.
enum class Place : uint32_t { NOWHERE, BUFFER, VARIABLE, ARGUMENT, THREAD };

struct Report {
  uint64_t key;       // atomic; 0 while empty
  uint32_t complete;  // atomic; 1 once the rest is filled
  Kind kind;
  uint64_t count;     // atomic
  uint64_t pc;        // relative to the library, 0 when file, line and column say it
  uint64_t other_pc;  // of a race's other access
  const char* file;
  uint32_t line, column;
  Place place;
  uint32_t variable;
  int64_t offset;
  uint32_t size;
  uint32_t is_write, other_is_write;
  kw_uint3 thread, threadgroup, other_thread;
  uint32_t has_other;
  uint32_t is_astray;  // the other thread is at the same place, in another round or by another call
  uint32_t is_beyond;  // it reads a lane that its simdgroup or quadgroup has not
  uint32_t padding;
  int64_t details[3];  // by kind: counts of threads, lane masks, operands
};

constexpr uint32_t MAXIMUM_REPORTS = 512;

struct Reports {
  uint32_t full;  // atomic; 1 when a report found no room
  Report entries[MAXIMUM_REPORTS];
};

// The report of this kind at this place in the code, counted once more; null when it was there
// already (or nothing is left), else the caller fills it and calls publish().
Report* new_report(Reports& reports, Kind kind, uint64_t site, uint32_t variable);
void publish(Report& report);

}  // namespace kw
