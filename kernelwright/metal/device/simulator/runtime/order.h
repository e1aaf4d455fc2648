// Seeded orders in which threads run, so that a race that one order hides shows in another.
#pragma once

#include <stdint.h>

namespace kw {

// SplitMix64, https://prng.di.unimi.it/splitmix64.c: one addition and a mix for 64 good bits.
struct Random {
  uint64_t state;

  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
};

// A bijection of 0 .. count-1: i -> (step * i + start) mod count with step and count coprime.
struct Permutation {
  uint64_t count, step = 1, start = 0;

  Permutation(uint64_t count, uint64_t seed) : count(count) {
    if (seed == 0 || count < 2) return;
    Random random{seed};
    start = random.next() % count;
    step = random.next() % count;
    while (common_divisor(step, count) != 1) step = (step + 1) % count;
  }

  // Counts stay below 2^32, so the product fits.
  uint64_t operator()(uint64_t i) const {
    return step == 1 && start == 0 ? i : (step * i + start) % count;
  }

 private:
  static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
      uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }
};

}  // namespace kw
