"""Every family of kernels in MLX's headers compiles unmodified, those for NAX aside.

Of those that other tests launch, more instances are compiled with --slow.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.metal.device.simulator.library import Library
from kernelwright.metal.device.simulator.unit import mlx_folders

LoadAll = Callable[..., Library]

GEMM = ["steel/gemm/gemm.h"]
QUANTIZED = [*GEMM, "quantized_utils.h"]
TILE = "32, 32, 16, 2, 2"

FAMILIES: dict[str, tuple[list[str], dict[str, str]]] = {
    "arange.h": ([], {"arange": "uint"}),
    "binary.h": (
        ["binary_ops.h"],
        dict.fromkeys(
            ("binary_ss", "binary_sv", "binary_vs", "binary_vv", "binary_sv2", "binary_vs2"),
            "half, half, Power",
        )
        | dict.fromkeys(
            ("binary_vv2", "binary_g_nd1", "binary_g_nd2", "binary_g_nd3", "binary_g"),
            "complex64_t, complex64_t, Multiply",
        ),
    ),
    "binary_two.h": (
        ["binary_ops.h"],
        {"binary_ss": "float, float, DivMod", "binary_g": "int, int, DivMod"},
    ),
    "copy.h": (
        [],
        dict.fromkeys(("copy_s", "copy_v", "copy_s2", "copy_v2"), "int64_t, bfloat16_t")
        | dict.fromkeys(("copy_g_nd1", "copy_g_nd2", "copy_g_nd3", "copy_g"), "half, complex64_t")
        | dict.fromkeys(("copy_gg_nd1", "copy_gg_nd2", "copy_gg_nd3", "copy_gg"), "bool, float")
        | dict.fromkeys(("copy_gg_dynamic_nd1", "copy_gg_dynamic"), "float, half"),
    ),
    "cross_entropy.h": ([], {"cross_entropy": "half", "cross_entropy_vjp": "bfloat16_t"}),
    "dot.h": ([], {"dot_product": "float, 4, 256, 8"}),
    "fft.h": (
        [],
        dict.fromkeys(("rader_fft", "bluestein_fft"), "256, float2, float2")
        | {"four_step_fft": "256, float2, float2, 0", "fft": "256, float, float2"},
    ),
    "fp_quantized.h": (
        QUANTIZED,
        dict.fromkeys(("fp_qmv_fast", "fp_qmv", "fp_qvm"), "bfloat16_t, 32, 4, false")
        | dict.fromkeys(("fp_gather_qmv_fast", "fp_gather_qmv", "fp_gather_qvm"), "half, 32, 8")
        | {
            "fp_qmm_t": "float, 32, 4, true, false",
            "fp_qmm_n": "half, 32, 8, false",
            "fp_quantize": "float, 32, 4, false",
            "fp_dequantize": "float, 16, 4, false",
        },
    ),
    "gated_delta_update.h": (
        [],
        {
            "gated_delta_fused_chunk": "half, 128, 128, 2, 4, 16",
            "gated_delta_seq": "float, 128, 128, 2, 4, 16",
        },
    ),
    "gated_delta_update_vjp.h": ([], {"gated_delta_vjp_seq": "float, 128, 128, 2, 4, 16"}),
    "gemv.h": (
        [],
        dict.fromkeys(("gemv_gather", "gemv_t_gather"), "bfloat16_t, 4, 1, 1, 32, 4, 4")
        | dict.fromkeys(("gemv_wide", "gemv_wide_gather"), "half, 2, 8"),
    ),
    "gemv_masked.h": (
        [],
        {
            "gemv_masked": "float, bool, bool, 2, 2, 4, 8, 4, 4, false",
            "gemv_t_masked": "half, half, nomask_t, 2, 2, 4, 8, 4, 4, false",
        },
    ),
    "hadamard.h": (["steel/defines.h"], {"hadamard_n": "half, 512, 16, 8"}),
    "indexing/gather_front.h": (["indexing/indexing.h"], {"gather_front": "half, uint, int, 2"}),
    "indexing/masked_scatter.h": ([], {"masked_assign_impl": "half, true"}),
    "indexing/scatter.h": (
        ["atomic.h", "reduction/ops.h"],
        {"slice_update_op_impl": "bfloat16_t, int, Sum<bfloat16_t>, true, false, false, 2, 3"},
    ),
    "indexing/scatter_axis.h": (
        ["atomic.h", "reduction/ops.h"],
        {"scatter_axis": "half, int, int, Sum<half>, true, true"},
    ),
    "quantized.h": (
        QUANTIZED,
        dict.fromkeys(("affine_qvm", "affine_qmv"), "bfloat16_t, 64, 6, true")
        | dict.fromkeys(("affine_gather_qmv", "affine_gather_qvm"), "half, 32, 5")
        | {
            "affine_qmv_quad": "half, 64, 2, 64, false",
            "affine_qvm_split_k": "float, 64, 4",
            "affine_gather_qmm_t": "bfloat16_t, 64, 8, true",
            "affine_dequantize": "half, 64, 3",
        },
    ),
    "reduce.h": (
        ["atomic.h", "reduction/ops.h"],
        {
            "col_reduce_longcolumn": "bool, bool, And<bool>, int, 2",
            "col_reduce_2pass": "half, half, Max<half>, int, 3, 32, 32",
            "init_reduce": "bfloat16_t, Min<bfloat16_t>",
            "row_reduce_small": "int64_t, int64_t, Prod<int64_t>, int, 5",
            "all_reduce": "complex64_t, complex64_t, Sum<complex64_t>",
        },
    ),
    "scan.h": ([], {"contiguous_scan": "int64_t, int64_t, CumProd<int64_t>, 2, true, true"}),
    "sdpa_blocked.h": ([], {"sdpa_blocked_scale_copy": "half", "sdpa_blocked_causal_mask": "half"}),
    "sdpa_vector.h": (
        [],
        {"sdpa_vector_2pass_1": "bfloat16_t, 128", "sdpa_vector_2pass_2": "half, 96"},
    ),
    "softmax.h": ([], {"softmax_looped": "bfloat16_t, float"}),
    "sort.h": (
        [],
        dict.fromkeys(
            ("mb_block_sort", "mb_block_partition", "mb_block_merge"), "half, uint, true, 128, 8"
        )
        | {"block_sort_nc": "bfloat16_t, bfloat16_t, false, 32, 4"},
    ),
    "steel/attn/kernels/steel_attention.h": (
        [],
        {"attention": "bfloat16_t, 32, 32, 80, 80, 4, 1, bool"},
    ),
    "steel/conv/kernels/steel_conv_3d.h": (
        [*GEMM, "steel/conv/conv.h"],
        {"implicit_gemm_conv_3d": f"half, {TILE}, true"},
    ),
    "steel/conv/kernels/steel_conv_general.h": (
        [*GEMM, "steel/conv/conv.h"],
        {"implicit_gemm_conv_2d_general": f"bfloat16_t, {TILE}"},
    ),
    "steel/gemm/kernels/steel_gemm_gather.h": (
        GEMM,
        {
            "gather_mm_rhs": f"half, {TILE}, false, true",
            "gather_mm": f"bfloat16_t, {TILE}, true, false",
        },
    ),
    "steel/gemm/kernels/steel_gemm_masked.h": (
        GEMM,
        {"block_masked_gemm": f"half, bool, nomask_t, {TILE}, false, true, true, false"},
    ),
    "steel/gemm/kernels/steel_gemm_segmented.h": (
        GEMM,
        {"segmented_mm": f"float, {TILE}, false, false"},
    ),
    "steel/gemm/kernels/steel_gemm_splitk.h": (
        GEMM,
        {
            "gemm_splitk": f"half, float, {TILE}, false, true, true, true",
            "gemm_splitk_accum": "float, bfloat16_t",
            "gemm_splitk_accum_axpby": "float, half",
        },
    ),
    "ternary.h": (
        ["ternary_ops.h"],
        {"ternary_v2": "bfloat16_t, Select, true, false", "ternary_g": "complex64_t, Select"},
    ),
    "unary.h": (
        ["unary_ops.h"],
        {"unary_v2": "complex64_t, complex64_t, Cosh", "unary_g": "half, half, Erf"},
    ),
}


LAUNCHED = frozenset(
    (
        *("arange.h", "binary.h", "copy.h", "fft.h", "gemv.h", "hadamard.h", "quantized.h"),
        *("reduce.h", "scan.h", "sdpa_vector.h", "softmax.h", "sort.h", "ternary.h", "unary.h"),
        *("indexing/scatter.h", "steel/attn/kernels/steel_attention.h"),
    )
)
"""What other modules compile and run (`test_mlx_kernels_*.py`)."""


@pytest.mark.parametrize("header", [header for header in FAMILIES if header not in LAUNCHED])
@pytest.mark.sampled(3)
def test_a_family_compiles(mlx_library: LoadAll, header: str) -> None:
    _compile(mlx_library, header)


@pytest.mark.slow
@pytest.mark.parametrize("header", sorted(LAUNCHED))
def test_further_instances_of_a_family_compile(mlx_library: LoadAll, header: str) -> None:
    _compile(mlx_library, header)


def test_what_is_launched_stands_in_other_modules() -> None:
    texts = [
        path.read_text()
        for path in Path(__file__).parent.glob("test_mlx_kernels_*.py")
        if path != Path(__file__)
    ]
    assert {h for h in LAUNCHED if not any(f'"{h}"' in text for text in texts)} == set()


def _compile(mlx_library: LoadAll, header: str) -> None:
    before, kernels = FAMILIES[header]
    library = mlx_library([*before, header], {k: (k, a) for k, a in kernels.items()})
    assert set(library.kernels) >= set(kernels)


def test_every_header_with_a_kernel_is_tried() -> None:
    elsewhere = {
        "logsumexp.h",
        "searchsorted.h",
        "indexing/gather_axis.h",
        "steel/conv/kernels/steel_conv.h",
        "steel/gemm/kernels/steel_gemm_fused.h",
        "reduction/reduce_all.h",
        "reduction/reduce_init.h",
        "reduction/reduce_col.h",
        "reduction/reduce_row.h",
    }
    folder = mlx_folders()[0] / "mlx/backend/metal/kernels"
    with_kernels = {
        Path(path).relative_to(folder).as_posix()
        for path in folder.rglob("*.h")
        if "nax" not in path.name and "[[kernel" in path.read_text().replace("template [[", "")
    }
    assert with_kernels - {"defines.h"} <= set(FAMILIES) | elsewhere
