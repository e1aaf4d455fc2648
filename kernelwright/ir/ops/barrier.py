"""Ops that nothing is fused with: transforms, factorisations, kernels of others."""

import numpy as np

from kernelwright.ir.ops.behaviour import Behaviour, Domain
from kernelwright.ir.ops.op import Array, Call, Kind, MlxCall, Op, Shape


def _as_recorded(call: Call) -> tuple[Shape, ...]:
    return tuple(t.shape for t in call.outputs)


def _view(call: Call, x: Array) -> Array:
    source, target = call.inputs[0].dtype, call.dtype("dtype")
    # Bits are meaningful only in the dtype that MLX stores, so the value is rounded to it.
    return x.astype(source.numpy).view(target.numpy)


def _divmod(call: Call, x: Array, y: Array) -> tuple[Array, Array]:
    quotient = np.floor_divide(x, y)
    return quotient, np.remainder(x, y)


def _fft(call: Call, x: Array) -> Array:
    axes = call.integers("axes")
    sizes = tuple(call.outputs[0].shape[axis] for axis in axes)
    if not call.flag("real"):
        return np.fft.ifftn(x, axes=axes) if call.flag("inverse") else np.fft.fftn(x, axes=axes)
    if call.flag("inverse"):
        return np.fft.irfftn(x, s=sizes, axes=axes)
    return np.fft.rfftn(x, axes=axes)


def _inverse(call: Call, x: Array) -> Array:
    if call.flag("triangular"):
        x = np.triu(x) if call.flag("upper") else np.tril(x)
    return np.linalg.inv(x)


def _cholesky(call: Call, x: Array) -> Array:
    return np.linalg.cholesky(x, upper=call.flag("upper"))


def _opaque(name: str, *attributes: str, mlx: MlxCall | None = None, primitive: str = "") -> Op:
    return Op(name, Kind.BARRIER, None, attributes, _as_recorded, mlx, primitive)


def _two_like_first(call: Call) -> tuple[Shape, ...]:
    return (call.inputs[0].shape,) * 2


_UPPER = (("upper", "upper"),)

OPS: tuple[Op, ...] = (
    Op("view", Kind.BARRIER, _view, ("dtype",), _as_recorded),
    Op(
        "divmod",
        Kind.BARRIER,
        _divmod,
        shapes=_two_like_first,
        mlx=MlxCall("divmod"),
        primitive="DivMod",
        behaviour=Behaviour(is_continuous=False, domains=(Domain.ANY, Domain.DIVISOR)),
    ),
    Op(
        "fft",
        Kind.BARRIER,
        _fft,
        ("axes", "inverse", "real", "odd_length"),
        _as_recorded,
        primitive="FFT",
    ),
    Op("inverse", Kind.BARRIER, _inverse, ("triangular", "upper")),
    Op(
        "cholesky",
        Kind.BARRIER,
        _cholesky,
        attributes=("upper",),
        mlx=MlxCall("linalg.cholesky", _UPPER),
    ),
    _opaque("hadamard", "scale", mlx=MlxCall("hadamard_transform", (("scale", "scale"),))),
    _opaque("number_of_elements", "axes", "inverted", "dtype"),
    _opaque("qr", mlx=MlxCall("linalg.qr"), primitive="QRF"),
    _opaque(
        "svd",
        "compute_uv",
        mlx=MlxCall("linalg.svd", (("compute_uv", "compute_uv"),)),
        primitive="SVD",
    ),
    _opaque("eig", "compute_eigenvectors"),
    _opaque("eigh", "triangle", "compute_eigenvectors"),
    _opaque("quantize", "group_size", "bits", "mode", "dequantize"),
    # MLX's tracer drops a kernel call's `init_value`, so it cannot be replayed faithfully.
    _opaque("custom_kernel"),
)
