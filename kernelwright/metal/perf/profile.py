"""What is known of each chip: rates, sizes and costs, each with its source.

Sources, by the letters that the table uses:

- A: Apple's announcements and specifications of each chip, https://www.apple.com/newsroom/ and
  https://support.apple.com/specs (GPU cores, memory bandwidth, and TFLOPS for M1 and M2).
- B: https://github.com/philipturner/metal-benchmarks, measured on M1 and M2 (clocks, caches, and
  operations of a core in one cycle). M3 to M5 are assumed to do as much in a cycle.
- C: clocks that `powermetrics` reports on M3, M4 and M5, as users publish them: an estimate.
- D: NVIDIA's H200 and H100 data sheets, https://www.nvidia.com/en-us/data-center/h200/ and
  https://resources.nvidia.com/en-us-tensor-core.
- E: CUDA C++ programming guide, arithmetic instructions, compute capability 9.0,
  https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions.
- F: measured through MLX 0.32.4 on one H200: 4.3 of 4.8 TB/s for a copy.
- G: fitted to the times of 624 kernels on one H200, docs/prediction.md.
- H: as G, and scaled to the instructions that the same kernels executed, as Nsight Compute counted
  them: half of the estimates are within 20 %.
- I: CUDA C++ programming guide, technical specifications per compute capability, 9.0,
  https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities.
- J: https://tzakharko.github.io/apple-neural-accelerators-benchmark, measured on an A19 and said to
  hold for M5's cores: 16-bit matrices four times as fast as 32-bit ones, which are no faster.
"""

from collections.abc import Iterable
from typing import Literal

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

_MIB = 1 << 20
FITTED_ON = "h200"
"""The chip whose kernels were timed to fit what all profiles share; see G and H."""
Vendor = Literal["apple", "nvidia"]


class InstructionCosts(Record):
    """Instructions of a simdgroup that the counters of a kernel stand for, on average."""

    float_operation: float
    """A fused multiply-add counts two operations, and many others are folded into it."""
    integer_operation: float
    """Many are parts of addresses, and vanish."""
    special_operation: float
    """With the steps around the unit's result that make it accurate."""
    quick_operation: float
    """The same by `fast::`: the unit's result, scaled."""
    byte: float
    """Read or written by a lane: its address, the loop around it, its conversion."""
    read: float
    write: float
    simd_operation: float
    """A reduction takes a shuffle and an operation for each power of two."""
    thread: float
    """To begin and to end."""


class CoreRates(Record):
    """What one core does in one cycle, and what it holds."""

    instructions: float
    """Of simdgroups, as many as kernels reach."""
    float_operations: int
    """A fused multiply-add counts two."""
    special_operations: int
    integer_operations: int
    matrix_multiply_adds: int
    """Inside simdgroup_matrix operations; an 8x8x8 one takes 512."""
    tensor_multiply_adds: int
    """Inside matmul2d of tensors of 16 bits an element."""
    threadgroup_bytes: int
    cache_bytes: float
    """Between the core and the cache that all cores share."""
    own_cache_size: int
    """In bytes; threadgroup memory is taken from it."""
    access_bytes: float
    """Of sectors that lanes ask the core's own cache for."""
    instruction_cycles: float
    """From one instruction of a simdgroup to its next."""
    barrier_cycles: float
    """From the last simdgroup's arrival until all go on, with what they exchange."""
    arrival_cycles: float
    """That a barrier takes longer for each simdgroup of the threadgroup."""
    threads: int
    """Most threads in flight."""
    threadgroups: int
    """Most threadgroups in flight."""
    registers: int
    """Of 32 bits."""
    saturating_threads: int
    """Threads in flight from which on the arithmetic units are busy."""
    threadgroup_memory: int
    costs: InstructionCosts


_COSTS = InstructionCosts(
    float_operation=0.52,
    integer_operation=0.42,
    special_operation=7.0,
    quick_operation=2.1,
    byte=0.95,
    read=2.8,
    write=0.8,
    simd_operation=6.9,
    thread=14.0,
)
"""H."""


# B: 256 float operations, 128 integer additions, 32 exp2, 21 reciprocals and 16 reciprocal square
# roots (the middle one stands for all), 102 matrix multiply-adds, 64 bytes of threadgroup memory
# and about 32 bytes of shared cache a cycle; 3072 threads, busy from 24 simdgroups on; ~60 KB,
# and ~208 KB of registers; 4 schedulers. G stands for the rest, with fewer instructions around the
# special units, which Apple's own library uses more directly.
APPLE_CORE = CoreRates(
    instructions=1.98,
    float_operations=256,
    special_operations=21,
    integer_operations=128,
    matrix_multiply_adds=102,
    tensor_multiply_adds=102,
    threadgroup_bytes=64,
    cache_bytes=32,
    own_cache_size=8 * 1024,
    access_bytes=64,
    instruction_cycles=10.5,
    barrier_cycles=48,
    arrival_cycles=23,
    threads=3072,
    threadgroups=96,
    registers=52 * 1024,
    saturating_threads=768,
    threadgroup_memory=60 * 1024,
    costs=_COSTS.model_copy(update={"special_operation": 2.9, "quick_operation": 1.5}),
)
# J: 1024 operations of 16-bit tensors in a cycle. Up to twice as many of 8-bit integers are left
# out.
M5_CORE = APPLE_CORE.model_copy(update={"tensor_multiply_adds": 512})
# D, E, I: 128 multiply-adds, 16 special operations, 64 integer additions beside 64 multiply-adds,
# and 128 bytes of shared memory a cycle, half as many where each lane asks for a line of its own;
# 2048 threads in 32 threadgroups, 64 K registers, 256 KB of cache and shared memory. G: 1.98 of 4
# instructions a cycle, 19.2 bytes of L2 (5.0 TB/s for the chip), and what follows in cycles. H: the
# costs. Float matrices of the translated text use no tensor core; theirs is the rate.
HOPPER_CORE = CoreRates(
    instructions=1.98,
    float_operations=256,
    special_operations=16,
    integer_operations=128,
    matrix_multiply_adds=128,
    tensor_multiply_adds=128,
    threadgroup_bytes=128,
    cache_bytes=19.2,
    own_cache_size=256 * 1024,
    access_bytes=64,
    instruction_cycles=10.5,
    barrier_cycles=48,
    arrival_cycles=23,
    threads=2048,
    threadgroups=32,
    registers=64 * 1024,
    saturating_threads=512,
    threadgroup_memory=227 * 1024,
    costs=_COSTS,
)


class ChipProfile(Record):
    """One chip, in its largest GPU configuration."""

    name: str
    vendor: Vendor
    cores: int
    clock_ghz: float
    bandwidth_gb_s: float
    last_cache_bytes: int
    """The largest cache before memory: Apple's system level cache, NVIDIA's L2."""
    core: CoreRates
    launch_us: float
    """From one kernel's end to the next one's start."""
    memory_latency_us: float
    """Of each round of reads that nothing else hides."""
    threadgroup_start_us: float
    """From a threadgroup's end until its successor's first instruction."""
    threadgroups_per_us: float
    """Threadgroups that the whole chip starts."""
    bandwidth_efficiency: float = 0.9
    """Share of the bandwidth that a plain copy reaches; F, and an estimate for Apple's chips."""
    sources: str
    """Letters of this module's list."""
    estimates: tuple[str, ...] = ()
    """Fields whose figures nobody has published or measured for this chip."""

    @property
    def carried_over_from(self) -> str:
        """The chip that the costs were fitted on; empty for that chip itself."""
        return "" if self.name == FITTED_ON else FITTED_ON

    @property
    def float_tflops(self) -> float:
        """Peak of 32-bit arithmetic."""
        return self.cores * self.core.float_operations * self.clock_ghz / 1e3

    @property
    def least_wait_us(self) -> float:
        """How long a started launch takes at least: its threads start, and wait for one read."""
        return self.threadgroup_start_us + self.memory_latency_us

    @property
    def least_launch_us(self) -> float:
        """How long a launch takes at least, from the end of the one before to its own."""
        return self.launch_us + self.least_wait_us


_ASSUMED = (
    "core",
    "launch_us",
    "memory_latency_us",
    "threadgroup_start_us",
    "threadgroups_per_us",
    "bandwidth_efficiency",
)


def _apple(
    name: str,
    cores: int,
    clock_ghz: float,
    bandwidth_gb_s: float,
    last_cache_mib: int,
    *,
    core: CoreRates = APPLE_CORE,
    sources: str = "A, B",
    estimates: tuple[str, ...] = (),
) -> ChipProfile:
    return ChipProfile(
        name=name,
        vendor="apple",
        cores=cores,
        clock_ghz=clock_ghz,
        bandwidth_gb_s=bandwidth_gb_s,
        last_cache_bytes=last_cache_mib * _MIB,
        core=core,
        # Dispatches of one command buffer that depend on each other; no published figure.
        launch_us=4.0,
        # As on the H200, in clock cycles.
        memory_latency_us=0.107 / clock_ghz,
        threadgroup_start_us=1.39 / clock_ghz,
        threadgroups_per_us=0.81 * clock_ghz * 1e3,
        sources=sources,
        estimates=(*_ASSUMED, *estimates),
    )


_GUESSED = ("clock_ghz", "last_cache_bytes")

_PROFILES = (
    _apple("m1", 8, 1.278, 68.25, 8),
    _apple("m1-pro", 16, 1.296, 200, 24),
    _apple("m1-max", 32, 1.296, 400, 48),
    _apple("m1-ultra", 64, 1.296, 800, 96),
    _apple("m2", 10, 1.398, 100, 8),
    _apple("m2-pro", 19, 1.398, 200, 24),
    _apple("m2-max", 38, 1.398, 400, 48),
    _apple("m2-ultra", 76, 1.398, 800, 96, estimates=("last_cache_bytes",)),
    _apple("m3", 10, 1.38, 100, 8, sources="A, B, C", estimates=_GUESSED),
    _apple("m3-pro", 18, 1.38, 150, 12, sources="A, B, C", estimates=_GUESSED),
    _apple("m3-max", 40, 1.38, 400, 48, sources="A, B, C", estimates=_GUESSED),
    _apple("m3-ultra", 80, 1.38, 819, 96, sources="A, B, C", estimates=_GUESSED),
    _apple("m4", 10, 1.578, 120, 8, sources="A, B, C", estimates=_GUESSED),
    _apple("m4-pro", 20, 1.578, 273, 24, sources="A, B, C", estimates=_GUESSED),
    _apple("m4-max", 40, 1.578, 546, 48, sources="A, B, C", estimates=_GUESSED),
    _apple("m5", 10, 1.62, 153, 8, core=M5_CORE, sources="A, B, C, J", estimates=_GUESSED),
    _apple("m5-pro", 20, 1.62, 307, 24, core=M5_CORE, sources="A, B, C, J", estimates=_GUESSED),
    _apple("m5-max", 40, 1.62, 614, 48, core=M5_CORE, sources="A, B, C, J", estimates=_GUESSED),
    # As the H200, but for its memory; D gives the SXM5 board's.
    ChipProfile(
        name="h100",
        vendor="nvidia",
        cores=132,
        clock_ghz=1.98,
        bandwidth_gb_s=3350,
        last_cache_bytes=50 * _MIB,
        core=HOPPER_CORE,
        launch_us=6.2,
        memory_latency_us=0.054,
        threadgroup_start_us=0.70,
        threadgroups_per_us=1610,
        sources="D, E, G, H, I",
        estimates=("launch_us", "memory_latency_us", "bandwidth_efficiency"),
    ),
    ChipProfile(
        name="h200",
        vendor="nvidia",
        cores=132,
        clock_ghz=1.98,
        bandwidth_gb_s=4800,
        last_cache_bytes=50 * _MIB,
        core=HOPPER_CORE,
        launch_us=6.2,
        memory_latency_us=0.054,
        threadgroup_start_us=0.70,
        threadgroups_per_us=1610,
        sources="D, E, F, G, H, I",
    ),
)
PROFILES: dict[str, ChipProfile] = {profile.name: profile for profile in _PROFILES}
"""Every known chip by name. M4 and M5 have no Ultra."""


CAVEAT = f"costs fitted on an {FITTED_ON.upper()} and carried over to other chips"
"""What belongs beside predicted times of chips that are not told apart."""


def caveat_of(chips: Iterable[str]) -> str:
    """Say of predictions for chips that their costs were fitted elsewhere; empty if on each.

    It belongs beside every predicted time that is shown. Chips without a profile have none.
    """
    known = [PROFILES[chip] for chip in dict.fromkeys(chips) if chip in PROFILES]
    carried = [profile.name for profile in known if profile.carried_over_from]
    if not carried:
        return ""
    return f"costs fitted on an {FITTED_ON.upper()} and carried over to {', '.join(carried)}"


def find_profile(chip: str) -> ChipProfile:
    """Return a chip's profile by its name here (`m2-pro`) or Apple's own (`Apple M2 Pro`).

    Raises:
        InputError: the chip is not known.
    """
    key = chip.lower().removeprefix("nvidia ").removeprefix("apple ").replace(" ", "-")
    if key in PROFILES:
        return PROFILES[key]
    raise InputError(f"there is no profile of a chip {chip!r}; known are {', '.join(PROFILES)}.")
