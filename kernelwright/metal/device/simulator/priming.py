"""Precompiled headers ahead of time, for processes that may not write to the shared cache."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

from kernelwright.metal.device.simulator.build import runtime_path
from kernelwright.metal.device.simulator.compiler import prelude_text
from kernelwright.metal.device.simulator.toolchain import (
    Variant,
    precompiled_header,
    precompiled_path,
)
from kernelwright.metal.kernel import MathMode


def is_primed(math_modes: Iterable[MathMode]) -> bool:
    """Say whether kernels of some math modes find every header that their builds need."""
    text = prelude_text("mlx")
    return all(precompiled_path(text, v, m).is_file() for v, m in _builds(math_modes))


def is_ready() -> bool:
    """Say whether all is built that kernels of the safe math mode are compiled and run with."""
    return runtime_path().is_file() and is_primed(("safe",))


def prime(math_modes: Iterable[MathMode]) -> None:
    """Build every header that kernels of some math modes need.

    Raises:
        DeviceError: the standard library does not compile, or the cache cannot be written.
    """
    text = prelude_text("mlx")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda build: precompiled_header(text, *build), _builds(math_modes)))


def _builds(math_modes: Iterable[MathMode]) -> Iterator[tuple[Variant, MathMode]]:
    variants: tuple[Variant, ...] = get_args(Variant)
    return ((variant, mode) for mode in math_modes for variant in variants)
