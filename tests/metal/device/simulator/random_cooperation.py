"""Steps of random kernels in which threads work together: barriers in loops, atomics, simdgroups."""

# ruff: noqa: E501 (lines of Metal)

import random
from collections.abc import Callable

import numpy as np

from tests.metal.device.simulator.random_step import Numbers, State, Step, Style, pick, word

_SIMD, _THREADS = 32, 64
_L = np.arange(_THREADS, dtype=np.uint32)
_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"


def _rounds(chance: random.Random, name: str) -> Step:
    """A loop around barriers that skips one round and leaves after another."""
    (to, i), (p, j), _ = pick(chance)
    skipped, last = chance.randrange(8), chance.randrange(8)
    exchange = f"s[l] = r; {_BARRIER} r += s[(l + z) % 64] * 3; {_BARRIER}"
    form = chance.choice(
        (
            f"uint r = {p}; for (uint z = 0; z < 8; z++) {{ if (z == {skipped}) continue; {exchange} if (z == {last}) break; }} {to} = r;",
            f"uint r = {p}; uint z = 0; while (true) {{ if (z != {skipped}) {{ {exchange} if (z == {last}) break; }} if (++z == 8) break; }} {to} = r;",
            f"uint r = {p}; uint z = 0; do {{ if (z == {skipped}) continue; {exchange} if (z == {last}) break; }} while (++z < 8); {to} = r;",
            f'uint r = {p}; _Pragma("unroll") for (ushort z = 0; z < 8; ++z) {{ if (z == {skipped}) continue; {exchange} if (z == {last}) break; }} {to} = r;',
            f"uint r = {p}; for (uint z = 0; z < 8; z++) {{ switch (z) {{ case {skipped}: continue; default: {exchange} }} if (z == {last}) break; }} {to} = r;",
        )
    )

    def apply(v: State) -> None:
        r = v[j].copy()
        for z in range(8):
            if z == skipped:
                continue
            r = r + np.roll(r, -z) * word(3)
            if z == last:
                break
        v[i] = r

    return Step(form, apply)


def _tree(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), _ = pick(chance)
    form, before = chance.choice(
        (
            (f"s[l] = {p}; {_BARRIER} for (uint z = 32; z > 0; z >>= 1) {{ if (l < z) s[l] += s[l + z]; {_BARRIER} }} {to} = s[0]; {_BARRIER}", ""),
            (f"s[l] = {p}; for (uint z = 1; z < 64; z *= 2) {{ {_BARRIER} if (l % (2 * z) == 0) s[l] += s[l + z]; }} {_BARRIER} {to} = s[0]; {_BARRIER}", ""),
            (f"uint r = simd_sum({p}); if (simd_is_first()) s[sg] = r; {_BARRIER} {to} = s[0] + s[1]; {_BARRIER}", ""),
            (f"uint r = {p}; for (ushort z = 16; z; z /= 2) r += simd_shuffle_xor(r, z); if (lane == 0) s[sg] = r; {_BARRIER} if (sg == 0) {{ uint w = lane < 2 ? s[lane] : 0; w = simd_sum(w); if (lane == 0) s[0] = w; }} {_BARRIER} {to} = s[0]; {_BARRIER}", ""),
            (
                f"{to} = {name}_r({p}, l, s); {_BARRIER}",
                f"template <typename T> T {name}_r(T r, uint l, threadgroup T* s) {{ s[l] = r; {_BARRIER} if (l == 0) {{ T w = 0; for (ushort z = 0; z < 64; z++) w += s[z]; s[0] = w; }} {_BARRIER} return s[0]; }}\n",
            ),
            (
                f"threadgroup {name}_S z; if (l == 0) atomic_store_explicit(&z.n, 0, memory_order_relaxed); {_BARRIER} z.add({p}); {_BARRIER} {to} = atomic_load_explicit(&z.n, memory_order_relaxed);",
                f"struct {name}_S {{ uint pad; atomic_uint n; void add(uint r) threadgroup {{ atomic_fetch_add_explicit(&n, r, memory_order_relaxed); }} }};\n",
            ),
        )
    )  # fmt: skip

    def apply(v: State) -> None:
        v[i] = np.full_like(v[j], v[j].sum(dtype=np.uint32))

    return Step(form, apply, before)


def _scan(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), _ = pick(chance)
    form, before = chance.choice(
        (
            (f"threadgroup uint w[64]; threadgroup uint* m = s; threadgroup uint* o = w; m[l] = {p}; {_BARRIER} for (uint z = 1; z < 64; z <<= 1) {{ o[l] = m[l] + (l >= z ? m[l - z] : 0); threadgroup uint* u = m; m = o; o = u; {_BARRIER} }} {to} = m[l]; {_BARRIER}", ""),
            (f"s[l] = {p}; {_BARRIER} for (uint z = 1; z < 64; z *= 2) {{ uint r = 0; if (l >= z) r = s[l - z]; {_BARRIER} s[l] += r; {_BARRIER} }} {to} = s[l]; {_BARRIER}", ""),
            (f"uint r = simd_prefix_inclusive_sum({p}); if (lane == 31) s[sg] = r; {_BARRIER} if (sg > 0) r += s[sg - 1]; {to} = r; {_BARRIER}", ""),
            (f"uint r = {p}; for (ushort z = 1; z < 32; z <<= 1) {{ uint w = simd_shuffle_up(r, z); r += lane >= z ? w : 0; }} if (lane == 31 && sg == 0) s[0] = r; {_BARRIER} {to} = r + (sg ? s[0] : 0); {_BARRIER}", ""),
            (f"uint r = {p}; for (ushort z = 1; z < 32; z <<= 1) r += simd_shuffle_and_fill_up(r, 0u, z); if (lane == 31) s[sg] = r; {_BARRIER} for (uint z = 0; z < sg; z++) r += s[z]; {to} = r; {_BARRIER}", ""),
            (
                f"threadgroup {name}_S w; w.at[sg][lane] = {p}; {_BARRIER} uint r = 0; for (uint z = 0; z <= l; z++) r += w.at[z / 32][z % 32]; {to} = r; {_BARRIER}",
                f"struct {name}_S {{ uint at[2][32]; }};\n",
            ),
        )
    )  # fmt: skip

    def apply(v: State) -> None:
        v[i] = np.cumsum(v[j], dtype=np.uint32)

    return Step(form, apply, before)


_ATOMICS: dict[str, tuple[int, Callable[[Numbers], np.uint32]]] = {
    "atomic_fetch_max_explicit({0}, {1}, memory_order_relaxed)": (0, lambda p: p.max()),
    "atomic_fetch_min_explicit({0}, {1}, memory_order_relaxed)": (0xFFFFFFFF, lambda p: p.min()),
    "atomic_fetch_xor_explicit({0}, {1}, memory_order_relaxed)": (
        0, lambda p: np.bitwise_xor.reduce(p),
    ),
    "atomic_fetch_or_explicit({0}, {1}, memory_order_relaxed)": (
        0, lambda p: np.bitwise_or.reduce(p),
    ),
    "atomic_fetch_and_explicit({0}, {1}, memory_order_relaxed)": (
        0xFFFFFFFF, lambda p: np.bitwise_and.reduce(p),
    ),
    "uint w = atomic_load_explicit({0}, memory_order_relaxed); while (w < {1} && !atomic_compare_exchange_weak_explicit({0}, &w, {1}, memory_order_relaxed, memory_order_relaxed)) {{}}": (
        0, lambda p: p.max(),
    ),
    "uint w = 0; while (!atomic_compare_exchange_weak_explicit({0}, &w, w + {1} * 2, memory_order_relaxed, memory_order_relaxed));": (
        0, lambda p: (p * word(2)).sum(dtype=np.uint32),
    ),
}  # fmt: skip


def _atomics(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), _q = pick(chance)
    text, (first, compute) = chance.choice(list(_ATOMICS.items()))
    place = chance.choice(("&n[3]", "n + 3"))
    form = (
        f"if (l == 0) atomic_store_explicit(&n[3], {first}u, memory_order_relaxed); {_BARRIER} "
        f"{{ {text.format(place, p)}; }} {_BARRIER} {to} = atomic_load_explicit(&n[3], memory_order_relaxed); {_BARRIER}"
    )

    def apply(v: State) -> None:
        v[i] = np.full_like(v[j], compute(v[j]))

    return Step(form, apply)


def _rows(p: Numbers) -> Numbers:
    return p.reshape(-1, _SIMD)


def _spread(values: Numbers) -> Numbers:
    return np.repeat(np.asarray(values, np.uint32), _SIMD)


_SHUFFLES: dict[str, Callable[[Numbers], Numbers]] = {
    "simd_min({0})": lambda p: _spread(_rows(p).min(1)),
    "simd_and({0} | 0xf0)": lambda p: _spread(np.bitwise_and.reduce(_rows(p) | word(0xF0), 1)),
    "simd_or({0} & 0xffff)": lambda p: _spread(np.bitwise_or.reduce(_rows(p) & word(0xFFFF), 1)),
    "simd_product({0} | 1)": lambda p: _spread(
        np.multiply.reduce(_rows(p) | word(1), 1, dtype=np.uint32)
    ),
    "simd_shuffle_rotate_down({0}, 7)": lambda p: np.roll(_rows(p), -7, 1).ravel(),
    "simd_shuffle_and_fill_down({0}, 5u, 3)": lambda p: np.concatenate(
        (_rows(p)[:, 3:], np.full((2, 3), 5, np.uint32)), 1
    ).ravel(),
    "simd_shuffle_down({0}, 2) * uint(lane < 30)": lambda p: np.where(
        _L % word(32) < 30, np.roll(p, -2), word(0)
    ),
    "quad_shuffle_xor({0}, 3) + quad_broadcast({0}, 1)": lambda p: (
        p.reshape(-1, 4)[:, ::-1] + p.reshape(-1, 4)[:, 1:2]
    ).ravel(),
    "quad_max({0})": lambda p: np.repeat(p.reshape(-1, 4).max(1), 4),
    "simd_sum(uint2({0}, 3)).x + simd_max(ushort({0} & 255))": lambda p: _spread(
        _rows(p).sum(1, dtype=np.uint32) + (_rows(p) & word(255)).max(1)
    ),
    "uint(simd_sum(half({0} % 4)))": lambda p: _spread(
        (_rows(p) % word(4)).sum(1, dtype=np.uint32)
    ),
    "uint(simd_sum(float4({0} % 4, 1, 0, 0)).x)": lambda p: _spread(
        (_rows(p) % word(4)).sum(1, dtype=np.uint32)
    ),
    "as_type<uint>(simd_shuffle(as_type<uchar4>({0}), ushort(31 - lane)).zwxy)": lambda p: (
        _rows(p)[:, ::-1] << word(16) | _rows(p)[:, ::-1] >> word(16)
    ).ravel(),
    "simd_prefix_inclusive_product({0} | 1)": lambda p: np.multiply.accumulate(
        _rows(p) | word(1), 1, dtype=np.uint32
    ).ravel(),
    "uint(ulong(simd_active_threads_mask())) ^ uint(ulong(simd_ballot({0} > 0x80000000)))": lambda p: (
        _spread(
            (
                (_rows(p) <= word(0x80000000)).astype(np.uint32) << np.arange(32, dtype=np.uint32)
            ).sum(1, dtype=np.uint32)
        )
    ),
}


def _shuffles(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), _q = pick(chance)
    text, compute = chance.choice(list(_SHUFFLES.items()))

    def apply(v: State) -> None:
        v[i] = np.asarray(compute(v[j]), np.uint32)

    return Step(f"{to} = {text.format(p)};", apply)


def _whole_simdgroup(chance: random.Random, _: str) -> Step:
    """Simdgroup operations under conditions and in loops that are one for a simdgroup."""
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            f"uint r = {q}; if (sg == 1) r = simd_sum({p}); else {{ r = r + 1; }} {to} = r;",
            f"uint r = {q}; switch (sg) {{ case 1: r = simd_sum({p}); break; default: r++; }} {to} = r;",
            f"uint r = {q} + 1; for (uint z = 0; z < sg; z++) r = simd_sum({p}); {to} = r;",
            f"uint r = {q} + 1; uint w = simd_broadcast_first(l); while (w >= 32) {{ r = simd_sum({p}); w -= 32; }} {to} = r;",
        )
    )

    def apply(v: State) -> None:
        sums = _spread(_rows(v[j]).sum(1, dtype=np.uint32))
        v[i] = np.where(_L >= 32, sums, v[k] + word(1)).astype(np.uint32)

    return Step(form, apply)


def _matrices(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    multiply = chance.choice(
        (
            "simdgroup_float8x8 r(0); simdgroup_multiply_accumulate(r, m, o, r);",
            "simdgroup_float8x8 r; simdgroup_multiply(r, m, o);",
            "simdgroup_float8x8 r = make_filled_simdgroup_matrix<float, 8>(0); simdgroup_multiply_accumulate(r, m, o, r);",
        )
    )
    form = (
        f"threadgroup float w[2][64]; w[0][l] = {p} % 8; w[1][l] = {q} % 8; {_BARRIER} "
        f"if (sg == 0) {{ simdgroup_float8x8 m, o; simdgroup_load(m, w[0], 8); simdgroup_load(o, &w[1][0], 8); "
        f"{multiply} simdgroup_store(r, w[0], 8); }} {_BARRIER} {to} = uint(w[0][l]); {_BARRIER}"
    )

    def apply(v: State) -> None:
        m, o = ((v[n] % word(8)).reshape(8, 8) for n in (j, k))
        v[i] = (m @ o).astype(np.uint32).ravel()

    return Step(form, apply)


def _through_device(chance: random.Random, _: str) -> Step:
    """Hand numbers over in the output, which ends as the kernel leaves it."""
    (to, i), (p, j), _q = pick(chance)
    turn = chance.randrange(1, 64)
    flags = chance.choice(
        ("mem_flags::mem_device", "mem_flags::mem_device | mem_flags::mem_threadgroup")
    )
    form = (
        f"y[l + 64] = {p}; threadgroup_barrier({flags}); {to} = y[64 + (l + {turn}) % 64]; "
        f"threadgroup_barrier({flags});"
    )

    def apply(v: State) -> None:
        v[i] = np.roll(v[j], -turn)

    return Step(form, apply)


COOPERATION: tuple[Style, ...] = (
    *(_rounds, _rounds, _tree, _tree, _scan, _scan, _atomics, _shuffles, _shuffles),
    *(_whole_simdgroup, _matrices, _through_device),
)
