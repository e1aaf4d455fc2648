// Launches the kernels of test_elsewhere.py without Python: on a processor that only an emulator has.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "vet.h"

using namespace kw;

struct Team;
extern "C" {
Team* kw_start(const Request*);
int kw_wait(Team*, int);
void kw_finish(Team*, Outcome*);
void softmax(void* const*, const kw_thread*) __asm__("kw_entry:softmax:softmax");
void race(void* const*, const kw_thread*) __asm__("kw_entry:race:race");
void wild(void* const*, const kw_thread*) __asm__("kw_entry:wild:wild");
void endless(void* const*, const kw_thread*) __asm__("kw_entry:endless:endless");
extern const Wide wide_softmax __asm__("kw_wide:softmax:softmax") __attribute__((weak));
extern const Vet vet_softmax __asm__("kw_vet:softmax:softmax") __attribute__((weak));
extern const Vet vet_race __asm__("kw_vet:race:race") __attribute__((weak));
}

constexpr uint32_t ROWS = 16, COLUMNS = 1024;
static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
static Reports reports;

// Prints how a launch ended, and the kind of a report if there is one.
static void launch(const char* name, Entry entry, int milliseconds, const Wide* wide = nullptr,
                   const Vet* vet = nullptr) {
  uint32_t n = COLUMNS;
  memset(y, 0xff, sizeof y);
  memset(&reports, 0, sizeof reports);
  Buffer buffers[] = {{(char*)x, sizeof x, 4, 0, 1}, {(char*)y, sizeof y, 4, 1, 1},
                      {(char*)&n, sizeof n, 4, 0, 1}};
  Request request = {};
  request.code = request.uncounted = {entry, nullptr, wide, vet, 1, 0};
  request.vets = vet != nullptr;
  request.buffers = buffers;
  request.buffer_count = 3;
  request.grid = {ROWS * 256, 1, 1};
  request.threadgroup = {256, 1, 1};
  request.workers = 2;
  request.poison = 255;
#ifdef KW_SANITIZE
  request.sanitizes = 1;
  request.reports = &reports;
#endif
  Team* team = kw_start(&request);
  for (int waited = 0; waited < milliseconds && !kw_wait(team, 100); waited += 100) continue;
  Outcome outcome;
  kw_finish(team, &outcome);
  int kind = -1;
  for (const Report& report : reports.entries)
    if (report.key != 0) kind = (int)report.kind;
  printf("%s %d %d\n", name, (int)outcome.failure, kind);
}

static void save(const char* path) {
  FILE* file = fopen(path, "wb");
  fwrite(y, 1, sizeof y, file);
  fclose(file);
}

int main(int, char** paths) {
  for (uint32_t i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i * 7919 % 1000) / 250 - 2;
  launch("softmax", softmax, 60000);
  save(paths[1]);
  if (&wide_softmax != nullptr) {
    launch("wide", softmax, 60000, &wide_softmax);
    save(paths[2]);
  }
  if (&vet_softmax != nullptr) {
    launch("vetted", softmax, 60000, nullptr, &vet_softmax);
    save(paths[3]);
    launch("suspicious", race, 60000, nullptr, &vet_race);
  }
  launch("race", race, 60000);
  launch("wild", wild, 60000);
  launch("endless", endless, 500);
  launch("softmax", softmax, 60000);
}
