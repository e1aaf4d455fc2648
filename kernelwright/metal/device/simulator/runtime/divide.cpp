#include "divide.h"

#include <stdint.h>

namespace kw {

#if defined(__x86_64__)

namespace {

// Length of a ModRM byte with its SIB byte and displacement; Intel SDM volume 2, table 2-2.
int operand_length(const uint8_t* modrm) {
  const int mode = modrm[0] >> 6, base = modrm[0] & 7;
  if (mode == 3) return 1;
  int length = base == 4 ? 2 : 1;
  if (mode == 1) return length + 1;
  if (mode == 2) return length + 4;
  const bool no_base = base == 5 || (base == 4 && (modrm[1] & 7) == 5);
  return no_base ? length + 4 : length;
}

}  // namespace

bool skip_division(ucontext_t* context) {
#if defined(__APPLE__)
  auto& state = context->uc_mcontext->__ss;
  auto &pc = state.__rip, &quotient = state.__rax, &remainder = state.__rdx;
#else
  auto* state = context->uc_mcontext.gregs;
  auto &pc = state[REG_RIP], &quotient = state[REG_RAX], &remainder = state[REG_RDX];
#endif
  const uint8_t* code = (const uint8_t*)pc;
  while (*code == 0x66 || (*code & 0xf0) == 0x40) code++;
  const int operation = code[1] >> 3 & 7;
  if ((code[0] != 0xf7 && code[0] != 0xf6) || operation < 6) return false;
  quotient = 0;
  // An 8-bit division keeps its remainder in AH, which the line above has cleared.
  if (code[0] == 0xf7) remainder = 0;
  pc = (long long)(code + 1 + operand_length(code + 1));
  return true;
}

#else

bool skip_division(ucontext_t*) { return false; }

#endif

}  // namespace kw
