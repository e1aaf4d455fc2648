"""What identifies a device, how a run is asked for, and what one run cost."""

import hashlib
from typing import Literal

from pydantic import Field

from kernelwright.metal.diagnostic import Record

DeviceName = Literal["simulator", "metal", "cuda"]
FastError = Literal["usual", "worst"]
"""How far off `fast::` functions are on the simulator: little, or all that Apple documents."""
BUFFER_ALIGNMENT = 256
"""Bytes; MLX takes small buffers from a heap at such places, large ones begin on a page."""
STANDING_FOR = " for "
"""Between the name of a simulator's processor and of the chip that it stands for."""
_PAGE = 16384
_MOST_PADDING = 64
"""Of that alignment: up to a page."""
METAL_THREADGROUP_BYTES = 32768
"""Apple's limit, https://developer.apple.com/metal/Metal-Feature-Set-Tables.pdf."""


class DeviceInfo(Record):
    """What identifies a device in the store: results hold only where all of it is the same."""

    name: DeviceName
    chip: str
    """Under a limit of threadgroup memory that is not Metal's, the limit is part of it, and on a
    simulator that stands for a chip this one's name: schedules are tried and ranked for it."""
    runtime: str
    """Versions of what compiles and runs, such as `mlx 0.32.4, ziglang 0.17.0`."""
    measures_time: bool
    """False where elapsed time says nothing about a GPU; ranking then uses predictions."""
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES
    """What a threadgroup may take; more than Metal's where the user allows it."""
    threads_per_threadgroup: int = 1024
    simd_width: int = 32

    @property
    def exceeds_metal(self) -> bool:
        """True where a threadgroup may take more memory than on any Mac."""
        return self.threadgroup_bytes > METAL_THREADGROUP_BYTES

    @property
    def stands_for(self) -> str:
        """The chip that the simulator was told to stand for; empty where none was named."""
        return self.chip.partition(", ")[0].partition(STANDING_FOR)[2]

    @property
    def bare_chip(self) -> str:
        """The chip alone, by which its profile is found."""
        return self.chip.partition(", ")[0] if self.exceeds_metal else self.chip


class ForcedCondition(Record):
    """A condition that a run takes to be true, or false, whatever it finds."""

    launch: int
    site: int
    value: bool


class Condition(Record):
    """A condition on loaded data in a candidate's text, and which sides of it a run has taken."""

    launch: int
    site: int
    """Its number among the conditions of the launch's text."""
    file: str
    line: int
    column: int
    kind: str
    """How it compares, or joins conditions, in the words of LLVM, such as `fcmp oeq`."""
    constant: str = ""
    """What it compares with, where that stands in the text."""
    loaded: tuple[str, str] = ("", "")
    """The arrays that the two compared numbers were loaded from, where they were not changed."""
    loaded_bits: tuple[int, int] = (0, 0)
    """How wide the integers are that they were loaded as: two elements at a time are none."""
    is_known: tuple[bool, bool] = (False, False)
    """Which of them depend on no loaded data."""
    is_special: bool = False
    """It asks whether numbers are NaN, infinite or at the end of their format, and no more."""
    is_fixed: bool = False
    """It depends on the launch alone; it is told of where conditions on data hang on it."""
    ways: tuple[tuple[tuple[int, bool], ...], ...] = ()
    """Of a flag that a loop carries: the sites of such conditions, and their sides, that each way
    takes by which data comes into it. None where one of them takes none."""
    ways_beyond_ends: tuple[tuple[tuple[int, bool], ...], ...] = ()
    """The same of what a loop carries that starts at the end of a format, as a running maximum:
    until one is taken, the condition asks for special numbers and no more."""
    is_chosen: bool = False
    """The first is one of several places, or a mark in their stead, which data chose."""
    numbers: tuple[float, ...] = ()
    """Finite numbers of the text that what it compares is computed with."""
    reads_bits: bool = False
    """What it compares is computed from the bits of a float that it has computed."""
    parts: tuple[tuple[int, bool], ...] = ()
    """Of a combination, the sites that it joins, and whether it takes their opposite."""
    as_integers: tuple[str, ...] = ()
    """Arrays of which it loads integers, whatever they hold."""
    compares: bool = False
    """What it compares hangs on other comparisons, which ask for more than special numbers."""
    was_false: bool = False
    was_true: bool = False
    compared: tuple[float, float] | None = None
    """The two numbers that it compared last."""


class RunOptions(Record):
    """How to run a candidate so that it cannot hide what it does."""

    poison: int = 0xFF
    """Byte that fills outputs, temporaries, padding and threadgroup memory (0xFF is a NaN)."""
    padding_bytes: int = 256
    """Canary bytes before and after each array at least, where the device can place them."""
    padding_seed: int = 0
    """Draws how many more bytes stand before each array, so that an address tells nothing; on a
    GPU, where MLX places arrays, it changes nothing."""
    order_seed: int = 0
    """Seeds the order in which threads run, where the device can choose it."""
    fast_error: FastError = "usual"
    """On the simulator."""
    sanitize: bool = False
    count: bool = False
    watch: bool = False
    """Note which sides of its conditions on loaded data the program takes; on the simulator."""
    forced: tuple[ForcedCondition, ...] = ()
    """Of a watching run."""
    sample_seed: int = Field(default=0, ge=0, lt=1 << 64)
    """Draws the threadgroups that a counting run counts where they are many."""
    counts_all: bool = False
    """A counting run counts every threadgroup, however many there are."""
    timeout_s: float = 30.0
    """When to give up; the simulator counts work instead, as much as a machine does in that time.
    """

    def padding_before(self, array: str) -> int:
        """Return the canary bytes before an array, a multiple of what Metal aligns buffers to.

        One array in four begins on a page, as a large buffer of Metal's does.
        """
        least = -(-self.padding_bytes // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT
        if not self.padding_seed:
            return least
        drawn = self._drawn(array)
        more = least + drawn // 4 % _MOST_PADDING * BUFFER_ALIGNMENT
        return more if drawn % 4 else -(-more // _PAGE) * _PAGE

    def placement(self, array: str) -> int:
        """Return a number that decides where an array lies, and before which others; 0 for none."""
        return self._drawn(f"place of {array}") if self.padding_seed else 0

    def _drawn(self, text: str) -> int:
        seeded = f"{self.padding_seed}|{text}".encode()
        return int.from_bytes(hashlib.blake2b(seeded, digest_size=8).digest())


class BufferTraffic(Record):
    """What one launch moved to and from one buffer."""

    name: str
    bytes_read: int = 0
    bytes_written: int = 0
    sectors_read: int = 0
    """32-byte sectors after coalescing each simdgroup's access."""
    sectors_written: int = 0
    reads: int = 0
    """Made by simdgroups, of up to 32 lanes each."""
    writes: int = 0
    group_sectors_read: int = 0
    """Distinct sectors of each threadgroup, summed over threadgroups."""
    read_rounds: int = 0
    """Runs of a basic block, by a simdgroup, that begin with a read of this buffer."""
    looped_rounds: int = 0
    """Those in loops of one block, which compilers unroll, so that several are under way."""
    unique_bytes_read: int = 0
    unique_bytes_written: int = 0
    unique_sectors_read: int = 0
    unique_sectors_written: int = 0


class LineCost(Record):
    """What one line of a kernel's text cost in a launch."""

    file: str
    """`source` or `header`."""
    line: int
    sectors: tuple[tuple[str, int], ...] = ()
    """32-byte sectors that it reads or writes, by buffer."""
    bank_conflicts: int = 0
    operations: int = 0
    """Float, special and integer ones."""


class Counters(Record):
    """What one launch cost, summed over its threads."""

    kernel: str
    threads: int
    threadgroups: int
    counted_threadgroups: int | None = None
    """Fewer than all where a random sample was counted and the rest extrapolated."""
    sampling_error: float = 0.0
    """Of a sample: two standard errors of the sums, as a share of them. Distinct bytes and sectors
    are estimates then, of which it says nothing."""
    threadgroup_bytes: int = 0
    """Threadgroup memory that each threadgroup takes."""
    thread_array_bytes: int = 0
    """Of arrays that each thread declares for itself, which a GPU keeps in registers."""
    buffers: tuple[BufferTraffic, ...] = ()
    threadgroup_bytes_read: int = 0
    threadgroup_bytes_written: int = 0
    bank_conflicts: int = 0
    """Extra 4-byte-bank cycles of simdgroup accesses to threadgroup memory."""
    barriers: int = 0
    """Passed by a threadgroup, summed over threadgroups."""
    simd_operations: int = 0
    """Performed by a simdgroup, summed over simdgroups."""
    float_operations: int = 0
    """A fused multiply-add counts two."""
    special_operations: int = 0
    """exp, log, sin, rsqrt, division and the like."""
    quick_operations: int = 0
    """Of the special ones, those of `fast::`, which need few steps around a GPU's own result."""
    integer_operations: int = 0
    matrix_operations: int = 0
    """8x8x8 multiply-adds of simdgroup matrices and cooperative tensors."""
    tensor_operations: int = 0
    """Of them, those of tensors of at most 16 bits an element."""
    atomic_operations: int = 0
    divergent_branches: int = 0
    """Basic blocks that a simdgroup ran without some of its lanes."""
    active_lanes: float = 1.0
    """Share of the lanes issued that took part, weighted by operations."""
    group_imbalance: float = 1.0
    """What the largest counted threadgroup computes or moves, over their mean."""
    lines: tuple[LineCost, ...] = ()
    """The few that take most, the dearest first."""
