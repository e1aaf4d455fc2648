"""The numbers that stand in a program's text: what its special cases would be held against."""

import re
import struct
from collections.abc import Iterable, Iterator

import numpy as np

from kernelwright.evaluator.inputs.draw import Random, Values
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?=[fFhHuUlL]*(?![\w.]))"
)
_SHIFT = re.compile(r"(?:<<|>>)=?\s*(\d{1,2})(?=[uUlL]*(?![\w.]))")
_COMPARED = re.compile(r"(?<![<>])[<>]=?\s*(\d+)(?=[uUlL]*(?![\w.]))")
_FACTOR_BEHIND = re.compile(r"\*\s*(\d+)(?=[uUlL]*(?![\w.]))")
_FACTOR_BEFORE = re.compile(r"(?<![\w.])(\d+)[uUlL]*\s*\*")
_COMMON = frozenset((0.0, 1.0))
_MOST_LITERALS = 48
_LARGEST_PLACE = 1 << 22
_MOST_SIZES = 6
_LARGEST_SIZE = 8192
_LARGEST_THRESHOLD = 1 << 18
"""Of one dimension, where the others are small."""
_MOST_THRESHOLDS = 2
_PLACED_SHARE = 8
"""One element of so many is a literal, or a number beside one."""
_CONSTANT_ROWS = 4
"""One row of so many holds one number everywhere."""


def literals_of(program: Program) -> tuple[float, ...]:
    """Return the numbers in a program's text, the bits of floats among them, in order.

    Small whole numbers, which index and count as a rule, come after all others.
    """
    found = dict.fromkeys(_numbers(program))
    rare = [n for n in found if not (n.is_integer() and abs(n) <= _MOST_LITERALS)]
    usual = [n for n in found if n not in set(rare) and n not in _COMMON]
    return tuple((*rare, *usual)[:_MOST_LITERALS])


def sizes_of(program: Program) -> tuple[int, ...]:
    """Return whole numbers in a program's text that could be sizes, those that are odd first.

    The first sizes beyond which the text's shifts and comparisons of products change come before.
    """
    beyond = _thresholds(program)[:_MOST_THRESHOLDS]
    written = (n for n in places_of(program) if 1 < n <= _LARGEST_SIZE and n not in beyond)
    return (*beyond, *written)[:_MOST_SIZES]


def _thresholds(program: Program) -> tuple[int, ...]:
    """Return the sizes beyond all other cases' from which on a comparison in the text may hold.

    `n >> 17` is zero below 2^17, `n * 3 > 200000` holds from 66667 on, `n > 100000` from 100001.
    """
    texts = [_COMMENT.sub(" ", text) for k in program.kernels for text in (k.header, k.source)]
    text = "\n".join(texts)
    shifts = (1 << bits for bits in map(int, _SHIFT.findall(text)))
    factors = {int(n) for p in (_FACTOR_BEHIND, _FACTOR_BEFORE) for n in p.findall(text)} | {1}
    bounds = dict.fromkeys(map(int, _COMPARED.findall(text)))
    products = (bound // factor + 1 for bound in bounds for factor in sorted(factors) if factor)
    found = dict.fromkeys((*shifts, *products))
    return tuple(n for n in found if _LARGEST_SIZE < n <= _LARGEST_THRESHOLD)


def places_of(program: Program) -> tuple[int, ...]:
    """Return whole numbers in a program's text that could be places, those that are odd first."""
    whole = {int(n) for n in _numbers(program) if n.is_integer() and 0 <= n <= _LARGEST_PLACE}
    return tuple(sorted(whole, key=lambda n: (n & (n - 1) == 0, n % 32 == 0, n % 4 == 0, n)))


def _numbers(program: Program) -> Iterator[float]:
    for kernel in program.kernels:
        for text in (kernel.header, kernel.source):
            for match in _NUMBER.finditer(_COMMENT.sub(" ", text)):
                yield from _readings(match[0])
        for value in kernel.template.values():
            if isinstance(value, int) and not isinstance(value, bool):
                yield float(value)


def _readings(text: str) -> Iterator[float]:
    """Yield what a number means, and as which float its bits could be read."""
    is_whole = not re.search(r"[.]|[eE]", text) or text[:2].lower() == "0x"
    if not is_whole:
        yield float(text)
        return
    bits = int(text, 16) if text[:2].lower() == "0x" else int(text.lstrip("0") or "0")
    yield float(bits)
    if not 0 <= bits < 1 << 32 or bits < 1 << 10:
        return
    readings = [np.frombuffer(struct.pack("<I", bits), np.float32)[0]]
    if bits < 1 << 16:
        readings = [
            np.frombuffer(struct.pack("<H", bits), np.float16)[0],
            np.frombuffer(struct.pack("<I", bits << 16), np.float32)[0],
        ]
    yield from (float(value) for value in readings if np.isfinite(value) and value)


def is_special(literals: Iterable[float]) -> bool:
    """Say whether some number is one that a value would be compared with, and no count."""
    return any(not n.is_integer() for n in literals)


# A number of a text may be the largest of its dtype, or larger.
@np.errstate(all="ignore")
def place_literals(
    values: Values, literals: tuple[float, ...], dtype: Dtype, random: Random
) -> None:
    """Put the numbers, their neighbours and their negatives into an input, and into whole rows."""
    if not values.size:
        return
    numbers = _with_neighbours(literals, dtype)
    rows = values.reshape(-1, values.shape[-1] if values.ndim else 1)
    free = np.arange(len(rows))
    if len(rows) >= _CONSTANT_ROWS:
        exact = np.array(literals, np.float32)
        constant = rows[::_CONSTANT_ROWS]
        constant[:] = np.resize(np.concatenate([exact, -exact]), len(constant))[:, None]
        free = free[free % _CONSTANT_ROWS != 0]
    if len(rows) >= 2 * _CONSTANT_ROWS:
        # All but one are farther below that one than the number says.
        below = rows[2::_CONSTANT_ROWS]
        below[:] = -np.resize(np.abs(exact), len(below))[:, None] * np.float32(1 + 2.0**-6)
        below[:, 0] = 0.0
        free = free[free % _CONSTANT_ROWS != 2]
    size = len(free) * rows.shape[1]
    count = min(max(size // _PLACED_SHARE, len(numbers)), size)
    chosen = random.choice(size, count, replace=False, shuffle=True)
    rows[free[chosen // rows.shape[1]], chosen % rows.shape[1]] = np.resize(numbers, count)


def _with_neighbours(literals: tuple[float, ...], dtype: Dtype) -> Values:
    exact = np.array(literals, np.float64).astype(dtype.numpy).real
    exact = exact[np.isfinite(exact.astype(np.float32))]
    wide = exact.astype(np.float32)
    step = np.abs(np.spacing(wide)) if dtype is Dtype.FLOAT32 else np.abs(wide) * dtype.epsilon
    around = [wide, -wide, wide + step, wide - step, wide + 1, wide - 1, wide * 2]
    return np.concatenate(around).astype(np.float32)
