"""Steps of random kernels about types: structs, templates, packed and small vectors, bits."""

# ruff: noqa: E501 (lines of Metal)

import random

import numpy as np

from tests.metal.device.simulator.random_step import Numbers, State, Step, Style, pick, word


def _class_template(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form, before = chance.choice(
        (
            (
                f"{name}_A<uint, 3> e; e.add({p}); e.add({q}); e += {p}; {to} = e.total() + e.size;",
                (
                    f"template <typename T, int N> struct {name}_A {{ T v[N] = {{}}; int n = 0; "
                    f"static constexpr constant uint size = N; void add(T x) {{ v[n++] = x; }} "
                    f"thread {name}_A& operator+=(T x) {{ add(x * 5); return *this; }} "
                    f"T total() const {{ T r = 0; for (int z = 0; z < N; z++) r = r * 2 + v[z]; return r; }} }};\n"
                ),
            ),
            (
                f"{name}_V e{{{p}, {q}}}; e = e * 2 + {name}_V{{{q}, {p} * 5}}; {to} = uint(e) + 3;",
                (
                    f"struct {name}_V {{ uint m, o; {name}_V operator*(uint z) const {{ return {{m * z, o * z}}; }} "
                    f"explicit operator uint() const {{ return m * 2 + o; }} }};\n"
                    f"{name}_V operator+({name}_V z, thread const {name}_V& w) {{ z.m += w.m; z.o += w.o; return z; }}\n"
                ),
            ),
        )
    )
    is_first = "_A<" in form

    def apply(v: State) -> None:
        if is_first:
            v[i] = (v[j] * word(2) + v[k]) * word(2) + v[j] * word(5) + word(3)
        else:
            m, o = v[j] * word(2) + v[k], v[k] * word(2) + v[j] * word(5)
            v[i] = m * word(2) + o + word(3)

    return Step(form, apply, before)


def _meta(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form, before = chance.choice(
        (
            (
                f"{to} = {name}_P<3>::f({p}) + {q};",
                (
                    f"template <int N> struct {name}_P {{ static uint f(uint z) {{ return z + {name}_P<N - 1>::f(z * 3); }} }};\n"
                    f"template <> struct {name}_P<0> {{ static uint f(uint) {{ return 0; }} }};\n"
                ),
            ),
            (
                f"{to} = {name}_s({p}, {p} * 3u, {p} * 9u, {q});",
                f"template <typename... T> uint {name}_s(T... z) {{ return (z + ...); }}\n",
            ),
            (
                f"{to} = {name}_c<uint>({p}) + {name}_c<ushort>(ushort(0)) + {q};",
                (
                    f"template <typename T> T {name}_c(T z) {{ if constexpr (is_same_v<T, uint>) return z * 13; "
                    f"else {{ static_assert(sizeof(T) == 2); return z; }} }}\n"
                ),
            ),
            (
                f"using T = conditional_t<sizeof(uint) == 4, uint, float>; T r = {p}; r *= {name}_k<13>::value; {to} = r + {q};",
                f"template <uint N> struct {name}_k {{ enum : uint {{ value = N }}; }};\n",
            ),
        )
    )

    def apply(v: State) -> None:
        v[i] = v[j] * word(13) + v[k]

    return Step(form, apply, before)


def _small_floats(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            f"half4 h = half4({p} % 8, {q} % 8, 3, 1); h = h * half4(2, 3, 1, 1) + h.yxwz; {to} = uint(h.x + 2 * h.y + h.w);",
            f"half2 h = half2({p} % 8, {q} % 8); h = fma(h, half2(2, 3), h.yx); {to} = uint(dot(h, half2(1, 2))) + 4;",
            f"bfloat4 h = bfloat4(bfloat({p} % 8), bfloat({q} % 8), 3.0bf, 1.0bf); h = h * bfloat4(2.0bf, 3.0bf, 1.0bf, 1.0bf) + h.yxwz; {to} = uint(h.x) + 2 * uint(h.y) + uint(h.w);",
            f"packed_float3 h(float({p} % 8), float({q} % 8), 1.0f); float3 g = float3(h) * float3(2, 3, 1) + float3(h).yxz; h = g; {to} = uint(h[0] + 2 * h.y + 2 * h.z);",
            f"float2x2 m = float2x2(float2(2, 2), float2(1, 6)); m[0].y = 2; float2 h = m * float2({p} % 8, {q} % 8); h.y += h.x - 2 * h.x; {to} = uint(h.x + 2 * ({p} % 8 + 3 * ({q} % 8))) + 4 + uint(0 * h.y);",
            f"float h = float({p} % 8), g = {q} % 8; auto f = clamp(h * 4, 0.0f, 100.0f) + mix(0.0f, g * 7, 1.0f); {to} = uint(floor(f + 0.5f) + trunc(4.75f));",
            f"half h = half({p} % 8) * 4.0h; h += half({q} % 8) * 7; {to} = ushort(h) + ushort(rint(4.25h));",
        )
    )

    def apply(v: State) -> None:
        m, o = v[j] % word(8), v[k] % word(8)
        v[i] = m * word(4) + o * word(7) + word(4)

    return Step(form, apply)


def _bits(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            f"ulong z = as_type<ulong>(uint2({p}, {q})); z = z << 8 | z >> 56; {to} = as_type<uint2>(z).y;",
            f"{to} = uint(((ulong({q}) << 32) | {p}) >> 24);",
            f"ushort4 z = as_type<ushort4>(uint2({p}, {q})); {to} = uint(z.y >> 8) | uint(z.z) << 8 | uint(z.w) << 24;",
            f"union {{ uint w[2]; uchar b[8]; }} z; z.w[0] = {p}; z.w[1] = {q}; {to} = z.b[3] | uint(z.b[4]) << 8 | uint(z.b[5]) << 16 | uint(z.b[6]) << 24;",
            f"uchar4 m = as_type<uchar4>({p}), o = as_type<uchar4>({q}); {to} = as_type<uint>(uchar4(m.w, o.xyz));",
            f"struct {{ uint m : 24; uint o : 8; }} z; z.m = {p} & 0xffffff; z.o = {p} >> 24; {to} = z.o | {q} << 8;",
            f"float z = as_type<float>({p}); {to} = as_type<uint>(z) >> 24 | {q} << 8;",
            f"half2 z = as_type<half2>({p}); {to} = as_type<ushort>(z.y) >> 8 | {q} << 8;",
            f"packed_uchar4 z = packed_uchar4(as_type<uchar4>({p})); {to} = z[3] | {q} << 8;",
            f"long z = long({q}) << 32 | long({p}); {to} = uint(z >> 24);",
        )
    )

    def apply(v: State) -> None:
        v[i] = v[j] >> word(24) | v[k] << word(8)

    return Step(form, apply)


def _fallthrough(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = (
        f"uint r = {q}; switch ({p} % 6) {{ case 0: r += 1; case 1: r *= 3; break; case 2: case 3: r ^= 5; "
        f"[[fallthrough]]; default: r -= 7; if (r & 1) break; r += 2; case 9: r ^= 1; }} {to} = r;"
    )

    def apply(v: State) -> None:
        low, r = v[j] % word(6), v[k]
        first = np.where(low == 0, r + word(1), r) * word(3)
        rest = np.where((low == 2) | (low == 3), r ^ word(5), r) - word(7)
        rest = np.where(rest & word(1) == 1, rest, (rest + word(2)) ^ word(1))
        v[i] = np.where(low < 2, first, rest).astype(np.uint32)

    return Step(form, apply)


def _pointers(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form, before = chance.choice(
        (
            (f"uint m = {p}, o = {q}; thread uint* z[2] = {{ &m, &o }}; *z[{p} & 1] += 9; {to} = m ^ o;", ""),
            (f"uint e[2] = {{ {p}, {q} }}; thread uint* z = e; z[{p} & 1] += 9; {to} = *e ^ e[1];", ""),
            (
                f"uint m = {p}, o = {q}; {name}_u(m & 1 ? &o : &m); {to} = m ^ o;",
                f"void {name}_u(thread uint* z) {{ *z += 9; }}\n",
            ),
            (
                f"uint2 e = uint2({p}, {q}); e[e.x & 1] += 9; {to} = e.x ^ e.y;",
                "",
            ),
            (
                f"{name}_S e = {{ {{ {p}, {q} }}, nullptr }}; e.z = e.w; e.z[{p} & 1] += 9; {name}_S g = e; {to} = g.w[0] ^ g.w[1];",
                f"struct {name}_S {{ uint w[2]; thread uint* z; }};\n",
            ),
        )
    )  # fmt: skip

    def apply(v: State) -> None:
        is_odd = v[j] & word(1) == 1
        m, o = np.where(is_odd, v[j], v[j] + word(9)), np.where(is_odd, v[k] + word(9), v[k])
        v[i] = (m ^ o).astype(np.uint32)

    return Step(form, apply, before)


def _saturated(p: Numbers, q: Numbers) -> Numbers:
    total = np.minimum(p.astype(np.uint64) + q, np.uint64(0xFFFFFFFF))
    return np.asarray(total, np.uint32)


def _integers(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            f"{to} = addsat({p}, {q}) + hadd({p}, {q});",
            f"{to} = addsat(uint2({p}, 0), uint2({q}, 0)).x + hadd({p}, {q});",
            f"ulong z = ulong({p}) + {q}; {to} = uint(min(z, ulong(0xffffffff))) + uint(z >> 1);",
            f"ulong2 z = ulong2({p}, {q}); {to} = (z.x + z.y > 0xfffffffful ? ~0u : {p} + {q}) + uint((z.x + z.y) / 2);",
        )
    )

    def apply(v: State) -> None:
        half = ((v[j].astype(np.uint64) + v[k]) >> np.uint64(1)).astype(np.uint32)
        v[i] = _saturated(v[j], v[k]) + half

    return Step(form, apply)


def _signed(chance: random.Random, _: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    form = chance.choice(
        (
            f"int z = int({p}) >> 3; {to} = uint(z / 7 + int({q}) % 5);",
            f"int2 z = int2({p}, {q}); z = int2(z.x >> 3, z.y) ; {to} = as_type<uint>(z.x / 7 + z.y % 5);",
            f"long z = long(int({p})) >> 3, w = int({q}); {to} = uint(int(z / 7) + int(w % 5));",
            f"const int z = as_type<int>({p}); const auto w = int({q}); {to} = uint((z >> 3) / 7) + uint(w - w / 5 * 5);",
        )
    )

    def apply(v: State) -> None:
        z = v[j].view(np.int32).astype(np.int64) >> 3
        w = v[k].view(np.int32).astype(np.int64)
        v[i] = (np.fix(z / 7).astype(np.int64) + np.fmod(w, 5)).astype(np.uint32)

    return Step(form, apply)


def _specialised(chance: random.Random, name: str) -> Step:
    (to, i), (p, j), (q, k) = pick(chance)
    index = 100 * int("".join(c for c in name.split("_")[0] if c.isdigit())) + int(
        name.split("_")[1]
    )
    form, before = chance.choice(
        (
            (
                f"if ({name}_on) {to} = {p}; else {to} = {p} * {name}_n + {q};",
                f"constant bool {name}_x [[function_constant({index})]];\nconstant bool {name}_on = is_function_constant_defined({name}_x) ? {name}_x : false;\nconstant uint {name}_n = {name}_on ? 1 : 11;\n",
            ),
            (
                f"{to} = {p} * {name}_n + {q};",
                f"constant int {name}_x [[function_constant({index})]];\nconstant bool {name}_has = is_function_constant_defined({name}_x);\nconstant int {name}_n = {name}_has ? {name}_x : 11;\n",
            ),
        )
    )  # fmt: skip

    def apply(v: State) -> None:
        v[i] = v[j] * word(11) + v[k]

    return Step(form, apply, before)


def _packed_memory(chance: random.Random, name: str) -> Step:
    """Read an input through pointers to other types; it is `x` as the kernel was given it."""
    (to, i), _, (q, k) = pick(chance)
    form, before = chance.choice(
        (
            (f"{to} = ((const device packed_uint3*)x)[l].z + {q};", ""),
            (f"packed_uint3 z = reinterpret_cast<const device packed_uint3*>(x)[l]; {to} = z[2] + {q};", ""),
            (f"uint3 z = *(const device packed_uint3*)(x + l * 3); {to} = z.b + {q};", ""),
            (
                f"const device {name}_R& z = ((const device {name}_R*)x)[l]; {to} = z.at() + {q};",
                f"struct {name}_R {{ uchar4 m; packed_uint2 o; uint at() const device {{ return o.y; }} }};\n",
            ),
            (
                f"{name}_R z = ((const device {name}_R*)x)[l]; {to} = (uint(z.o[3]) << 16 | z.o[2]) + {q};",
                f"struct {name}_R {{ uint m; ushort o[4]; }};\n",
            ),
        )
    )  # fmt: skip

    def apply(v: State) -> None:
        v[i] = v[4][2::3][: v[k].size] + v[k]

    return Step(form, apply, before)


TYPES: tuple[Style, ...] = (
    *(_class_template, _meta, _small_floats, _small_floats, _bits, _bits, _fallthrough),
    *(_pointers, _integers, _signed, _specialised, _packed_memory),
)
