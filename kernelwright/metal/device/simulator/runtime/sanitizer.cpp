#include "observe.h"
namespace kw {
void report_divergent_simd(Worker&, const Simdgroup&, const Fiber&, uint32_t) {}
void report_missing_at_barrier(Worker&) {}
void report_barrier_sites(Worker&) {}
}
