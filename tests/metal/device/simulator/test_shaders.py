"""Whole shaders that people publish compute what NumPy does on fibers, in lanes and sanitized."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.device.simulator.function_constant import Constants
from kernelwright.metal.device.simulator.library import Argument, Key

_FOLDER = Path(__file__).parent / "shaders"
_RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, and what the buffer `output` must hold afterwards."""

    text: str
    kernel: str
    buffers: Sequence[Argument]
    output: int
    expected: npt.ArrayLike
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    tolerance: float = 1e-4
    fresh: bool = True
    sizes: Mapping[Key, int] = field(default_factory=dict)
    constants: Constants = field(default_factory=dict)
    read: Callable[[Array], npt.ArrayLike] = np.asarray


def _normal(*shape: int) -> npt.NDArray[np.float32]:
    return _RNG.standard_normal(shape).astype(np.float32)


def _nbody() -> Case:
    n, bodies = 150, _normal(150, 8)
    bodies[:, 3] = abs(bodies[:, 3])
    r = bodies[None, :, :3].astype(float) - bodies[:, None, :3]
    pull = (r * (bodies[None, :, 3] / ((r * r).sum(-1) + 0.1) ** 1.5)[..., None]).sum(1)
    speed = bodies[:, 4:7] + pull * 0.01
    sizes = np.array([(n, 0.01, 0.1, [0] * 5)], "u4, f4, f4, (5,)u4").tobytes()
    buffers = (bodies, np.full_like(bodies, np.nan), sizes)
    grid, threadgroup = (192, 1, 1), (64, 1, 1)
    return Case(
        "nbody",
        "nbody_step",
        buffers,
        1,
        np.concatenate((bodies[:, :3] + speed * 0.01, speed), 1),
        grid,
        threadgroup,
        read=lambda y: y[:, [0, 1, 2, 4, 5, 6]],
    )


def _fft() -> Case:
    x = _normal(3, 256, 2)
    y = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    expected = np.stack((y.real, y.imag), -1)
    return Case(
        "fft",
        "fft_256",
        (x, np.zeros_like(x)),
        1,
        expected,
        (192, 1, 1),
        (64, 1, 1),
        1e-3,
        sizes={"buf": 2048},
    )


def _look_back() -> Case:
    x = _RNG.integers(0, 9, 1000).astype(np.uint32)
    buffers = (x, np.zeros_like(x), np.zeros(8, np.uint32), np.zeros(1, np.uint32), np.uint32(1000))
    return Case(
        "look_back", "decoupled_lookback", buffers, 1, np.cumsum(x), (1024, 1, 1), (128, 1, 1)
    )


def _hash_table() -> Case:
    keys = _RNG.integers(0, 60, 100).astype(np.uint32)
    table = np.full((256, 2), (2**32 - 1, 0), np.uint32)
    counts = np.bincount(keys, minlength=60)
    pairs = np.stack((keys, np.ones_like(keys)), 1)

    def count(y: Array) -> Array:
        used = y[y[:, 0] != 2**32 - 1].astype(int)
        return np.bincount(used[:, 0], used[:, 1], 60)

    return Case(
        "hash_table",
        "table_insert",
        (table, pairs, np.uint32(100)),
        0,
        counts,
        (128, 1, 1),
        (32, 1, 1),
        fresh=False,
        read=count,
    )


def _blur() -> Case:
    height, width, radius = 37, 45, 3
    image = _RNG.random((height, width)).astype(np.float16)
    sizes = np.array([(width, height, width, 1.5)], "i4, i4, i4, f4").tobytes()
    padded = np.pad(image.astype(float), radius, mode="edge")
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-(offsets[:, None] ** 2 + offsets**2) / (2 * 1.5**2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape)
    expected = (windows * weights).sum((2, 3)) / weights.sum()
    return Case(
        "filters",
        "blur",
        (image, np.zeros_like(image), sizes),
        1,
        expected,
        (48, 48, 1),
        (16, 16, 1),
        2e-3,
        constants={"kRadius": radius, "kUseGaussian": 1},
    )


def _clusters() -> Case:
    points, centers = _normal(300, 2), _normal(5, 2)
    nearest = ((points[:, None] - centers) ** 2).sum(-1).argmin(1)
    sizes = np.array([(300, 5, 0, 0)], "u4, u4, f4, u4").tobytes()
    buffers = (
        points,
        centers,
        np.zeros(300, np.uint32),
        np.zeros(16, np.float32),
        np.zeros(8, np.uint32),
        sizes,
    )
    return Case("clusters", "assign", buffers, 2, nearest, (320, 1, 1), (64, 1, 1))


def _flash() -> Case:
    q, k, v = (_normal(n, 64).astype(np.float16) for n in (32, 48, 48))
    scores = q.astype(float) @ k.astype(float).T / 8
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v.astype(float)
    buffers = (q, k, v, np.zeros_like(q), np.int32(48), np.float32(1 / 8))
    return Case("flash", "flash_f16_64", buffers, 3, expected, (256, 1, 1), (128, 1, 1), 4e-3)


def _life() -> Case:
    words = _RNG.integers(0, 2**32, (40, 3), dtype=np.uint32)

    def cells(y: Array) -> Array:
        return np.unpackbits(y.view(np.uint8), axis=1, bitorder="little")

    now = cells(words)
    turns = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if y or x]
    near = sum(np.roll(now, turn, (0, 1)).astype(int) for turn in turns)
    expected = (near == 3) | ((now == 1) & (near == 2))
    buffers = (words, np.zeros_like(words), np.array([3, 40], np.uint32))
    return Case("life", "life", buffers, 1, expected, (3, 40, 1), (3, 8, 1), read=cells)


def _scan() -> Case:
    x = _RNG.integers(-50, 50, 500).astype(np.int32)
    return Case(
        "scan",
        "scan_tiles",
        (x, np.zeros_like(x), np.uint32(500)),
        1,
        np.cumsum(x),
        (128, 1, 1),
        (128, 1, 1),
        sizes={"scratch": 128},
    )


def _quantized() -> Case:
    blocks = np.zeros((7, 4), "f2, (16,)u1")
    blocks["f0"], blocks["f1"] = _RNG.random((7, 4)), _RNG.integers(0, 256, (7, 4, 16))
    rows = np.array([3, 1, 6], np.int32)
    digits = np.asarray(np.concatenate((blocks["f1"] & 15, blocks["f1"] >> 4), -1), float) - 8
    expected = (digits * blocks["f0"][..., None]).reshape(7, 128)[rows]
    buffers = (
        np.frombuffer(blocks.tobytes(), np.uint8),
        rows.view(np.int8),
        np.zeros((3, 128), np.float32),
        np.int64(128),
        np.uint64(72),
    )
    return Case(
        "quantized", "kernel_get_rows_q4_0", buffers, 2, expected, (24, 1, 1), (8, 1, 1), 1e-3
    )


def _shuffles() -> Case:
    x = _normal(6, 100)
    buffers = (x, np.zeros(6, np.uint32), np.uint32(100))
    return Case("shuffles", "argmax_rows", buffers, 1, x.argmax(1), (192, 1, 1), (32, 1, 1))


def _random() -> Case:
    buffers = (np.zeros(1, np.uint32), np.uint32(7))
    return Case(
        "random",
        "monte_carlo_pi",
        buffers,
        0,
        np.array([np.pi]),
        (256, 1, 1),
        (64, 1, 1),
        0.03,
        fresh=False,
        read=lambda y: np.asarray(y, float) * 4 / (256 * 32),
    )


def _tree() -> Case:
    nodes = np.zeros(3, "(3,)f4, i4, (3,)f4, i4")
    nodes["f0"], nodes["f2"] = -5, 5
    nodes["f1"], nodes["f3"] = [1, ~7, ~9], [2, 0, 0]
    buffers = (
        np.frombuffer(nodes.tobytes(), np.uint8),
        np.full((8, 3), -6, np.float32),
        np.zeros(8, np.uint32),
    )
    return Case("tree", "traverse", buffers, 2, np.full(8, 16), (8, 1, 1), (8, 1, 1))


_CASES = (
    _nbody,
    _fft,
    _look_back,
    _hash_table,
    _blur,
    _clusters,
    _flash,
    _life,
    _scan,
    _quantized,
    _shuffles,
    _random,
    _tree,
)


@pytest.mark.parametrize("make", _CASES, ids=lambda make: make.__name__.strip("_"))
@pytest.mark.sampled(7)
def test_a_shader_computes_what_numpy_does(
    make: Callable[[], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make()
    library = simulator.compile((_FOLDER / f"{case.text}.metal").read_text())
    for threads, sanitize in ((1 << 40, False), (1, False), (1 << 40, True)):
        monkeypatch.setattr(compiler, "WIDE_THREADS", threads)
        buffers = [b.copy() if isinstance(b, np.ndarray) else b for b in case.buffers]
        outcome = library.kernel(case.kernel, case.constants).launch(
            buffers,
            grid=case.grid,
            threadgroup=case.threadgroup,
            threadgroup_bytes=case.sizes,
            fresh=[case.output] if case.fresh else [],
            sanitize=sanitize,
        )
        assert outcome.reports == ()
        found = np.asarray(case.read(np.asarray(buffers[case.output])), float)
        np.testing.assert_allclose(
            found, np.asarray(case.expected, float), rtol=case.tolerance, atol=case.tolerance
        )
