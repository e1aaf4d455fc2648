"""Prints the ops that no kernel computes, which stay with MLX: products, transforms, scatters."""

from collections.abc import Callable, Mapping, Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.ir.ops import Call
from kernelwright.ir.ops.indexing import COMBINING
from kernelwright.runtime.export.literal_code import dtype_source, literal

Renderer = Callable[[Call, Sequence[str]], str]


def _addmm(call: Call, x: Sequence[str]) -> str:
    left, right, bias = x
    scales = {name: call.number(name) for name in ("alpha", "beta")}
    others = "".join(f", {name}={value!r}" for name, value in scales.items() if value != 1)
    return f"mx.addmm({bias}, {left}, {right}{others})"


def _is_sorted(call: Call) -> str:
    return ", sorted_indices=True" if call.flag("left_sorted") or call.flag("right_sorted") else ""


def _block_masked(call: Call, x: Sequence[str]) -> str:
    left, right, *masks = x
    # MLX lists the output's mask first, then those of both operands.
    out = masks[0] if len(masks) % 2 else "None"
    sides = ", ".join(masks[-2:] if len(masks) >= 2 else ("None", "None"))
    return f"mx.block_masked_mm({left}, {right}, {call.integer('block_size')}, {out}, {sides})"


def _convolution(call: Call, x: Sequence[str]) -> str:
    low, high = list(call.integers("padding_low")), list(call.integers("padding_high"))
    options = {
        "stride": (call.integers("strides"), 1),
        "kernel_dilation": (call.integers("kernel_dilation"), 1),
        "input_dilation": (call.integers("input_dilation"), 1),
    }
    said = [
        f"{name}={list(value)}" for name, (value, plain) in options.items() if {*value} != {plain}
    ]
    if any(low + high):
        said.append(f"padding={low}" if low == high else f"padding=({low}, {high})")
    if call.integer("groups") != 1:
        said.append(f"groups={call.integer('groups')}")
    if call.flag("flip"):
        said.append("flip=True")
    return f"mx.conv_general({', '.join([*x, *said])})"


def _scatter(call: Call, x: Sequence[str]) -> str:
    how = call.text("reduce")
    return (
        f"_scatter({x[0]}, {call.integers('axes')!r}, {COMBINING.get(how, 'set')!r}, "
        f"{', '.join(x[1:])})"
    )


def _fft(call: Call, x: Sequence[str]) -> str:
    axes, inverse = call.integers("axes"), call.flag("inverse")
    if not call.flag("real"):
        return f"mx.fft.{'ifftn' if inverse else 'fftn'}({x[0]}, axes={list(axes)})"
    if not inverse:
        return f"mx.fft.rfftn({x[0]}, axes={list(axes)})"
    sizes = [call.outputs[0].shape[axis] for axis in axes]
    return f"mx.fft.irfftn({x[0]}, s={sizes}, axes={list(axes)})"


def _inverse(call: Call, x: Sequence[str]) -> str:
    if call.flag("triangular"):
        return f"mx.linalg.tri_inv({x[0]}, {call.flag('upper')}, stream=mx.cpu)"
    return f"mx.linalg.inv({x[0]}, stream=mx.cpu)"


def _eigen(whole: str, values: str, *attributes: str) -> Renderer:
    def render(call: Call, x: Sequence[str]) -> str:
        name = whole if call.flag("compute_eigenvectors") else values
        said = [literal(call.attributes[a]) for a in attributes]
        return f"mx.linalg.{name}({', '.join([x[0], *said])}, stream=mx.cpu)"

    return render


def _quantize(call: Call, x: Sequence[str]) -> str:
    if call.flag("dequantize"):
        raise UnsupportedError(
            "a dequantize call that was traced on a GPU cannot be printed; capture it on the CPU."
        )
    sizes = f"group_size={call.integer('group_size')}, bits={call.integer('bits')}"
    return f"mx.quantize({x[0]}, {sizes}, mode={call.text('mode')!r})"


def _depends(call: Call, x: Sequence[str]) -> str:
    count = len(call.outputs)
    return f"mx.depends([{', '.join(x[:count])}], [{', '.join(x[count:])}])"


RENDERERS: Mapping[str, Renderer] = {
    "addmm": _addmm,
    "gather_mm": lambda call, x: f"mx.gather_mm({', '.join(x)}{_is_sorted(call)})",
    "block_masked_mm": _block_masked,
    "convolution": _convolution,
    "as_strided": lambda call, x: (
        f"mx.as_strided({x[0]}, {call.integers('shape')!r}, {call.integers('strides')!r}, "
        f"{call.integer('offset')})"
    ),
    "depends": _depends,
    "scatter": _scatter,
    "masked_scatter": lambda call, x: f"_masked_scatter({', '.join(x)})",
    "dynamic_slice": lambda call, x: (
        f"mx.slice({x[0]}, {x[1]}, {call.integers('axes')!r}, {call.integers('shape')!r})"
    ),
    "dynamic_slice_update": lambda call, x: (
        f"mx.slice_update({', '.join(x)}, {call.integers('axes')!r})"
    ),
    "search_sorted": lambda call, x: (
        f"mx.searchsorted({', '.join(x)}, {'right' if call.flag('right') else 'left'!r})"
    ),
    "view": lambda call, x: f"mx.view({x[0]}, {dtype_source(call.dtype('dtype'))})",
    "divmod": lambda call, x: f"mx.divmod({', '.join(x)})",
    "fft": _fft,
    "random_bits": lambda call, x: (
        f"_random_bits({x[0]}, {call.outputs[0].shape!r}, {dtype_source(call.outputs[0].dtype)})"
    ),
    # MLX factorises on the CPU alone.
    "inverse": _inverse,
    "cholesky": lambda call, x: f"mx.linalg.cholesky({x[0]}, {call.flag('upper')}, stream=mx.cpu)",
    "qr": lambda call, x: f"mx.linalg.qr({x[0]}, stream=mx.cpu)",
    "svd": lambda call, x: f"mx.linalg.svd({x[0]}, {call.flag('compute_uv')}, stream=mx.cpu)",
    "eig": _eigen("eig", "eigvals"),
    "eigh": _eigen("eigh", "eigvalsh", "triangle"),
    "hadamard": lambda call, x: f"mx.hadamard_transform({x[0]}, {call.number('scale')!r})",
    "quantize": _quantize,
}
