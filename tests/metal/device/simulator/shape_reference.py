"""What the kernels of `shapes/` compute for x of 1 to 64, by NumPy."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.generic] | float
X = np.arange(1, 65, dtype=np.float32)
_I = np.arange(64)
_LANE = _I % 32


def _bfloat(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to bfloat."""
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def _collatz(i: int) -> int:
    n = i + 1
    s = 0
    while True:
        if n % 2 == 0:
            n //= 2
            continue
        s += n
        if n == 1 or s > 50:
            return s
        n = 3 * n + 1


def _exchanged() -> Numbers:
    out = []
    for g in range(2):
        u = np.arange(g * 32, g * 32 + 32) * 7 % 13
        v = X[g * 32 : g * 32 + 32]
        lane = np.arange(32)
        s = (
            np.cumsum(u).astype(float)
            + np.array([1, 2, 4] + [8] * 29)
            + 3
            + (u.min() - 5)
            + u.max()
            + np.bitwise_and.reduce(u | 8)
            + np.bitwise_or.reduce(u)
            + np.bitwise_xor.reduce(u)
        )
        s += v[3] + v[0] + v[31 - lane] + v[lane ^ 5] + v[(lane - 3) % 32] + v[(lane + 30) % 32]
        out.append(s)
    found: NDArray[np.float64] = np.concatenate(out)
    return found


def _narrow_floats() -> Numbers:
    b = _bfloat(X * np.float32(1.01))
    h = (X / np.float32(3)).astype(np.float16)
    f = b + h.astype(np.float32)
    c = _bfloat(b * 2)
    v = (h + np.float16(1)).astype(np.float32)
    w = v * b
    q = X * h.astype(np.float32) + np.float32(0.5)
    c = _bfloat(c + 1)
    found: Numbers = f + c + w + q + (h * np.float16(2)).astype(np.float32)
    return found


def _integer_functions() -> Numbers:
    o = []
    for i in range(64):
        u = i * 2654435761 % 2**32
        n = i - 20
        w = u * u
        s = (
            u.bit_count()
            + (32 - (u | 1).bit_length())
            + (((u | 256) & -(u | 256)).bit_length() - 1)
            + (int(f"{i:032b}"[::-1], 2) >> 26)
            + (i << 28 | i >> 4) % 2**32 % 7
            + (u >> 4 & 63)
            + (i & ~6 | 3 << 1)
        )
        s += (
            (u * 5 >> 32)
            + (u * 3 >> 32)
            + 7
            + abs(n - 5)
            + (n + 4 >> 1)
            + (n + 3 + 1 >> 1)
            + min(255, 250 + i)
            + max(-128, -100 - i)
            + min(32767, 300 * i + 7)
            + max(n, 1, 2)
            + min(n, 1, 2)
            + sorted([n, 1, 9])[1]
            + max(-3, min(3, n))
            + abs(n)
            + (w >> 60)
        )
        o.append(s)
    return np.array(o, float)


def _vector_arithmetic() -> Numbers:
    o = []
    for i in range(64):
        n = [(k << 1 ^ 1) % 5 for k in (i, 2, 3, 4)]
        n[3] += 1
        mx = [1, 2, 3, 4]
        mx[i & 3] = 9
        o.append(
            n[0]
            + n[1]
            + n[3]
            + 15
            + 3
            + 1
            + 1.25
            + 2
            + 3.25
            + 1
            + (3 + 1) * 10
            + (-3 - 1)
            + 8
            + 6
            + 4
            + 2
            + mx[0]
            + mx[3]
            + sum(mx)
        )
    return np.array(o)


def _filled() -> Numbers:
    o = []
    for i in range(64):
        lane = i % 32
        b = i - lane
        a = X[i - 3] if lane >= 3 else -X[b + 32 - 3 + lane]
        bb = X[i + 30] if lane < 2 else 100 + (lane + 30 - 32)
        c = X[i - 1] if lane else 0
        q = i // 4 * 4
        d = X[q : q + 4].sum() + 1 + X[q] + X[q + (i - q + 1) % 4] + 1 + 1 + (1 if lane < 4 else 0)
        o.append(a + bb + c + d)
    return np.array(o)


EXPECTED: dict[str, dict[str, Callable[[], Numbers]]] = {
    "templates": {
        "template_ints": lambda: 2 * X * X + X - X + 7,
        "templates_over_spaces": lambda: (
            10 + 3 + X + np.array([X[63 - k] + (X[62 - k] if k < 63 else 0) for k in range(64)]) + 2
        ),
        "functions_as_template_arguments": lambda: 4 * X + X - 2 + X * X + 4,
        "constexpr_functions": lambda: 5 * X + 6 + np.where(_I & 1, 1.5, 0.5) + 8,
        "variadic": lambda: X + 5 + 6 * X + 3 + X,
        "enable_if_and_traits": lambda: 3 + X / 2 + 2 + 1.5 + 2 + 1 + 2 * X + 3 + X + 1 + 1 + 1,
        "aliases": lambda: X + 5 + 9 + (_I & 3) + 1 + X + 4,
        "lambdas": lambda: 3 * X + 1 + 5,
    },
    "structs": {
        "nested_structs": lambda: (X + 1) * 3 + 5 + X + 3,
        "packed_in_structs": lambda: 6 + 6 + 2 * X + _I - 4 + 4 + 28,
        "packed_behind_pointers": lambda: (
            X[_I // 4 * 4]
            + 2 * X[_I // 4 * 4 + 1]
            + 3 * X[_I // 4 * 4 + 2]
            + X[_I // 4 * 4 + 3]
            + 3
        ),
        "unions": lambda: -X + np.where(_I & 1, -3, 2.5),
        "bit_fields": lambda: 1 + (_I & 31) * 10 - 3 + 1 + X,
        "inheritance": lambda: X + 4 + 2 * X + X + 3 * X + 1,
        "members_of_all_kinds": lambda: 1 + 2 + 3 + 2 + X + 5 + 6 + 5 * X + 4 + 1 + 1 + 2 + 3 + 32,
        "operators": lambda: 2 * X - 3 - 4 + 10 * (3 * X + 2 - 6) + 1 + (X + 2) + (X + 3),
    },
    "names": {
        "tables": lambda: (
            np.array([[1, 2, 3], [4, 5, 6]])[_I & 1, _I % 3] + 4 + np.array([2, 4])[_I & 1] + 3
        ),
        "overloads_by_space": lambda: 5 + 2 * X + 3 * X + 25 + 5 + 1 + 3 - 5 + 100 + 1000,
        "default_arguments": lambda: X * 2 + 16 + X * 3 + 16 + 5 + np.floor(X / 2) + 0.5 + 4,
        "enum_classes": lambda: (
            np.select([_I % 3 == 0, _I % 3 == 1], [X + 3, X - 3], X * 3) + 2 * X + 3 + 5 + 8 + 9
        ),
        "local_types": lambda: X + 3 + 4 + 2 + _I % 3 + 1,
        "scopes_and_shadows": lambda: 2 + 1 + (X - 1) + X / 2 + X / 2 + 1 + 2,
        "macros": lambda: 6 + 4 * X + 6 + X / 2 + 4 + 6 + np.maximum(X, 5) + 1,
        "attributes_of_functions": lambda: X + 1 + 3 + 4 + 5 + 6 + 2 + 3 + 16 + 16 + 5,
    },
    "control": {
        "fallthrough": lambda: np.select(
            [_I % 6 < 2, _I % 6 == 2, _I % 6 == 3, _I % 6 == 4], [1 + X, X, 9, 10], 99
        ),
        "do_while": lambda: np.array([_collatz(int(v)) for v in _I]),
        "range_for": lambda: 7 + X + 6 + 2 * X + 5 + 3,
        "structured_bindings": lambda: X + 4 + 12,
        "comma_and_chains": lambda: (
            X
            + 5
            + 1
            + (X + 7)
            + (X - (X + 6))
            + np.select([_I > 40, _I > 20, _I > 5], [3, 2, 1], 0)
            - np.where(_I & 1, 1, -1)
        ),
        "switch_in_loops": lambda: 3 * X + np.where(_I & 1, 0, 2 + 0 * X) + 7 + 0,
        "loops_of_odd_kinds": lambda: (
            1.5
            + 9
            + (10 + 7 + 4 + 1)
            + 100 * np.array([int(k).bit_count() for k in _I])
            + X
            + sum(sum(j for j in range(5) if j != k and j <= 3) for k in range(4))
        ),
    },
    "vectors": {
        "columns_in_braces": lambda: 3 * X - 3 + 3 + 2 + 3 + 2 + 3 + 4,
        "matrices": lambda: (
            1 + 2 * X + (X + 6) + (1 + X * X) + 4 * (X - 6) + 4 - 0 + 1 + 5 + 9 + X - 0 * X + 0
        ),
        "swizzled_assignments": lambda: 2 * X * 1000 + 6 * 100 + 2 - 6 + 12 + 2,
        "ternaries_of_vectors": lambda: np.where(
            _I & 1,
            X + 2 + 1 + 7 + 20 + X + 100 * X + 1000,
            0 + 0 + 2 + 0 + 70 + X + 100 + 1000 * X,
        ),
        "vector_conversions": lambda: (
            np.floor(X) - 2 + 3 + 255 + np.float32(np.float16(-2.7)) + 3 + 1 + 44 - 1 + 3 + 4 + 1
        ),
        "bool_vectors": lambda: (
            np.where((X > 2) & (X < 4), 2, 0) + 4 + 100 + 1000 + 0 + 1 + 1 + 0 + 1
        ),
        "vector_arithmetic": lambda: _vector_arithmetic(),
        "casts_of_all_kinds": lambda: -X + 2 + 3 + 6 + 3 + X + 3 + 127 + 1 + 3 + 4,
        "half_and_bfloat": lambda: _narrow_floats(),
    },
    "numbers": {
        "as_type_chains": lambda: (
            -X + (X.view(np.uint32) >> 24) + (X.view(np.uint32) >> 16).astype(np.float32) - 15360
        ),
        "integer_functions": lambda: _integer_functions(),
        "packs": lambda: np.rint(X / 64 * 255) + 1 - 1 + np.rint(0.25 * 32767),
        "mathematics_with_references": lambda: (
            X
            + X * 1.25
            + 1
            + 0
            + X / 4 % 1
            - 1
            + (X >= 3)
            + 2
            + np.minimum(X / 32, 1)
            + np.clip(X, 2, 5)
            + np.maximum(X, 3)
            + np.clip(X, 2, 9)
            - 2
            - 1
            + 8
            + 1
            + 2
        ),
        "narrow_integers": lambda: (
            1
            + 4
            + 260
            + 127
            - 25536
            + _I * 4
            + (64 - _I)
            + np.arange(1, 65) * 5 % 256
            - 3
            - 1
            + 1
            - 251
            + 1000
        ),
        "literals": lambda: (
            1.5
            + 0.125
            + 100
            + 5
            + 1000
            + 97
            + 5
            + 7
            + 255
            + 0.5
            + 2
            + 1
            + 8
            + 1
            + 10
            + 1
            + 65504
            + 1
            + 1
            + 1
            + np.pi
            + 65504
            + 1
            + 65535
            + 255
            + 0 * X
        ),
    },
    "pointers": {
        "pointers_given_to_templates": lambda: 2 * X + 65 + 65 + 3 + 4,
        "pointers_that_move": lambda: (X + (63 - _I) + X) * 2 + 3 + X,
        "pointers_of_all_kinds": lambda: (
            2 + 2 + X + 9 + np.where(_I & 1, 36, 4) + 4 + X + 6 + 2 + X + X + 1 + 1
        ),
        "const_methods_in_spaces": lambda: (
            (X + X[(_I + 1) % 64] + X[(_I + 2) % 64] + X[(_I + 3) % 64]) / 4 + 2 * X + 3
        ),
        "arrays_of_arrays": lambda: 0 + X + 1 + 2 * X + 2 + X + 1 + 0 + 3 + X + 2,
        "threadgroup_arrays_of_arrays": lambda: (
            X[_I % 8 * 8 + _I // 8] + X[63 - _I] * (31 - _LANE) + _I + 3
        ),
        "arrays_of_the_library": lambda: 3 * X + 1 + 5 + 2 * X + 1 + _I % 3 + 1 + 3 + (_I & 1),
    },
    "lanes": {
        "simd_of_all_kinds": lambda: _exchanged(),
        "simd_votes": lambda: 11 + 1000 + np.where(_LANE == 0, 5, 0) + 0.5 + 32,
        "simd_of_vectors": lambda: (
            np.where(_LANE < 31, np.roll(X, -1) + np.roll(_I, -1), 0)
            + 64
            + 31
            + 0
            + (_LANE // 4 * 16 + 6)
            + X[_I ^ 1]
            + (_LANE ^ 1)
            + X[_I // 4 * 4 + 2]
            + (_LANE % 4 + 1)
        ),
        "fill_shuffles_and_masks": lambda: _filled(),
        "atomic_loops": lambda: 192 - 8 + np.where(_I == 5, 1, 0),
        "more_atomics": lambda: (_I & 3) + 32 + 2080 - 2016 + 0.5 + 0 + (_I & 3),
    },
}
