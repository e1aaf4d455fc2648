"""What a kernel's launch and its task fix, written so that a compiler can use it."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from kernelwright.metal.extent import evaluate, symbols_in
from kernelwright.metal.kernel import Extent, Kernel, Program, Tensor
from kernelwright.metal.msl.token import tokenize

_SIMDGROUP = 32
_AXES = "xyz"
MOST_ELEMENTS = 1 << 31
"""No array that is judged has as many, and no launch as many threads along an axis."""
_GROUP, _THREAD = "threadgroup_position_in_grid", "thread_position_in_threadgroup"
_TOLD = """struct type_of_{name} {{
  decltype({name}) first;
  auto operator[](long place) const {{
    auto value = first[place];
    __builtin_assume(value >= 0 && value < {limit}u);
    return value;
  }}
  auto operator*() const {{ return (*this)[0]; }}
  type_of_{name} operator+(long distance) const {{ return {{first + distance}}; }}
}};
const type_of_{name} told_{name} = {{{name}}};
"""
"""Stands for a pointer to indices."""


def with_open_sizes(program: Program) -> Program:
    """Hide the values of template arguments that follow a program's sizes from the compiler.

    What it then proves holds at every size. A text that needs them as constants does not compile.
    """
    kernels = []
    for kernel in program.kernels:
        names = [name for name, value in kernel.template.items() if type(value) is str]
        source = "".join(
            f"open_{token.text}" if token.text in names else token.text
            for token in tokenize(kernel.source)
        )
        opened = "".join(
            f"volatile int closed_{name} = {name}; const int open_{name} = closed_{name};\n"
            for name in names
        )
        kernels.append(kernel.model_copy(update={"source": opened + source}))
    return program.model_copy(update={"kernels": tuple(kernels)})


def with_index_bounds(program: Program, limits: Mapping[str, int]) -> Program:
    """Tell each kernel's compiler that indices which are read lie where the task lets them lie.

    Args:
        program: Whose kernels read them by name, through subscripts or moved pointers.
        limits: For an input of integers, what all of its elements are below; none is negative.
    """
    kernels = []
    for kernel in program.kernels:
        known = {name: limits[name] for name in kernel.inputs if name in limits}
        source = "".join(
            f"told_{token.text}" if token.text in known else token.text
            for token in tokenize(kernel.source)
        )
        told = "".join(_TOLD.format(name=name, limit=limit) for name, limit in known.items())
        kernels.append(kernel.model_copy(update={"source": told + source}))
    return program.model_copy(update={"kernels": tuple(kernels)})


def with_facts(program: Program, beside: Program) -> Program:
    """Tell each kernel's compiler what its launch fixes, where another program's is the same.

    Attributes that follow from the threadgroup's position and the thread's are written as such,
    and those two have bounds: the launch's own, or what arrays of fewer than 2^31 elements leave
    of a launch that follows their sizes.
    """
    pairs = zip(program.kernels, beside.kernels, strict=True)
    kernels = [kernel if _differ(kernel, o) else _told(kernel, program) for kernel, o in pairs]
    return program.model_copy(update={"kernels": tuple(kernels)})


def _differ(kernel: Kernel, other: Kernel) -> bool:
    return (kernel.grid, kernel.threadgroup) != (other.grid, other.threadgroup)


def _told(kernel: Kernel, program: Program) -> Kernel:
    sizes = [size for size in kernel.threadgroup if isinstance(size, int)]
    if len(sizes) != len(_AXES):
        return kernel
    written = _attributes(sizes, kernel.grid)
    source = "".join(written.get(token.text, token.text) for token in tokenize(kernel.source))
    facts = " ".join(f"__builtin_assume({fact});" for fact in _facts(kernel, program, sizes))
    return kernel.model_copy(update={"source": f"{facts}\n{source}"})


def _attributes(sizes: Sequence[int], grid: Sequence[Extent]) -> Mapping[str, str]:
    """Return the attributes that follow from two positions, as expressions of these."""
    x, y, z = sizes
    index = f"({_THREAD}.x + {_THREAD}.y * {x}u + {_THREAD}.z * {x * y}u)"
    if y == z == 1:
        index = f"({_THREAD}.x)"
    known = {"thread_position_in_grid": f"uint3({', '.join(_positions(sizes))})"}
    if (y * z > 1 and not _divides(x, grid[0])) or (z > 1 and not _divides(y, grid[1])):
        # At an edge with fewer threads others have the same index.
        return known
    groups = -(-prod(sizes) // _SIMDGROUP)
    return {
        **known,
        "thread_index_in_threadgroup": index,
        "thread_index_in_simdgroup": f"({index} % {_SIMDGROUP}u)",
        "simdgroup_index_in_threadgroup": f"({index} / {_SIMDGROUP}u)" if groups > 1 else "(0u)",
    }


def _divides(size: int, threads: Extent) -> bool:
    return size == 1 or (isinstance(threads, int) and threads % size == 0)


def _positions(sizes: Sequence[int]) -> list[str]:
    """Return a thread's position along each axis of the grid."""
    pairs = zip(_AXES, sizes, strict=True)
    return [f"{_GROUP}.{axis} * {size}u + {_THREAD}.{axis}" for axis, size in pairs]


def most_threads(kernel: Kernel, program: Program) -> tuple[int, int, int]:
    """Return how many threads a launch may have along each axis."""
    largest = _largest_sizes(program)
    x, y, z = (min(_most(threads, largest), MOST_ELEMENTS - 1) for threads in kernel.grid)
    return x, y, z


def _facts(kernel: Kernel, program: Program, sizes: Sequence[int]) -> Iterator[str]:
    positions = _positions(sizes)
    along = zip(_AXES, most_threads(kernel, program), sizes, positions, strict=True)
    for axis, most, size, here in along:
        yield f"{_THREAD}.{axis} < {min(size, most)}u"
        yield f"{_GROUP}.{axis} < {-(-most // size)}u"
        yield f"{here} < {most}u"


def _most(threads: Extent, largest: Mapping[str, int]) -> int:
    """Return how many threads an axis may have, at the largest sizes where it grows with them."""
    grows = isinstance(threads, int) or not any(sign in threads for sign in "-%")
    return evaluate(threads, largest) if grows else MOST_ELEMENTS


def _largest_sizes(program: Program) -> Mapping[str, int]:
    """Return how large each dimension may be for every array to have fewer than 2^31 elements."""
    arrays: tuple[Tensor, ...] = (*program.inputs, *program.outputs, *program.temporaries)
    ones = dict.fromkeys(program.symbols, 1) | {t.name: t.value for t in program.tunables}
    return ones | {name: _largest(name, arrays, ones) for name in program.dimensions}


def _largest(name: str, arrays: Sequence[Tensor], ones: Mapping[str, int]) -> int:
    """Return the largest size of a dimension beside others of one."""
    # What is left of a difference says nothing of how large its sides are.
    bounding = [
        array.shape
        for array in arrays
        if any(name in symbols_in(extent) for extent in array.shape)
        and not any(sign in str(extent) for extent in array.shape for sign in "-%")
    ]

    def is_too_large(size: int) -> bool:
        sizes = {**ones, name: size}
        return any(
            prod(evaluate(extent, sizes) for extent in shape) >= MOST_ELEMENTS for shape in bounding
        )

    return bisect_left(range(1, MOST_ELEMENTS), True, key=is_too_large)
