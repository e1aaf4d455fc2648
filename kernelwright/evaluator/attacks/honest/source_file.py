"""A file of hand-written kernels: one task, several styles, every dtype and size they serve."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from pydantic import Field, ValidationError

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Dimensions, Extent

Sizes = Mapping[str, int]


class LaunchSource(Record):
    """One launch. Its arrays are named as in the file, `T` is the dtype that is varied."""

    source: str
    header: str = ""
    reads: tuple[str, ...] = ()
    """Inputs and temporaries; all the task's inputs when empty."""
    writes: tuple[str, ...] = ()
    """Outputs and temporaries; all the task's outputs when empty."""
    grid: Dimensions
    threadgroup: Dimensions
    template: dict[str, bool | Extent] = Field(default_factory=dict)
    """Template arguments; `T` stands for the dtype that is varied."""
    atomic_outputs: bool = False
    init_value: float | None = None


class KernelSource(Record):
    """A kernel in one style, with what it cannot serve left out of the file's lists."""

    style: str
    launch: tuple[LaunchSource, ...] = Field(min_length=1)
    temporaries: tuple[str, ...] = ()
    """Such as `peaks: f32[rows]`."""
    dtypes: tuple[str, ...] = ()
    shapes: tuple[dict[str, int], ...] = ()
    real: tuple[dict[str, int], ...] = ()
    is_symbolic: bool = True
    """Whether the program also serves shapes that it was not written for."""


class SourceFile(Record):
    """A task with its inputs and outputs such as `x: T[rows,cols]`, and kernels for it."""

    task: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[dict[str, int], ...]
    """Small sizes: every kernel in every dtype is specialised to each of them."""
    real: tuple[dict[str, int], ...] = ()
    """Sizes of real models: each kernel in one dtype of the list, in turn."""
    kernel: tuple[KernelSource, ...]


@cache
def source_files() -> Mapping[str, SourceFile]:
    """Read every file of hand-written kernels.

    Raises:
        InputError: a file is not of the form that `SourceFile` describes.
    """
    folder = files("kernelwright.evaluator.attacks.honest") / "source"
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return {n.removesuffix(".toml"): _read(n, (folder / n).read_text()) for n in names}


def _read(name: str, text: str) -> SourceFile:
    try:
        return SourceFile.model_validate(tomllib.loads(text))
    except (ValidationError, tomllib.TOMLDecodeError) as e:
        raise InputError(f"{name} holds no hand-written kernels: {e}") from e


class Specialization(Record):
    """A kernel at one dtype and size, for these sizes only or for all."""

    kernel: KernelSource
    dtype: str
    sizes: dict[str, int]
    is_symbolic: bool


def specializations(file: SourceFile) -> Iterator[Specialization]:
    """Yield what a file stands for: small sizes in all dtypes, real ones in one."""
    for number, kernel in enumerate(file.kernel):
        dtypes = kernel.dtypes or file.dtypes
        shapes = kernel.shapes or file.shapes
        for place, dtype in enumerate(dtypes):
            for sizes in shapes:
                yield Specialization(kernel=kernel, dtype=dtype, sizes=sizes, is_symbolic=False)
            if kernel.is_symbolic:
                sizes = shapes[place % len(shapes)]
                yield Specialization(kernel=kernel, dtype=dtype, sizes=sizes, is_symbolic=True)
        for sizes in kernel.real or file.real:
            dtype = dtypes[number % len(dtypes)]
            yield Specialization(kernel=kernel, dtype=dtype, sizes=sizes, is_symbolic=False)
