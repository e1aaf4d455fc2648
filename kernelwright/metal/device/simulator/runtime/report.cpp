#include "report.h"

namespace kw {

Report* new_report(Reports& reports, Kind kind, uint64_t site, uint32_t variable) {
  uint64_t key = (site * 64 + (uint64_t)kind + 1) * 0x9e3779b97f4a7c15ull ^ variable;
  if (key == 0) key = 1;
  for (uint32_t probe = 0; probe < MAXIMUM_REPORTS; probe++) {
    Report& report = reports.entries[((key >> 32) + probe) % MAXIMUM_REPORTS];
    uint64_t found = __atomic_load_n(&report.key, __ATOMIC_RELAXED);
    bool is_new = found == 0 && __atomic_compare_exchange_n(&report.key, &found, key, false,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (!is_new && found != key) continue;
    __atomic_add_fetch(&report.count, 1, __ATOMIC_RELAXED);
    if (!is_new) return nullptr;
    report.kind = kind;
    return &report;
  }
  __atomic_store_n(&reports.full, 1, __ATOMIC_RELAXED);
  return nullptr;
}

void publish(Report& report) { __atomic_store_n(&report.complete, 1, __ATOMIC_RELEASE); }

}  // namespace kw
