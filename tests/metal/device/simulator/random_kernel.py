"""Metal kernels written at random in many styles, each with NumPy's way to the same results.

A kernel is a row of steps over four unsigned numbers of a thread. Each step has its text, with what
must stand before the kernel, and the same step over all threads of a threadgroup.
"""

# ruff: noqa: E501 (lines of Metal)

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tests.metal.device.simulator.random_cooperation import COOPERATION
from tests.metal.device.simulator.random_step import (
    THREADS,
    Kernel,
    Numbers,
    State,
    Step,
    Style,
    pick,
    word,
)
from tests.metal.device.simulator.random_types import TYPES

_SIMD = 32


def write(name: str, seed: int, steps: int = 7) -> Kernel:
    """Write a kernel."""
    chance = random.Random(seed)
    kernel = Kernel(name)
    for number in range(steps):
        kernel.steps.append(chance.choice(_STYLES)(chance, f"{name}_{number}"))
    return kernel


_L = np.arange(THREADS, dtype=np.uint32)
_BINARY: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "{0} + {1}": lambda p, q: p + q,
    "{0} - {1}": lambda p, q: p - q,
    "{0} * {1}": lambda p, q: p * q,
    "{0} ^ {1}": lambda p, q: p ^ q,
    "{0} & ~{1}": lambda p, q: p & ~q,
    "{0} | {1} >> 3": lambda p, q: p | q >> word(3),
    "max({0}, {1})": lambda p, q: np.maximum(p, q),
    "min({0}, {1}) + 1": lambda p, q: np.minimum(p, q) + word(1),
    "{0} < {1} ? {0} : {1} ? 5 : 7": lambda p, q: np.where(
        p < q, p, np.where(q != 0, word(5), word(7))
    ),
    "absdiff({0}, {1})": lambda p, q: np.maximum(p, q) - np.minimum(p, q),
    "mulhi({0}, {1})": lambda p, q: (
        (p.astype(np.uint64) * q.astype(np.uint64)) >> np.uint64(32)
    ).astype(np.uint32),
    "{0} % ({1} | 1)": lambda p, q: p % (q | word(1)),
    "{0} / ({1} % 9 + 1)": lambda p, q: p // (q % word(9) + word(1)),
    "uint(ulong({0}) * {1} >> 7)": lambda p, q: (
        (p.astype(np.uint64) * q.astype(np.uint64)) >> np.uint64(7)
    ).astype(np.uint32),
    "rotate({0}, 5u) + ({1} == 0)": lambda p, q: (
        (p << word(5) | p >> word(27)) + (q == 0).astype(np.uint32)
    ),
    "select({0}, {1}, {0} > {1})": lambda p, q: np.where(p > q, q, p),
    "extract_bits({0}, 4, 7) + insert_bits({1}, 3u, 8, 4)": lambda p, q: (
        (p >> word(4) & word(127)) + (q & word(0xFFFFF0FF) | word(0x300))
    ),
}


def _operation(chance: random.Random) -> tuple[str, Callable[[Numbers, Numbers], Numbers]]:
    return chance.choice(list(_BINARY.items()))


def _assignment(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    text, compute = _operation(chance)

    def apply(v: State) -> None:
        v[i] = compute(v[j], v[k])

    return Step(f"{to} = {text.format(p, q)};", apply)


def _function(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    text, compute = _operation(chance)
    body = f"{{ return {text.format('p', 'q')}; }}"
    head = chance.choice(
        (
            f"template <typename T> static inline T {name}_f(T p, const T q) {body}",
            f"inline uint {name}_f(thread const uint& p, uint q) {body}",
            (
                f"namespace {name}_n {{ constexpr uint {name}_g(uint p, uint q) "
                f"{{ return p + 0 * q; }} }}\n"
                f"[[clang::always_inline]] uint {name}_f(uint p, uint q) "
                f"{{ p = {name}_n::{name}_g(p, q); return {text.format('p', 'q')}; }}"
            ),
            (
                f"struct {name}_S {{ uint r; {name}_S(uint r) : r(r) {{}} "
                f"uint at(uint q) const {{ uint p = r; return {text.format('p', 'q')}; }} }};\n"
                f"uint {name}_f(uint p, uint q) {{ {name}_S held(p); return held.at(q); }}"
            ),
            (
                f"#define {name}_M(P, Q) ({text.format('(P)', '(Q)')})\n"
                f"uint {name}_f(uint p, uint q) {{ return {name}_M(p, q); }}"
            ),
            (
                f"uint {name}_g(uint p, uint q) {body}\ntemplate <uint (*F)(uint, uint)> "
                f"uint {name}_h(uint p, uint q) {{ return F(p, q); }}\n"
                f"uint {name}_f(uint p, uint q) {{ return {name}_h<{name}_g>(p, q); }}"
            ),
        )
    )

    def apply(v: State) -> None:
        v[i] = compute(v[j], v[k])

    return Step(f"{to} = {name}_f({p}, {q});", apply, head + "\n")


def _lambda(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    text, compute = _operation(chance)
    capture, copy = chance.choice((("[&]", ""), ("[=]", " mutable"), (f"[{q}]", "")))
    head = f"auto f = {capture}(uint p){copy} -> uint {{ return {text.format('p', q)}; }};"

    def apply(v: State) -> None:
        v[i] = compute(v[j], v[k])

    return Step(f"{head} {to} = f({p});", apply)


def _array(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            (
                f"uint e[4] = {{ {p} * {q}, {p}, {q} * {q}, 3 }}; uint r = 0; "
                f"for (uint z : e) r = r * 3 + z; {to} = r;"
            ),
            (
                f"array<uint, 4> e = {{ {p} * {q}, {p}, {q} * {q}, 3u }}; uint r = 0; "
                f"for (ushort z = 0; z < e.size(); ++z) r = r * 3 + e[z]; {to} = r;"
            ),
            (
                f"uint e[2][2]{{ {{ {p} * {q}, {p} }}, {{ {q} * {q}, 3 }} }}; thread uint* z = &e[0][0];"
                f" uint r = 0; for (int w = 0; w != 4; w++) r = r * 3 + *z++; {to} = r;"
            ),
            (
                f"struct {{ uint m, o; uint2 w; }} e = {{ {p} * {q}, {p}, {{ {q} * {q}, 3 }} }}; "
                f"{to} = ((e.m * 3 + e.o) * 3 + e.w[0]) * 3 + e.w.y;"
            ),
            (
                f"uint4 e = uint4({p} * {q}, {p}, {q} * {q}, 3); thread uint4& z = e; uint r = 0; "
                f"for (int w = 0; w < 4; w++) r = r * 3 + z[w]; {to} = r;"
            ),
        )
    )

    def apply(v: State) -> None:
        e, r = (v[j] * v[k], v[j], v[k] * v[k], np.full_like(v[j], 3)), np.zeros_like(v[j])
        for one in e:
            r = r * word(3) + one
        v[i] = r

    return Step(form, apply)


def _vector(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            f"uint4 v(a, b, c, d); v = v.wzyx * uint4({p}, 2, 3, {q}) + v; {to} = v.x ^ v.w;",
            (
                f"uint3 v = {{ d, a, 0 }}; v.xy *= vec<uint, 2>({p}, {q}); v.xy += uint2(a, d); "
                f"{to} = v.r ^ v.g;"
            ),
            (
                f"packed_uint3 v = packed_uint3(d, a, 1); v[0] = v[0] * {p} + a; v.y = v.y * {q} + d; "
                f"{to} = v.x ^ v[1];"
            ),
            (
                f"uint2 v = uint2(d, a), w = uint2({p}, {q}); v = mad(v, w, v.yx).xy; "
                f"{to} = v.x ^ v.y;"
            ),
        )
    ).replace("mad(v, w, v.yx)", "(v * w + v.yx)")

    def apply(v: State) -> None:
        v[i] = (v[3] * v[j] + v[0]) ^ (v[0] * v[k] + v[3])

    return Step(form, apply)


def _masks(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = (
        f"bool4 m = uint4(a, b, c, d) > uint4({p}); uint r = any(m) + 2 * all(m.xy) + 4 * m.w; "
        f"{to} = r + select(uint2(1, 2), uint2({q}), m.zw).x;"
    )

    def apply(v: State) -> None:
        m = [(one > v[j]).astype(np.uint32) for one in v[:4]]
        r = (m[0] | m[1] | m[2] | m[3]) + word(2) * (m[0] & m[1]) + word(4) * m[3]
        v[i] = r + np.where(m[2] != 0, v[k], word(1))

    return Step(form, apply)


def _loop(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    text, compute = _operation(chance)
    step = text.format("r", q)
    form = chance.choice(
        (
            f"uint r = {p}; for (uint z = 0; z < {p} % 6; z++) r = {step}; {to} = r;",
            f"uint r = {p}, z = {p} % 6; while (z--) {{ r = {step}; }} {to} = r;",
            f"uint r = {p}, z = {p} % 6; if (z) do r = {step}; while (--z); {to} = r;",
            (
                f"uint r = {p}; for (int z = 0;; ++z) {{ if (z == int({p} % 6)) break; r = {step}; }} "
                f"{to} = r;"
            ),
            (
                f'uint r = {p}; _Pragma("unroll") for (uint z = 0; z < 6; z++) {{ '
                f"if (z >= {p} % 6) continue; r = {step}; }} {to} = r;"
            ),
        )
    )
    if name.endswith("3"):
        form = form.replace("uint r", "auto r")
        form = form.replace(f"auto r = {p}, z", f"uint r = {p}, z")

    def apply(v: State) -> None:
        r, turns, other = v[j].copy(), v[j] % word(6), v[k].copy()
        for turn in range(6):
            r = np.where(turns > turn, compute(r, other), r).astype(np.uint32)
        v[i] = r

    # The variable that is written may be one that the loop reads.
    return Step(form, apply)


def _switch(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            (
                f"uint r; switch ({p} & 3) {{ case 0: r = {q}; break; case 1: {{ uint z = {q} * 2; "
                f"r = z; break; }} case 2: r = 7; break; default: r = {p}; }} {to} = r;"
            ),
            (
                f"uint r = {p}; if (({p} & 3) == 0) r = {q}; else if (({p} & 3) == 1) r = {q} * 2; "
                f"else if (({p} & 3) == 2) r = 7; {to} = r;"
            ),
            (
                f"{to} = {name}_E({p} & 3) == {name}_E::A ? {q} : ({p} & 3) == uint({name}_E::B) "
                f"? {q} * 2 : ({p} & 3) == {name}_two ? 7 : {p};"
            ),
        )
    )
    before = f"enum class {name}_E : uint {{ A, B = 1 }}; constant constexpr uint {name}_two = 2;\n"

    def apply(v: State) -> None:
        low = v[j] & word(3)
        v[i] = np.select([low == 0, low == 1, low == 2], [v[k], v[k] * word(2), word(7)], v[j])
        v[i] = v[i].astype(np.uint32)

    return Step(form, apply, before if f"{name}_E" in form else "")


def _constants(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), _ = pick(chance)
    table = [chance.randrange(1 << 32) for _ in range(8)]
    form, before = chance.choice(
        (
            (f"{to} = {name}_t[{p} % 8];", f"constant uint {name}_t[8] = {{VALUES}};\n"),
            (
                f"constant uint* z = &{name}_t[{p} % 4]; {to} = z[{p} % 8 / 4 * 4];",
                f"constant constexpr uint {name}_t[] = {{VALUES}};\n",
            ),
            (
                f"constant uint (&z)[4] = {name}_t[{p} % 8 / 4]; {to} = z[{p} % 4];",
                f"constant uint {name}_t[2][4] = {{ROWS}};\n",
            ),
            (
                f"{to} = {name}_T<uint>::get({p} % 8);",
                (
                    f"constant uint {name}_t[8] = {{VALUES}};\ntemplate <typename T> struct {name}_T "
                    f"{{ static T get(uint z) {{ return {name}_t[z]; }} }};\n"
                ),
            ),
        )
    )
    words = [f"{v}u" for v in table]
    before = before.replace("{VALUES}", f"{{{', '.join(words)}}}")
    before = before.replace("{ROWS}", f"{{{{{', '.join(words[:4])}}}, {{{', '.join(words[4:])}}}}}")

    def apply(v: State) -> None:
        v[i] = np.array(table, np.uint32)[v[j] % word(8)]

    return Step(form, apply, before)


def _exchange(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), _q = pick(chance)
    turn = chance.randrange(1, 64)
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    form = chance.choice(
        (
            f"s[l] = {p}; {barrier} {to} = s[(l + {turn}) % 64]; {barrier}",
            (
                f"t[l / 8][l % 8] = {p}; {barrier} uint z = (l + {turn}) & 63; {to} = t[z >> 3][z & 7];"
                f" {barrier}"
            ),
            (
                f"threadgroup uint* z = s + l; *z = {p}; {barrier} threadgroup uint& w = "
                f"s[(l + {turn}) % 64]; {to} = w; {barrier}"
            ),
            (
                f"threadgroup uint* z = &t[0][0]; z[l] = {p}; {barrier} "
                f"{to} = ((const threadgroup uint*)t)[(l + {turn}) % 64]; {barrier}"
            ),
        )
    )

    def apply(v: State) -> None:
        v[i] = np.roll(v[j], -turn)

    return Step(form, apply)


def _histogram(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    add = chance.choice(
        (
            f"atomic_fetch_add_explicit(&n[{p} % 16], {q}, memory_order_relaxed);",
            f"atomic_fetch_add_explicit(n + {p} % 16, {q}, memory_order_relaxed);",
            (
                f"threadgroup atomic_uint* z = n; atomic_fetch_sub_explicit(&z[{p} % 16], 0 - {q}, "
                f"memory_order_relaxed);"
            ),
        )
    )
    form = (
        f"if (l < 16) atomic_store_explicit(&n[l], 0, memory_order_relaxed); {barrier} {add} "
        f"{barrier} {to} = atomic_load_explicit(&n[l % 16], memory_order_relaxed); {barrier}"
    )

    def apply(v: State) -> None:
        bins = np.zeros(16, np.uint32)
        np.add.at(bins, v[j] % word(16), v[k])
        v[i] = bins[_L % 16]

    return Step(form, apply)


_SIMD_OPERATIONS: dict[str, Callable[[Numbers], Numbers]] = {
    "simd_sum({0})": lambda r: np.broadcast_to(r.sum(1, dtype=np.uint32)[:, None], r.shape),
    "simd_max({0})": lambda r: np.broadcast_to(r.max(1)[:, None], r.shape),
    "simd_xor({0})": lambda r: np.broadcast_to(np.bitwise_xor.reduce(r, 1)[:, None], r.shape),
    "simd_shuffle_xor({0}, 5)": lambda r: r[:, np.arange(_SIMD) ^ 5],
    "simd_shuffle({0}, (lane * 7 + 3) % 32)": lambda r: r[:, (np.arange(_SIMD) * 7 + 3) % 32],
    "simd_broadcast({0}, 9)": lambda r: np.broadcast_to(r[:, 9:10], r.shape),
    "simd_broadcast_first({0})": lambda r: np.broadcast_to(r[:, :1], r.shape),
    "simd_prefix_inclusive_sum({0})": lambda r: np.cumsum(r, 1, dtype=np.uint32),
    "simd_prefix_exclusive_sum({0})": lambda r: np.cumsum(r, 1, dtype=np.uint32) - r,
    "simd_shuffle_rotate_up({0}, 4)": lambda r: np.roll(r, 4, 1),
    "quad_sum({0})": lambda r: np.repeat(r.reshape(-1, 8, 4).sum(2, dtype=np.uint32), 4, axis=1),
    "popcount((ulong)simd_ballot({0} & 1))": lambda r: np.broadcast_to(
        (r & word(1)).sum(1, dtype=np.uint32)[:, None], r.shape
    ),
    "uint(simd_any({0} % 64 == 5)) + 2 * uint(simd_all({0} != 9))": lambda r: np.broadcast_to(
        ((r % word(64) == 5).any(1) + 2 * (r != 9).all(1)).astype(np.uint32)[:, None], r.shape
    ),
}


def _simdgroup(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), _q = pick(chance)
    text, compute = chance.choice(list(_SIMD_OPERATIONS.items()))

    def apply(v: State) -> None:
        v[i] = np.array(compute(v[j].reshape(-1, _SIMD)), np.uint32).reshape(THREADS)

    return Step(f"{to} = {text.format(p)};", apply)


def _bits_of(numbers: Numbers) -> npt.NDArray[np.uint32]:
    return (numbers[:, None] >> np.arange(32, dtype=np.uint32)) & word(1)


def _reinterpreted(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), _q = pick(chance)
    choices: tuple[tuple[str, Callable[[Numbers], Numbers]], ...] = (
        ("popcount({0}) * 3", lambda p: _bits_of(p).sum(1, dtype=np.uint32) * word(3)),
        (
            "reverse_bits({0})",
            lambda p: (_bits_of(p)[:, ::-1] << np.arange(32, dtype=np.uint32)).sum(
                1, dtype=np.uint32
            ),
        ),
        ("as_type<uint>(as_type<uchar4>({0}).wzyx)", lambda p: p.byteswap()),
        ("as_type<uint>(as_type<ushort2>({0}).yx)", lambda p: p << word(16) | p >> word(16)),
        (
            "uint(int(as_type<char4>({0}).x) + int(short({0} >> 16)))",
            lambda p: (
                p.astype(np.uint8).view(np.int8).astype(np.int32)
                + (p >> word(16)).astype(np.uint16).view(np.int16).astype(np.int32)
            ).astype(np.uint32),
        ),
        (
            "uint(float({0} % 4096) * 0.5f + 0.25f)",
            lambda p: ((p % word(4096)).astype(np.float32) * 0.5 + 0.25).astype(np.uint32),
        ),
        (
            "as_type<uint>(float({0} >> 8))",
            lambda p: (p >> word(8)).astype(np.float32).view(np.uint32),
        ),
        (
            "uint(as_type<ushort>(half({0} % 2048)))",
            lambda p: (p % word(2048)).astype(np.float16).view(np.uint16).astype(np.uint32),
        ),
        (
            "uint(dot(float3({0} % 8, 2, 1), float3(1, 2, 3)) + length(float2(3, 4)))",
            lambda p: p % word(8) + word(12),
        ),
        (
            "uint((float2x2({0} % 8, 1, 2, 3) * float2(2, 5)).x)",
            lambda p: p % word(8) * word(2) + word(10),
        ),
        ("uint(bfloat(float({0} % 256)))", lambda p: p % word(256)),
        ("clz({0} | 1) + ctz({0} | 0x100)", lambda p: _leading(p | word(1)) + _trailing(p)),
    )
    text, compute = chance.choice(choices)

    def apply(v: State) -> None:
        v[i] = np.asarray(compute(v[j]), np.uint32)

    return Step(f"{to} = {text.format(p)};", apply)


def _leading(p: Numbers) -> Numbers:
    return np.asarray(np.argmax(_bits_of(p)[:, ::-1], axis=1), np.uint32)


def _trailing(p: Numbers) -> Numbers:
    return np.asarray(np.argmax(_bits_of(p | word(0x100)), axis=1), np.uint32)


_STYLES: tuple[Style, ...] = (
    *(_assignment, _function, _function, _lambda, _array, _vector, _masks, _loop, _loop, _switch),
    *(_constants, _exchange, _histogram, _simdgroup, _reinterpreted),
    *TYPES,
    *COOPERATION,
)
