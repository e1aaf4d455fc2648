#include "work.h"

#include "stack.h"

// What is left of the running threadgroup's last share; compiled text counts it down.
KW_EXPORT constinit thread_local int64_t kw_work_left KW_TLS = 0;

namespace kw {

namespace {

constexpr int64_t SHARE = 1 << 20;
constexpr uint64_t MOST_SHARES_OUT = 32;  // more than there are workers

// Takes shares until something is left. Those of other workers may not be used up, so that the
// launch may go beyond its limit by one for each: its exact sum is judged at the end.
void take_share(Worker& worker) {
  Launch& launch = *worker.launch;
  const Request& request = launch.request;
  while (kw_work_left < 0) {
    kw_work_left += SHARE;
    worker.group_work += SHARE;
    const uint64_t taken = __atomic_add_fetch(&launch.work, SHARE, __ATOMIC_RELAXED);
    if (taken > request.work_limit + MOST_SHARES_OUT * SHARE ||
        (uint64_t)worker.group_work > request.group_work_limit) {
      fail(launch, WORK, 0, taken, &worker);
      abandon(worker);
    }
  }
}

}  // namespace

void open_account(Worker& worker) {
  worker.group_work = 0;
  kw_work_left = -THREAD_UNITS * (int64_t)worker.threads;
}

void close_account(Worker& worker) {
  __atomic_sub_fetch(&worker.launch->work, (uint64_t)kw_work_left, __ATOMIC_RELAXED);
  kw_work_left = 0;
}

void spend_metered(int64_t units) {
  kw_work_left -= units;
  if (kw_work_left < 0) take_share(*current);
}

}  // namespace kw

// What a metered build calls once its share is spent.
KW_EXPORT void kw_work_spent(void) {
  kw::Worker* worker = kw::current;
  if (worker == nullptr || worker->running == nullptr || worker->launch->request.work_limit == 0)
    kw_work_left = 0;
  else
    kw::take_share(*worker);
}
