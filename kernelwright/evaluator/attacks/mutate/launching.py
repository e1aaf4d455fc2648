"""Mistakes in a kernel's launch: too few threads, other template values, options forgotten."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Dimensions, Extent, Kernel
from kernelwright.metal.msl.token import tokenize

_OTHER_DTYPE = {
    Dtype.FLOAT32: Dtype.FLOAT16,
    Dtype.FLOAT16: Dtype.BFLOAT16,
    Dtype.BFLOAT16: Dtype.FLOAT16,
}


@dataclass(frozen=True, slots=True)
class LaunchMutant:
    """A kernel with one mistake in its launch, and what changed, as words."""

    operator: str
    kernel: Kernel
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class LaunchOperator:
    """A kind of mistake in a launch."""

    name: str
    what: str
    find: Callable[[Kernel], Iterator[dict[str, object]]]
    shows_in_code: bool = False
    is_choice: bool = False
    """docs/evaluator.md leaves this to a kernel: it is a mistake only where results suffer."""

    def mutants(self, kernel: Kernel) -> Iterator[LaunchMutant]:
        """Yield every mutant of a kernel's launch."""
        for update in self.find(kernel):
            changed = kernel.model_copy(update=update)
            if changed == kernel:
                continue
            name = next(iter(update))
            before, after = getattr(kernel, name), getattr(changed, name)
            yield LaunchMutant(self.name, changed, f"{name}={before}", f"{name}={after}")


def _with(sizes: Dimensions, axis: int, size: Extent) -> Dimensions:
    changed = [*sizes]
    changed[axis] = size
    return changed[0], changed[1], changed[2]


def _grid_short(kernel: Kernel) -> Iterator[dict[str, object]]:
    """Leave out the last threadgroup of each axis that has more than one."""
    for axis, (threads, group) in enumerate(zip(kernel.grid, kernel.threadgroup, strict=True)):
        if isinstance(threads, int) and isinstance(group, int) and threads <= group:
            continue
        yield {"grid": _with(kernel.grid, axis, f"max(({threads}) - ({group}), 1)")}


def _grid_long(kernel: Kernel) -> Iterator[dict[str, object]]:
    for axis, (threads, group) in enumerate(zip(kernel.grid, kernel.threadgroup, strict=True)):
        yield {"grid": _with(kernel.grid, axis, f"({threads}) + ({group})")}


def _grid_halved(kernel: Kernel) -> Iterator[dict[str, object]]:
    for axis, threads in enumerate(kernel.grid):
        if threads != 1:
            yield {"grid": _with(kernel.grid, axis, f"max(({threads}) // 2, 1)")}


def _threadgroup_changed(kernel: Kernel) -> Iterator[dict[str, object]]:
    for axis, group in enumerate(kernel.threadgroup):
        if group != 1:
            yield {"threadgroup": _with(kernel.threadgroup, axis, f"max(({group}) // 2, 1)")}
            yield {"threadgroup": _with(kernel.threadgroup, axis, f"({group}) * 2")}


def _axes_swapped(kernel: Kernel) -> Iterator[dict[str, object]]:
    x, y, z = kernel.grid
    if x != y:
        yield {"grid": (y, x, z)}
    if y != z:
        yield {"grid": (x, z, y)}


def _template_changed(kernel: Kernel) -> Iterator[dict[str, object]]:
    for name, value in kernel.template.items():
        others: list[object]
        if isinstance(value, Dtype):
            others = [_OTHER_DTYPE[value]] if value in _OTHER_DTYPE else []
        elif isinstance(value, bool):
            others = [not value]
        else:
            others = [f"({value}) + 1", f"max(({value}) - 1, 1)", f"max(({value}) // 2, 1)"]
        for other in others:
            yield {"template": {**kernel.template, name: other}}


def _inputs_swapped(kernel: Kernel) -> Iterator[dict[str, object]]:
    """Bind two inputs to each other's name."""
    for place in range(len(kernel.inputs) - 1):
        names = [*kernel.inputs]
        names[place], names[place + 1] = names[place + 1], names[place]
        swap = {names[place]: names[place + 1], names[place + 1]: names[place]}
        yield {"source": _renamed(kernel.source, swap)}


def _renamed(source: str, names: dict[str, str]) -> str:
    return "".join(names.get(t.text, t.text) for t in tokenize(source))


def _option_changed(kernel: Kernel) -> Iterator[dict[str, object]]:
    yield {"ensure_row_contiguous": not kernel.ensure_row_contiguous}
    if kernel.init_value is not None:
        yield {"init_value": None}
        yield {"init_value": kernel.init_value + 1.0}


def _fast_math(kernel: Kernel) -> Iterator[dict[str, object]]:
    yield {"math_mode": "fast"}


OPERATORS = (
    LaunchOperator("grid short", "the last threadgroup of an axis is left out", _grid_short),
    LaunchOperator("grid long", "one threadgroup too many", _grid_long),
    LaunchOperator("grid halved", "half the threads along an axis", _grid_halved),
    LaunchOperator("grid axes swapped", "two axes of the grid change places", _axes_swapped),
    LaunchOperator(
        "threadgroup changed",
        "half or twice the threads",
        _threadgroup_changed,
        shows_in_code=True,
    ),
    LaunchOperator("template changed", "another template value", _template_changed, True),
    LaunchOperator(
        "inputs swapped",
        "two inputs are bound to each other's name",
        _inputs_swapped,
        shows_in_code=True,
    ),
    LaunchOperator(
        "option changed",
        "contiguity or initial value",
        _option_changed,
        shows_in_code=True,
    ),
    LaunchOperator("fast math", "math mode fast", _fast_math, shows_in_code=True, is_choice=True),
)
