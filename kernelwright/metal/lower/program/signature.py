"""Names of a kernel's arrays: those that people gave, made safe for MSL and for MLX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.ir.graph import Graph, TensorType, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.kernel import Tensor
from kernelwright.metal.lower.library import FUNCTIONS

_WORDS = """
    alignas auto bool break case char class const constant constexpr continue decltype default
    delete device do double else enum explicit export extern false float for friend goto half if
    inline int kernel long namespace new operator private protected public register return short
    signed sizeof static struct switch template this thread threadgroup throw true try typedef
    typename uchar uint ulong union unsigned ushort using vertex fragment virtual void volatile
    while metal bfloat bfloat16_t float16_t vec array atomic in out NAN INFINITY
    abs all any ceil clamp cos erf exp exp2 fabs floor fma fmod isinf isnan log max min pow rint
    round rsqrt select sign sin sqrt tan tanh
    row column columns plane index start first i j k tile lane simdgroup step base offset outer
    run strip other
    larger smaller exceeds undercuts same load_run load_shared packed_eight sigmoid quick_sigmoid
    token digit_of packed_five wide_of wide_product float_of
    four_bit_float eight_bit_float power_of_two
    own_vector turn ranks_above ranks_below simd_smallest
    row_2 row_3 row_4 plane_2 plane_3 plane_4
    logaddexp floor_quotient floor_remainder floor_modulus integer_power
    sign_of log1p_of expm1_of erf_of erfinv_of simd_maximum simd_minimum
"""
_METAL = """
    HUGE_VALF M_PI_F absdiff acos acosh addsat alignof and and_eq as_type asin asinh atan atan2
    atanh atomic_bool atomic_compare_exchange_weak_explicit atomic_exchange_explicit
    atomic_fetch_add_explicit atomic_fetch_and_explicit atomic_fetch_max_explicit
    atomic_fetch_min_explicit atomic_fetch_or_explicit atomic_fetch_sub_explicit
    atomic_fetch_xor_explicit atomic_float atomic_int atomic_load_explicit atomic_store_explicit
    atomic_uint bfloat2 bfloat3 bfloat4 bitand bitor bool2 bool3 bool4 char2 char3 char4 clz
    compl complex64_t const_cast copysign cosh cospi cross ctz
    dispatch_quadgroups_per_threadgroup dispatch_simdgroups_per_threadgroup
    dispatch_threads_per_threadgroup distance dot dynamic_cast exp10 extract_bits fdim float2
    float2x2 float2x3 float2x4 float3 float3x2 float3x3 float3x4 float4 float4x2 float4x3
    float4x4 fmax fmin fract frexp grid_origin grid_size hadd half2 half2x2 half2x3 half2x4
    half3 half3x2 half3x3 half3x4 half4 half4x2 half4x3 half4x4 ilogb insert_bits int16_t int2
    int3 int32_t int4 int64_t int8_t isfinite isnormal ldexp length log10 log2 long2 long3 long4
    mad24 madhi madsat matrix max3 median3 mem_flags min3 mix mlx modf mul24 mulhi mutable
    nextafter noexcept normalize not not_eq or or_eq popcount powr ptrdiff_t quad_broadcast
    quad_shuffle quad_shuffle_xor quad_sum quadgroup_index_in_threadgroup
    quadgroups_per_threadgroup reinterpret_cast reverse_bits rhadd rotate saturate short2 short3
    short4 signbit simd_active_threads_mask simd_all simd_and simd_any simd_ballot
    simd_broadcast simd_broadcast_first simd_is_first simd_max simd_min simd_or
    simd_prefix_exclusive_sum simd_prefix_inclusive_sum simd_product simd_shuffle
    simd_shuffle_down simd_shuffle_up simd_shuffle_xor simd_sum simd_xor simdgroup_barrier
    simdgroup_bfloat8x8 simdgroup_float8x8 simdgroup_half8x8 simdgroup_index_in_threadgroup
    simdgroup_load simdgroup_matrix simdgroup_multiply simdgroup_multiply_accumulate
    simdgroup_store simdgroups_per_threadgroup sincos sinh sinpi size_t smoothstep static_assert
    static_cast subsat tanpi thread_execution_width thread_index_in_quadgroup
    thread_index_in_simdgroup thread_index_in_threadgroup thread_position_in_grid
    thread_position_in_threadgroup threadgroup_barrier threadgroup_imageblock
    threadgroup_position_in_grid threadgroups_per_grid threads_per_grid threads_per_simdgroup
    threads_per_threadgroup trunc uchar2 uchar3 uchar4 uint16_t uint2 uint3 uint32_t uint4
    uint64_t uint8_t ulong2 ulong3 ulong4 ushort2 ushort3 ushort4 xor xor_eq
"""
RESERVED = frozenset((*_WORDS.split(), *_METAL.split(), *FUNCTIONS))
"""Words that an array cannot be called: MSL's, and those that the kernels use themselves."""

_LETTERS = re.compile(r"[^A-Za-z0-9_]")
_PREFIXES = ("metal", "mlx", "kw_")
"""How names of Metal's, MLX's and the simulator's own headers begin."""
_LONGEST_CAPITALS = 2
"""Capitals alone, such as `INT_MAX`, are macros of Metal, unless they are as short as `Q`."""
# MLX looks for these after an input's name in the source and then changes the signature.
_TRAPS = re.compile(r"_(shape|strides|ndim)")
_LONGEST = 40
"""Characters of an array's name; a `Kernel` takes 64, and numbers and endings come behind it."""


@dataclass(frozen=True)
class Signature:
    """The arrays of a kernel, in order, with their names."""

    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    arrays: dict[ValueId, str]
    """Input values by name."""
    spelled: dict[str, str]
    """Every array as people read it, such as `f16[rows,512]`."""
    shared: frozenset[str] = frozenset()
    """Arrays that stand in threadgroup memory."""

    @classmethod
    def of(cls, graph: Graph, reserved: frozenset[str] = RESERVED) -> "Signature":
        """Name the arrays of a graph, none of them like a `reserved` word."""
        names = _distinct([_safe(name, reserved) for name in graph.input_names()])
        count = len(graph.outputs)
        outputs = ["out"] if count == 1 else [f"out{i}" for i in range(count)]
        outputs = _distinct(outputs, taken=names)
        return cls(
            tuple(zip(names, graph.input_types, strict=True)),
            tuple(zip(outputs, graph.output_types, strict=True)),
            dict(zip(graph.inputs, names, strict=True)),
            dict(
                zip(
                    (*names, *outputs),
                    map(str, (*graph.input_types, *graph.output_types)),
                    strict=True,
                )
            ),
        )

    def spelling(self, tensors: Sequence[Tensor]) -> "Signature":
        """Return the signature with shapes as a program gives them."""
        spelled = {
            t.name: f"{t.dtype.short}[{','.join(map(str, t.shape))}]".replace(" ", "")
            for t in tensors
        }
        return replace(self, spelled=spelled)

    @property
    def scalars(self) -> frozenset[str]:
        """Inputs without dimensions."""
        return frozenset(name for name, type_ in self.inputs if not type_.shape)

    @property
    def taken(self) -> frozenset[str]:
        """Every name that a variable of the kernel cannot have."""
        own = {name for name, _ in (*self.inputs, *self.outputs)}
        # What stands beside a shared array reads others of the program's.
        return RESERVED | own | (self.spelled.keys() if self.shared else frozenset())


def _safe(name: str, reserved: frozenset[str]) -> str:
    word = _TRAPS.sub(r"_of_\1", _LETTERS.sub("_", name))[:_LONGEST]
    if not word.strip("_"):
        return "x"
    if word[0] in "_0123456789":
        word = f"x{word}"
    elif word.lower().startswith(_PREFIXES):
        word = f"x_{word}"
    is_macro = len(word) > _LONGEST_CAPITALS and word.isupper()
    return f"{word}_in" if word in reserved or is_macro or word.startswith("out") else word


def _distinct(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    chosen: list[str] = []
    for name in names:
        number, free = 1, name
        while free in chosen or free in taken:
            number += 1
            free = f"{name}_{number}"
        chosen.append(free)
    return chosen


def kernel_name(graph: Graph) -> str:
    """Name a kernel after its operations."""
    ops = dict.fromkeys(node.op for node in graph.nodes if op_named(node.op).kind is not Kind.VIEW)
    return "_".join(ops)[:48].rstrip("_") or "copy"
