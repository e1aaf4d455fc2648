#include "fault.h"

#include <signal.h>
#include <string.h>

#include "divide.h"
#include "observe.h"
#include "stack.h"

namespace kw {

const int WAKE_SIGNAL = SIGURG;

namespace {

const int CAUGHT[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, WAKE_SIGNAL};
constexpr int CAUGHT_COUNT = sizeof CAUGHT / sizeof CAUGHT[0];
struct sigaction previous[CAUGHT_COUNT];
bool catches = false;

// A frame is touched page by page as it grows, see `target_flags` in toolchain.py; macOS does so
// before it moves the stack pointer.
#if defined(__APPLE__)
constexpr bool POINTER_GROWS_BY_PAGE = false;
#else
constexpr bool POINTER_GROWS_BY_PAGE = true;
#endif
// A page, and what a function without calls uses below the pointer.
constexpr uint64_t FRAME_STEP = 4096 + 256;

struct Registers {
  uint64_t* pc;
  uint64_t* stack_pointer;
};

Registers registers_of(ucontext_t* context) {
#if defined(__APPLE__) && defined(__aarch64__)
  auto& state = context->uc_mcontext->__ss;
  return {(uint64_t*)&state.__pc, (uint64_t*)&state.__sp};
#elif defined(__APPLE__)
  auto& state = context->uc_mcontext->__ss;
  return {(uint64_t*)&state.__rip, (uint64_t*)&state.__rsp};
#elif defined(__aarch64__)
  return {(uint64_t*)&context->uc_mcontext.pc, (uint64_t*)&context->uc_mcontext.sp};
#else
  return {(uint64_t*)&context->uc_mcontext.gregs[REG_RIP],
          (uint64_t*)&context->uc_mcontext.gregs[REG_RSP]};
#endif
}

void escape() { abandon(*current); }

// Makes the interrupted thread continue in escape() on the worker's own stack, below what the
// worker left there. Returning from the handler, unlike jumping out of it, restores the signal
// mask and the signal stack on every system.
void leave_fiber(Worker& worker, Registers registers) {
  uint64_t stack = ((uint64_t)worker.own_stack - 1024) & ~15ull;
#if defined(__x86_64__)
  stack -= 8;
#endif
  *registers.stack_pointer = stack;
  *registers.pc = (uint64_t)escape;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  for (int i = 0; i < CAUGHT_COUNT; i++) {
    if (CAUGHT[i] != signal) continue;
    const struct sigaction& before = previous[i];
    if (before.sa_flags & SA_SIGINFO)
      before.sa_sigaction(signal, info, context);
    else if (before.sa_handler == SIG_DFL && signal != WAKE_SIGNAL)
      sigaction(signal, &before, nullptr);  // the fault repeats and ends the process as before
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
      before.sa_handler(signal);
  }
}

bool is_near_stacks(const Worker& worker, uint64_t address) {
  const bool is_below = (uint64_t)worker.stacks - address <= NO_MANS_LAND;
  return is_below || on_a_stack(worker, address);
}

// Whether the running thread's stack has come to its end: the stack pointer is near the place.
// An access further away strays.
bool overflows(const Worker& worker, uint64_t address, uint64_t stack_pointer) {
  const uint64_t low =
      (uint64_t)worker.stacks + (worker.running->stack + 1) * STACK_STRIDE - STACK_BYTES;
  const bool is_near = stack_pointer < low + FRAME_STEP && stack_pointer < address + FRAME_STEP;
  return !POINTER_GROWS_BY_PAGE || (address < low && is_near);
}

Failure failure_of(const Worker& worker, int signal, const siginfo_t& info,
                   uint64_t stack_pointer) {
  const uint64_t address = (uint64_t)info.si_addr;
  if (signal == SIGILL || signal == SIGTRAP || signal == SIGFPE) return ILLEGAL_INSTRUCTION;
#if defined(SI_KERNEL)
  // x86 names no address for a misaligned vector or one beyond 48 bits.
  if (info.si_code == SI_KERNEL) return PROTECTION;
#endif
  if (!is_near_stacks(worker, address)) return INVALID_ADDRESS;
  return overflows(worker, address, stack_pointer) ? STACK_OVERFLOW : INVALID_ADDRESS;
}

void handle(int signal, siginfo_t* info, void* opaque) {
  Worker* worker = current;
  if (worker == nullptr || worker->running == nullptr || worker->critical)
    return worker == nullptr || signal != WAKE_SIGNAL ? pass_on(signal, info, opaque) : void();
  const Registers registers = registers_of((ucontext_t*)opaque);
  if (signal == WAKE_SIGNAL) {
    // On its own stack the worker is about to leave it, or to look whether to stop.
    if (on_a_stack(*worker, *registers.stack_pointer) && stops(*worker->launch))
      leave_fiber(*worker, registers);
    return;
  }
  if (signal == SIGFPE && skip_division((ucontext_t*)opaque)) return;
  const uint64_t address = (uint64_t)info->si_addr;
  const Failure failure = failure_of(*worker, signal, *info, *registers.stack_pointer);
  if (failure == PROTECTION && sanitizes(*worker))
    report_misaligned(*worker, {worker->last_address, 0, 0, worker->last_pc}, 16);
  if (failure == INVALID_ADDRESS && sanitizes(*worker) && is_near_stacks(*worker, address))
    report_beyond_own(*worker, *registers.pc + 1);
  fail(*worker->launch, failure, *registers.pc, address, worker);
  leave_fiber(*worker, registers);
}

}  // namespace

void catch_faults() {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < CAUGHT_COUNT; i++) sigaction(CAUGHT[i], &action, &previous[i]);
  catches = true;
}

void leave_faults() {
  catches = false;
  for (int i = 0; i < CAUGHT_COUNT; i++) sigaction(CAUGHT[i], &previous[i], nullptr);
}

void forget_faults() {
  if (catches) leave_faults();
}

void take_faults_only() {
  sigset_t others;
  sigfillset(&others);
  for (int i = 0; i < CAUGHT_COUNT; i++) sigdelset(&others, CAUGHT[i]);
  pthread_sigmask(SIG_SETMASK, &others, nullptr);
}

void use_signal_stack(Worker& worker) {
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = worker.signal_stack;
  stack.ss_size = SIGNAL_STACK_BYTES;
  sigaltstack(&stack, nullptr);
}

}  // namespace kw
