"""A launch as typed at a terminal: sizes, buffers from files, types and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from kernelwright.errors import InputError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import Argument, Key, SimulatedKernel
from kernelwright.metal.msl.signature import Parameter
from kernelwright.metal.simulator import Library

_SMALL_INTEGER = 8
"""Random integers stay below it, so that they serve as indices of small arrays too."""


@dataclass(frozen=True)
class TypedLaunch:
    """A kernel with its arrays and sizes."""

    kernel: SimulatedKernel
    buffers: dict[Key, Argument]
    fresh: frozenset[Key]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    threadgroup_bytes: dict[Key, int]

    @property
    def written(self) -> dict[str, Array]:
        """The arrays that the kernel may write, by name."""
        writable = {p.name for p in self.kernel.entry().buffers if not p.is_const}
        return {
            str(name): array
            for name, array in self.buffers.items()
            if name in writable and isinstance(array, np.ndarray)
        }


def save_arrays(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Write each array to `NAME.npy` in a folder, which is made where there is none.

    Raises:
        InputError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
    except OSError as e:
        raise InputError(f"{folder} cannot be written: {e.strerror}; name another folder.") from e


def parse_launch(
    library: Library,
    *,
    name: str | None,
    grid: str,
    threadgroup: str | None,
    buffers: Sequence[str],
    threadgroup_bytes: Sequence[str],
    constants: Sequence[str],
    seed: int,
) -> TypedLaunch:
    """Read what a person typed.

    Raises:
        InputError: it does not fit the kernel, or a file cannot be read.
    """
    kernel = library.kernel(
        _only_kernel(library) if name is None else name,
        {k: _number(v) for k, v in _pairs("--constant", constants)},
    )
    threads = parse_size(grid)
    parameters = {p.name: p for p in kernel.entry().buffers}
    by_index = {p.index: p.name for p in parameters.values()}
    random = np.random.default_rng(seed)
    values: dict[Key, Argument] = {}
    fresh: set[Key] = set()
    for key, text in _pairs("--buffer", buffers):
        name_ = by_index.get(key, str(key)) if isinstance(key, int) else key
        if name_ not in parameters:
            known = ", ".join(f"{p.name} ({p.index})" for p in parameters.values()) or "none"
            raise InputError(f"{kernel.name} has no buffer {key!r}; its buffers are: {known}.")
        if name_ in values:
            raise InputError(f"--buffer {name_} is given twice, by name and by index; keep one.")
        values[name_], is_fresh = _buffer(text, parameters[name_], random)
        if is_fresh:
            fresh.add(name_)
    return TypedLaunch(
        kernel=kernel,
        buffers=values,
        fresh=frozenset(fresh),
        grid=threads,
        threadgroup=(min(threads[0], 256), 1, 1)
        if threadgroup is None
        else parse_size(threadgroup),
        threadgroup_bytes={
            k: _whole(v) for k, v in _pairs("--threadgroup-bytes", threadgroup_bytes)
        },
    )


def parse_size(text: str) -> tuple[int, int, int]:
    """Read `1024`, `32,8` or `32x8x2`.

    Raises:
        InputError: it is no such size.
    """
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(_is_whole(p.strip()) and int(p) > 0 for p in parts):
        raise InputError(f"expected a size such as 1024 or 32,8,1; found {text!r}.")
    x, y, z = (*(int(p) for p in parts), 1, 1)[:3]
    return x, y, z


def _only_kernel(library: Library) -> str:
    if len(library.kernels) == 1:
        return library.kernels[0]
    if not library.kernels:
        raise InputError("the file has no kernel to run; write one, `kernel void …`.")
    known = ", ".join(library.kernels)
    raise InputError(f"the file has several kernels; name one with --kernel: {known}.")


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[Key, str]]:
    """Read `NAME=VALUE`, where each name stands once.

    Raises:
        InputError: it is none, or a name stands twice.
    """
    found: dict[Key, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign:
            raise InputError(f"{option}: expected NAME=VALUE, found {text!r}.")
        if _key(name) in found:
            raise InputError(f"{option} {name} is given twice; keep one.")
        found[_key(name)] = value
    return list(found.items())


def _is_whole(text: str) -> bool:
    # "²" is a digit to Python too.
    return text.isascii() and text.isdigit()


def _key(text: str) -> Key:
    return int(text) if _is_whole(text) else text


def _whole(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError as e:
        raise InputError(f"expected a whole number of bytes, found {text!r}.") from e


def _number(text: str) -> int | float:
    words = {"true": 1, "false": 0}
    try:
        return words[text] if text in words else int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError as e:
        raise InputError(f"expected a number, found {text!r}.") from e


def _buffer(text: str, parameter: Parameter, random: np.random.Generator) -> tuple[Argument, bool]:
    """Return a buffer's value, and whether it is an output that nobody has written."""
    if text.endswith(".npy"):
        return _load(text), False
    kind, _, rest = text.rpartition(":")
    if "[" not in rest:
        return _number(rest), False
    type_ = TensorType.parse(rest)
    kind = kind or ("random" if parameter.is_const else "fresh")
    if kind not in ("random", "zeros", "fresh"):
        raise InputError(f"expected random:, zeros: or fresh: before a type, found {text!r}.")
    try:
        if kind == "random":
            return _random(type_, random), False
        array = np.full(type_.nbytes, 0xFF if kind == "fresh" else 0, np.uint8)
    except (MemoryError, ValueError) as e:
        raise InputError(f"{rest} does not fit into memory; name a smaller array.") from e
    return array.view(type_.dtype.numpy).reshape(type_.shape), kind == "fresh"


def _load(path: str) -> Array:
    try:
        with Path(path).open("rb") as file:
            array: Array | NpzFile = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, OverflowError, BadZipFile) as e:
        raise InputError(f"{path} is not an array that NumPy can read: {e}.") from e
    except MemoryError as e:
        raise InputError(f"{path} does not fit into memory: {e}.") from e
    if isinstance(array, NpzFile):
        raise InputError(f"{path} holds several arrays; save one by np.save.")
    return np.ascontiguousarray(array)


def _random(type_: TensorType, random: np.random.Generator) -> Array:
    if type_.dtype is Dtype.BOOL:
        return random.random(type_.shape) < 0.5
    if type_.dtype.is_integer:
        numbers: Array = random.integers(0, _SMALL_INTEGER, type_.shape)
    else:
        numbers = random.standard_normal(type_.shape)
    return numbers.astype(type_.dtype.numpy)
