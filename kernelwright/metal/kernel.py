"""What a kernel is: exactly what `mx.fast.metal_kernel` takes, as one validated record."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, model_validator

from kernelwright.errors import InputError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.extent import evaluate, symbols_in
from kernelwright.metal.input_dimension import dimension_sources, names_in, resolved


def _arithmetic(given: object) -> object:
    return given.text if isinstance(given, OpenSize) else given


Extent = Annotated[int | str, BeforeValidator(_arithmetic)]
"""A size: an integer, or launch arithmetic over dimension and tunable names."""
TemplateValue = Annotated[Dtype | StrictBool | StrictInt | str, Field(union_mode="left_to_right")]
"""A template argument: a dtype, a flag, or an extent. MLX allows no floats here."""
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
MathMode = Literal["safe", "relaxed", "fast"]
Dimensions = tuple[Extent, Extent, Extent]


class Tensor(Record):
    """A named array of a program.

    An input's shape may hold names (`rows`) and arithmetic over them (`past + new`): some axis
    tells each, so a program with no name in its inputs is specialised to one shape. Outputs and
    temporaries hold arithmetic over those names.
    """

    name: Identifier
    dtype: Dtype
    shape: tuple[Extent, ...]


class Tunable(Record):
    """A schedule parameter that a program leaves open, usable wherever an extent is."""

    name: Identifier
    choices: tuple[int, ...] = Field(min_length=1)
    value: int

    @model_validator(mode="after")
    def _value_is_a_choice(self) -> Self:
        if self.value not in self.choices:
            raise ValueError(f"{self.name} is {self.value}, expected one of {self.choices}")
        return self


class Kernel(Record):
    """One launch of one Metal function whose signature MLX generates.

    `inputs` and `outputs` name arrays of the program and are the parameter names in `source`.
    `template` maps a name to a dtype, a bool or an extent.
    """

    name: Identifier
    inputs: tuple[Identifier, ...]
    outputs: tuple[Identifier, ...] = Field(min_length=1)
    source: str
    header: str = ""
    template: dict[Identifier, TemplateValue] = Field(default_factory=dict)
    grid: Dimensions
    threadgroup: Dimensions
    ensure_row_contiguous: bool = True
    atomic_outputs: bool = False
    init_value: float | None = None
    math_mode: MathMode = "safe"


class Program(Record):
    """The kernels, in launch order, that together compute a task."""

    format: Literal["kernelwright.program/1"] = "kernelwright.program/1"
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = Field(min_length=1)
    temporaries: tuple[Tensor, ...] = ()
    kernels: tuple[Kernel, ...] = Field(min_length=1)
    tunables: tuple[Tunable, ...] = ()

    @model_validator(mode="after")
    def _names_are_bound(self) -> Self:
        made = {t.name for t in self.inputs}
        known = {t.name: t for t in (*self.inputs, *self.outputs, *self.temporaries)}
        if len(known) != len(self.inputs) + len(self.outputs) + len(self.temporaries):
            raise ValueError("two arrays of the program share a name; rename one")
        for kernel in self.kernels:
            for name in kernel.inputs:
                if name not in made:
                    raise ValueError(f"kernel {kernel.name} reads {name!r} before it is made")
            for name in kernel.outputs:
                if name not in known or name in made:
                    free = sorted(known.keys() - made)
                    raise ValueError(
                        f"kernel {kernel.name} cannot write {name!r}, which is "
                        f"{'made already' if name in made else 'no array of the program'}; "
                        f"expected {' or '.join(free) or 'an array that nothing has made'}"
                    )
                made.add(name)
        if missing := [t.name for t in self.outputs if t.name not in made]:
            raise ValueError(f"no kernel writes {', '.join(missing)}")
        if untold := [name for name in self.dimensions if name not in self._told]:
            raise ValueError(
                f"no axis of an input tells {', '.join(untold)}; expected one as long as it is, or "
                "a sum or product in which the others are known"
            )
        for place, extents in self._extents():
            if unknown := set[str]().union(*map(symbols_in, extents)) - self.symbols:
                names = ", ".join(("whole numbers", *sorted(self.symbols)))
                raise ValueError(
                    f"unknown dimension {', '.join(sorted(unknown))} in {place}; expected {names}"
                )
        return self

    def _extents(self) -> Iterator[tuple[str, Sequence[Extent]]]:
        """Yield sizes with where they stand."""
        for array in (*self.outputs, *self.temporaries):
            yield f"the shape of {array.name}", array.shape
        for kernel in self.kernels:
            yield f"the grid of kernel {kernel.name}", kernel.grid
            yield f"the threadgroup of kernel {kernel.name}", kernel.threadgroup
            for name, value in kernel.template.items():
                if isinstance(value, int | str) and not isinstance(value, bool | Dtype):
                    yield f"template value {name} of kernel {kernel.name}", (value,)

    @property
    def symbols(self) -> frozenset[str]:
        """Names that extents may use: symbolic input dimensions and tunables."""
        return frozenset((*self.dimensions, *(t.name for t in self.tunables)))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of sizes that its inputs' shapes leave open, in order."""
        tunables = {t.name for t in self.tunables}
        return tuple(n for n in names_in([t.shape for t in self.inputs]) if n not in tunables)

    @property
    def _told(self) -> frozenset[str]:
        """Dimensions that follow from the shapes of arrays."""
        shapes, tunables = [t.shape for t in self.inputs], {t.name for t in self.tunables}
        return frozenset(source.name for source in dimension_sources(shapes, tunables))

    @property
    def is_generic(self) -> bool:
        """True when the program claims to serve more than one shape."""
        return any(isinstance(e, str) for t in self.inputs for e in t.shape)

    @cached_property
    def id(self) -> str:
        """64 hex digits over the whole content; the same text is the same program."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Copy, with an id of its own: pydantic would copy the one that was computed."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("id", None)
        return copied

    def tuned(self, values: Mapping[str, int]) -> "Program":
        """Return the program with some tunables set to other choices."""
        tunables = tuple(
            Tunable(name=t.name, choices=t.choices, value=values.get(t.name, t.value))
            for t in self.tunables
        )
        return self.model_copy(update={"tunables": tunables})

    def sizes_at(self, types: Sequence[TensorType]) -> dict[str, int]:
        """Return the size of each dimension and tunable for inputs of given types.

        Raises:
            InputError: a dtype, rank or size is not one that the program serves.
        """
        if len(types) != len(self.inputs):
            raise InputError(
                f"the program takes {len(self.inputs)} arrays, found {len(types)}; "
                "pass them in order."
            )
        for tensor, type_ in zip(self.inputs, types, strict=True):
            _match(tensor, type_)
        return resolved(
            [t.name for t in self.inputs],
            [t.shape for t in self.inputs],
            [type_.shape for type_ in types],
            {t.name: t.value for t in self.tunables},
        )

    def bind(self, types: Sequence[TensorType]) -> "BoundProgram":
        """Fix every extent for inputs of the given types, in the order of `inputs`.

        Raises:
            InputError: a dtype, rank or dimension is not one that the program serves.
        """
        symbols = self.sizes_at(types)
        return BoundProgram(
            inputs=tuple(types),
            outputs=tuple(_type_of(t, symbols) for t in self.outputs),
            temporaries=tuple(_type_of(t, symbols) for t in self.temporaries),
            launches=tuple(_launch(k, symbols) for k in self.kernels),
            program=self,
        )


class Launch(Record):
    """A kernel with every extent a number."""

    kernel: Kernel
    template: tuple[tuple[str, Dtype | bool | int], ...]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]


class BoundProgram(Record):
    """A program at concrete shapes: what a device compiles and runs."""

    program: Program
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    temporaries: tuple[TensorType, ...]
    launches: tuple[Launch, ...]

    def type_of(self, name: str) -> TensorType:
        """Return the type of a named array of the program."""
        tensors = (*self.program.inputs, *self.program.outputs, *self.program.temporaries)
        types = (*self.inputs, *self.outputs, *self.temporaries)
        return dict(zip((t.name for t in tensors), types, strict=True))[name]


def _match(tensor: Tensor, type_: TensorType) -> None:
    if tensor.dtype is not type_.dtype or len(tensor.shape) != len(type_.shape):
        wanted = f"{tensor.dtype.short}[{','.join(map(str, tensor.shape))}]"
        raise InputError(f"{tensor.name} is {wanted} in the program, found {type_}.")


def _type_of(tensor: Tensor, symbols: Mapping[str, int]) -> TensorType:
    return TensorType(tuple(evaluate(e, symbols) for e in tensor.shape), tensor.dtype)


def _launch(kernel: Kernel, symbols: Mapping[str, int]) -> Launch:
    return Launch(
        kernel=kernel,
        template=tuple(
            (name, value if isinstance(value, bool | Dtype) else evaluate(value, symbols))
            for name, value in kernel.template.items()
        ),
        grid=_three(kernel.grid, symbols),
        threadgroup=_three(kernel.threadgroup, symbols),
    )


def _three(extents: Dimensions, symbols: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (evaluate(e, symbols) for e in extents)
    if min(x, y, z) < 1:
        raise InputError(f"a grid or threadgroup has sizes of at least 1, found {(x, y, z)}.")
    return x, y, z
