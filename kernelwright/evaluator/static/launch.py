"""Whether a program fits a task and a device, decided before anything is compiled."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kernelwright.errors import InputError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import BoundProgram, Launch, Program
from kernelwright.metal.limit import MAXIMUM_BUFFERS
from kernelwright.metal.msl.token import Token, TokenKind, code, tokenize
from kernelwright.plural import counted

MAXIMUM_EXTENT = (1 << 31) - 1
"""MLX takes grids, shapes and integer template arguments as `int`."""
MAXIMUM_LAUNCHES = 64
MAXIMUM_RANK = 16
_WIDEST_STORE = 16
"""Elements that one assignment may write: a 16-element structure copy is the widest in use."""
_ASSIGNMENTS = frozenset(
    ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")
)


def fit(program: Program, graph: Graph) -> BoundProgram:
    """Bind a program to a task's graph.

    Raises:
        InputError: the program takes or gives other arrays than the task.
    """
    bound = program.bind(graph.input_types)
    _same_types("outputs", bound.outputs, graph.output_types)
    return bound


def _same_types(what: str, found: Sequence[TensorType], wanted: Sequence[TensorType]) -> None:
    if len(found) != len(wanted):
        raise InputError(f"the task has {len(wanted)} {what}, the program {len(found)}.")
    for place, (have, want) in enumerate(zip(found, wanted, strict=True)):
        if have != want:
            raise InputError(f"output {place} must be {want}, the program makes {have}.")


def beyond_mlx(bound: BoundProgram) -> str:
    """Say which of a program's numbers `mx.fast.metal_kernel` cannot take, empty if none."""
    if len(bound.launches) > MAXIMUM_LAUNCHES:
        return f"{len(bound.launches)} launches are more than {MAXIMUM_LAUNCHES}; join some."
    for launch in bound.launches:
        for what, sizes in (("grid", launch.grid), ("threadgroup", launch.threadgroup)):
            if max(sizes) > MAXIMUM_EXTENT:
                return f"a {what} is at most {MAXIMUM_EXTENT} along an axis; make it smaller."
        for name, value in launch.template:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if is_number and not -MAXIMUM_EXTENT - 1 <= int(value) <= MAXIMUM_EXTENT:
                return f"the template argument {name} is an int of 32 bits; make it smaller."
        types = [bound.type_of(name) for name in launch.kernel.outputs]
        if not all(_can_hold(type_, launch.kernel.init_value) for type_ in types):
            return f"no output can hold the init_value {launch.kernel.init_value}; correct it."
    for type_ in (*bound.outputs, *bound.temporaries):
        if len(type_.shape) > MAXIMUM_RANK:
            return f"an array has at most {MAXIMUM_RANK} axes, found {len(type_.shape)}."
        if not all(0 <= extent <= MAXIMUM_EXTENT for extent in type_.shape):
            return f"an axis has 0 to {MAXIMUM_EXTENT} elements; found another size."
    return ""


def _can_hold(type_: TensorType, value: float | None) -> bool:
    if value is None or type_.dtype.numpy.kind not in "iub":
        return True
    if not math.isfinite(value) or value != int(value):
        return False
    if type_.dtype.numpy == np.bool_:
        return value in (0, 1)
    limits = np.iinfo(type_.dtype.numpy)
    return bool(limits.min <= int(value) <= limits.max)


def check_launch(bound: BoundProgram, device: DeviceInfo) -> tuple[Diagnostic, ...]:
    """Return every way in which the device could not run these launches."""
    return tuple(d for launch in bound.launches for d in _check(launch, bound, device))


def _check(launch: Launch, bound: BoundProgram, device: DeviceInfo) -> list[Diagnostic]:
    found = []
    threads = math.prod(launch.threadgroup)
    if threads > device.threads_per_threadgroup:
        found.append(
            f"a threadgroup of {'x'.join(map(str, launch.threadgroup))} has {threads} threads, "
            f"this device allows {device.threads_per_threadgroup}; make it smaller."
        )
    buffers = len(launch.kernel.inputs) + len(launch.kernel.outputs)
    if buffers > MAXIMUM_BUFFERS:
        found.append(f"{buffers} arrays are more than Metal's {MAXIMUM_BUFFERS} buffers.")
    found.extend(_coverage(launch, bound))
    return [Diagnostic(message=message, rule="launch") for message in found]


def _coverage(launch: Launch, bound: BoundProgram) -> list[str]:
    """Refuse a grid that cannot reach every element: straight-line code writes only so much.

    Kernels with loops, macros, a header or an initial value are left to the sanitizer, which
    sees unwritten elements.
    """
    kernel = launch.kernel
    tokens = code(tokenize(kernel.source))
    loops = any(t.spelling in ("for", "while", "do") for t in tokens)
    if loops or kernel.header or "#" in kernel.source or kernel.init_value is not None:
        return []
    stores, threads = _writes(tokens), math.prod(launch.grid)
    named = {token.spelling for token in tokens}
    return [
        _too_few(name, bound.type_of(name).size, threads, is_stored=name in named and stores > 0)
        for name in kernel.outputs
        if stores * _WIDEST_STORE * threads < bound.type_of(name).size
    ]


def _too_few(name: str, size: int, threads: int, *, is_stored: bool) -> str:
    if not is_stored:
        return f"no statement of the body writes {name}; store its elements, as {name}[…] = …."
    return (
        f"{counted(threads, 'thread')} cannot write the {counted(size, 'element')} of {name}; "
        "enlarge the grid."
    )


def _writes(tokens: Sequence[Token]) -> int:
    """Count what may store: assignments, and calls, which may store through a pointer."""
    calls = sum(a.kind is TokenKind.IDENTIFIER and b.spelling == "(" for a, b in pairwise(tokens))
    stores = sum(t.spelling in _ASSIGNMENTS for t in tokens)
    # simdgroup_store writes 64 elements from 32 lanes, so each call counts as one store.
    return stores + calls


def bytes_needed(bound: BoundProgram) -> int:
    """Return the bytes of every array of the program together."""
    return sum(t.nbytes for t in (*bound.inputs, *bound.outputs, *bound.temporaries))
