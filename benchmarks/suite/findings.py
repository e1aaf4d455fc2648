"""What the comparison of predictions with an H200 taught, in words."""

INTRODUCTION = """\
# Predictions beside measurements

Where nothing can be timed, the evaluator ranks by a predicted time. The simulator counts what a
kernel does, and `kernelwright/metal/perf` turns the counts into a time on a chip: a core holds a
number of simdgroups; each waits for memory and at barriers, and queues with the others for memory's
bandwidth, the shared cache, the issue of instructions and the start of threadgroups. How far all
that overlaps follows from the number of simdgroups (mean value analysis), not from a constant.

## What decides, found candidate by candidate

Measured with a GPU's clock, and with Nsight Compute's counters on the same kernels:

- **Instructions.** Two candidates in three keep the schedulers at 2.3 and more of 4 instructions a
  cycle; nothing tops 3.7. An accurate exponential, logarithm or quotient takes about 14 of them, a
  reduction over a simdgroup 17, every byte of a lane 1.7. The model had no such term.
- **Threadgroups.** The chip starts about 1640 a microsecond, which alone is 278 µs for 458752 of 64
  threads; a place that is left stays empty for some tenths of a microsecond.
- **Barriers.** They cost more the more simdgroups meet there. Rows of 1024 lanes are slow because
  two threadgroups fill a core, and little overlaps.
- **What is read twice** comes from the cache while the rows in flight fit there, and not by the
  size of the whole array: with 264 rows of 64 KB in flight a log-softmax reads its input once from
  memory, with 1056 twice.
- **Few bytes a read.** A simdgroup waits about once for four reads, so that lanes which take 2
  bytes at a time wait four times as often as those which take 8.
- **Registers** limit 30 of 180 candidates. They are not known before the GPU's compiler has run;
  the arrays in a kernel's text say enough (16 registers and one more for each 4 bytes: within 30 %
  of the real number of threadgroups on a core for more than nine in ten).

Not modelled: how many values the compiler keeps across a loop, divergence inside of `online` loops,
the order in which lines leave the cache, and that a quick exponential takes 2 instructions where an
accurate one takes 14. Accesses of 16 bytes are counted in parts, because the simulator's compiler
splits them; the parts are taken together again here.

## What to expect of it

The constants were fitted to 180 kernels of an earlier state of the lowering (23 tasks: a median
rank correlation of 0.90, 0.8 and more in 17), and stay as they were. The 359 candidates below were
written and timed since, so that none of them took part. Lowering has become better in between:
where 7 of 8 candidates of a task move memory at its full bandwidth, within 3 % of each other, as
those of `swiglu`, `geglu` and `relu_squared` do, there is hardly an order left to predict, and a
rank correlation says little. What counts for a search that drops candidates unseen is what it
loses: see the list under the table. An aim of 0.8 within each task is not reached.

All constants are shared by every task; the second row of the first table shows what fitting them to
the new candidates of all other tasks would change. This describes one chip; Apple's profiles share
the model and its costs in cycles, with their own published rates.
"""
