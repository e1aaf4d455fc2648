"""What the comparison of predictions with an H200 taught, in words."""

INTRODUCTION = """\
# Predictions beside measurements

Where nothing can be timed, the evaluator ranks by a predicted time. The simulator counts what a
kernel does, and `kernelwright/metal/perf` turns the counts into a time on a chip: what memory, the
shared cache, the start of threadgroups, the busiest part of a core and the waiting of simdgroups
would each take alone. The longest decides, the more the longer it is than the others; what a
simdgroup does one after the other is added, divided by the simdgroups that a core holds.

## What decides, found candidate by candidate

Measured with a GPU's clock, and with Nsight Compute's counters on the same kernels:

- **Instructions.** Two candidates in three keep the schedulers at 2.3 and more of 4 instructions a
  cycle; nothing tops 3.7. An accurate exponential, logarithm or quotient takes about 10 of them,
  one of `fast::` 3, a reduction over a simdgroup 18, a thread's beginning and end 19, as a fit to
  the counts alone has it. The costs that describe the times best, with what else goes along with
  each, are some other than these; half of the sums are within 20 % of what was executed.
- **Threadgroups.** The chip starts about 1610 a microsecond, which alone is 278 µs for 458752 of
  64 threads; a place that is left stays empty for some tenths of a microsecond.
- **The largest threadgroup.** Counts are sums, and a mean says nothing of one threadgroup that
  does it all: the time grows by what the largest has beyond the mean, as many times what a mean
  one takes alone on a core (at least a simdgroup's life, or the core's share of the time of all).
  Even work adds nothing; of 328 lowered kernels of the catalog causal attention gains most, 22 %.
  The constants were fitted without it.
- **Barriers.** They cost more the more simdgroups meet there. Rows of 1024 lanes are slow because
  two threadgroups fill a core, and little overlaps.
- **What is read twice** comes from a core's own 256 KB while the rows that it works on fit there,
  then from the shared cache while all rows in flight fit there, and not by the size of the whole
  array: with 264 rows of 64 KB in flight a log-softmax reads its input once from memory, with 1056
  twice.
- **Rounds of reads.** A simdgroup waits once for all reads of a basic block, and once for four
  turns of a plain loop, which compilers unroll; with a branch in the loop it waits at every turn.
- **Registers** are not known before the GPU's compiler has run; the arrays in a kernel's text, and
  what a lane reads in a round, say enough (within 30 % of the real number of threadgroups on a
  core for nine in ten).

Not modelled: how many values the compiler keeps across a loop, what it makes of addresses (copies
with cases, as in `cache_append`, take up to twice the instructions for a wider vector), the order
in which lines leave the cache, and rows that a lane walks along by itself (`accesses`).

## What to expect of it

The candidates below were drawn at random from all legal schedules of each task, not from those
that a search would try first, so that they differ as much as schedules do. Where most of them move
memory at its full bandwidth (see "within 5 % of it") there is hardly an order left to predict, and
a rank correlation says little: `adamw_step` has eight candidates of twelve within 4 %. What counts
for a search that drops candidates unseen is what it loses: see the list under the table. An aim of
0.8 within each task is not reached, and is out of reach: the last rows of the first table are of
measured times with a random error, and one per cent of it would be needed. Better counting alone
would not help either: with the instructions that Nsight Compute counted in place of the estimates
(third row) as many tasks fall short; what is left is how the parts of a core overlap.

All constants are shared by every task. They are fitted to these candidates; the second row of the
first table is of fits that saw none of a task's candidates, a fifth of the tasks left out at a
time. This describes one chip; Apple's profiles share the model and its costs in cycles, with their
own published rates, and nothing was timed there. Every page, line and message that shows a
prediction for another chip says so: "costs fitted on an H200 and carried over to m4".
"""
