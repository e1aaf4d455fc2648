"""Names of the Metal Shading Language that a candidate may use and must not redefine.

Source: the Metal Shading Language Specification, version 4, and `mx.fast.metal_kernel`
(`mlx/backend/common/metal_kernel.cpp`) for the attributes that MLX adds by itself.
"""

import re

from kernelwright.printable import INVISIBLE


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VECTORS = _words("bool char uchar short ushort int uint long ulong half float bfloat")
_SCALARS = _words(
    "bool char uchar short ushort int uint long ulong half float bfloat size_t ptrdiff_t int8_t "
    "uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t bfloat16_t float16_t complex64_t "
    "void auto double unsigned signed"
)
TYPES = (
    _SCALARS
    | {f"{s}{n}" for s in _VECTORS for n in (2, 3, 4)}
    | {f"{s}{r}x{c}" for s in ("half", "float") for r in (2, 3, 4) for c in (2, 3, 4)}
    | {"vec", "matrix", "array", "atomic", "atomic_int", "atomic_uint", "atomic_bool",
       "atomic_float", "simdgroup_matrix", "simdgroup_float8x8", "simdgroup_half8x8",
       "simdgroup_bfloat8x8"}
)  # fmt: skip
KEYWORDS = _words(
    "alignas alignof as_type break case class const constant constexpr const_cast continue "
    "decltype default delete device do dynamic_cast else enum explicit export false for friend if "
    "inline kernel mutable namespace new noexcept operator private protected public "
    "reinterpret_cast return sizeof static static_assert static_cast struct switch template this "
    "thread threadgroup threadgroup_imageblock true try typedef typename union using virtual "
    "volatile while metal mlx mem_flags and or not xor bitand bitor compl and_eq or_eq xor_eq "
    "not_eq"
)
ATTRIBUTES = _words(
    "dispatch_threads_per_threadgroup grid_origin grid_size thread_position_in_grid "
    "thread_position_in_threadgroup threadgroup_position_in_grid threadgroups_per_grid "
    "threads_per_grid threads_per_threadgroup dispatch_quadgroups_per_threadgroup "
    "dispatch_simdgroups_per_threadgroup quadgroup_index_in_threadgroup "
    "quadgroups_per_threadgroup simdgroup_index_in_threadgroup simdgroups_per_threadgroup "
    "thread_execution_width thread_index_in_quadgroup thread_index_in_simdgroup "
    "thread_index_in_threadgroup threads_per_simdgroup"
)
BUILTINS = _words(
    "abs absdiff acos acosh addsat all any as_type asin asinh atan atan2 atanh "
    "atomic_compare_exchange_weak_explicit atomic_exchange_explicit atomic_fetch_add_explicit "
    "atomic_fetch_and_explicit atomic_fetch_max_explicit atomic_fetch_min_explicit "
    "atomic_fetch_or_explicit atomic_fetch_sub_explicit atomic_fetch_xor_explicit "
    "atomic_load_explicit atomic_store_explicit ceil clamp clz copysign cos cosh cospi cross ctz "
    "distance dot exp exp10 exp2 extract_bits fabs fdim floor fma fmax fmin fmod fract frexp hadd "
    "ilogb insert_bits isfinite isinf isnan isnormal ldexp length log log10 log2 mad24 madhi "
    "madsat max max3 median3 min min3 mix modf mul24 mulhi nextafter normalize popcount pow powr "
    "quad_broadcast quad_shuffle quad_shuffle_xor quad_sum reverse_bits rhadd rint rotate round "
    "rsqrt saturate select sign signbit simd_active_threads_mask simd_all simd_and simd_any "
    "simd_ballot simd_broadcast simd_broadcast_first simd_is_first simd_max simd_min simd_or "
    "simd_prefix_exclusive_sum simd_prefix_inclusive_sum simd_product simd_shuffle "
    "simd_shuffle_down simd_shuffle_up simd_shuffle_xor simd_sum simd_xor simdgroup_barrier "
    "simdgroup_load simdgroup_multiply simdgroup_multiply_accumulate simdgroup_store sin sincos "
    "sinh sinpi smoothstep sqrt step subsat tan tanh tanpi threadgroup_barrier trunc"
)
"""Metal has no erf, erfinv or expm1: a candidate may bring its own. `log1p` is MLX's."""
RESERVED = TYPES | KEYWORDS | ATTRIBUTES | BUILTINS | {"INFINITY", "NAN", "M_PI_F", "HUGE_VALF"}

_HOST_WORDS = _words(
    "alloca atexit calloc clock64 dlopen dlsym environ errno execve fopen fork getenv gettimeofday "
    "longjmp malloc mmap mprotect nanosleep pthread_create putenv realloc setenv setjmp sigaction "
    "sprintf syscall unsetenv usleep"
)
_CUDA_WORDS = _words("threadIdx blockIdx blockDim gridDim warpSize")
FORBIDDEN_WORDS = {
    **dict.fromkeys(_HOST_WORDS, "a function of the host"),
    **dict.fromkeys(_CUDA_WORDS, "another GPU's names"),
    **dict.fromkeys(
        ("instantiate_kernel", "instantiate_default_limit", "instantiate_float_limit"),
        "a second entry point",
    ),
    "SYCL_LANGUAGE_VERSION": "the compiler's own state",
    "thread_local": "a variable that outlives its launch",
    "typeid": "run-time types",
    "asm": "inline assembly",
    "extern": "a foreign declaration",
    "goto": "a jump",
    "vertex": "a second entry point",
    "fragment": "a second entry point",
    "kernel": "a second entry point",
    "host_name": "a second entry point",
    "import": "a module",
    "module": "a module",
    "printf": "output",
    "os_log": "output",
    "visible_function_table": "a call through a table",
    "intersection_function_table": "a call through a table",
}
"""Words with no honest use in a kernel's body or header, with what they bring in."""
ALLOWED_UNDERSCORED = frozenset(
    {"__restrict", "__restrict__", "__METAL_VERSION__", "__METAL__", "__METAL_MACOS__",
     "__VA_ARGS__", "__VA_OPT__"}
)  # fmt: skip
ALLOWED_INCLUDES = _words(
    "metal_stdlib metal_array metal_atomic metal_common metal_compute metal_config metal_geometric "
    "metal_integer metal_limits metal_math metal_matrix metal_numeric metal_pack metal_quadgroup "
    "metal_relational metal_simdgroup metal_simdgroup_matrix metal_type_traits metal_types "
    "metal_uniform simd/simd.h"
)
ALLOWED_ATTRIBUTES = frozenset(
    {"unroll", "likely", "unlikely", "maybe_unused", "fallthrough", "nodiscard", "loop"}
)
HINTS = _words("always_inline noinline unused aligned packed unroll")
"""Attributes of `__attribute__((…))` and `[[gnu::…]]`, with or without underscores around them."""
ALLOWED_DIRECTIVES = _words(
    "define undef if ifdef ifndef else elif endif include pragma error warning"
)
DIRECTIVES_WITH_STRINGS = frozenset({"include", "pragma", "error", "warning"})
ALLOWED_PRAGMAS = (
    *("unroll", "nounroll", "once", "clang loop", "clang fp contract", "METAL fp"),
    *("STDC FP_CONTRACT", "mark"),
)
METAL_VERSIONS = (310, 320, 400)
"""`__METAL_VERSION__` on macOS 14, 15 and 26, the systems that MLX runs on."""
_LIMITS = _words(
    "MAX MIN DIG EPSILON MANT_DIG MAX_10_EXP MAX_EXP MIN_10_EXP MIN_EXP RADIX TRUE_MIN"
)
_NUMBERS = _words("E LOG2E LOG10E LN2 LN10 PI PI_2 PI_4 1_PI 2_PI 2_SQRTPI SQRT2 SQRT1_2")
PUBLIC_MACROS = (
    {f"{t}_{limit}" for t in ("FLT", "HALF", "BFLOAT") for limit in _LIMITS}
    | {f"{t}_{end}" for t in ("CHAR", "SCHAR", "SHRT", "INT", "LONG") for end in ("MAX", "MIN")}
    | {f"M_{number}_{suffix}" for number in _NUMBERS for suffix in "FH"}
    | _words(
        "INFINITY NAN MAXFLOAT MAXHALF HUGE_VALF HUGE_VALH UCHAR_MAX USHRT_MAX UINT_MAX ULONG_MAX "
        "CHAR_BIT FLT_DECIMAL_DIG FP_ILOGB0 FP_ILOGBNAN METAL_FUNC MTL_CONST"
    )
)
"""Metal's documented macros, and those that MLX puts before every kernel; all defined."""
UNPRINTABLE = re.compile(f"[\x00-\x08\x0e-\x1f{INVISIBLE}]")
"""What no text may hold: it would read as another than it is, or steer a terminal."""


def is_internal(word: str) -> bool:
    """Say whether a name is one that C++ leaves to compilers, or one of the simulator's own."""
    reserved = word.startswith("_") and word[1:2].isupper()
    return reserved or word.startswith("__") or word.lower().startswith("kw_")
