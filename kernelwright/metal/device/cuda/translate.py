"""One launch of a Metal kernel as one CUDA source, specialised to its shapes."""

import math
from dataclasses import dataclass
from importlib.resources import files

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.cuda.rewrite import (
    GatheredBody,
    gather_body,
    mentions,
    rewrite_body,
    rewrite_header,
    shadowed,
    swizzle_members,
)
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch

_INCLUDES = ("scalar", "vector", "launch", "math", "simdgroup", "atomic", "matrix")
_SYMBOL = "kw_kernel"
_SHARED_GRAIN = 32
_POOLED_BYTES = 8
"""Arrays up to this size lie in blocks of it (MLX's mlx/backend/cuda/allocator.cpp), so that every
second one would keep a kernel from learning how all others are aligned."""
"""Bytes at whose multiples arrays begin that are allocated at launch."""
_METAL_TYPE = {
    Dtype.BOOL: "bool",
    Dtype.UINT8: "uint8_t",
    Dtype.UINT16: "uint16_t",
    Dtype.UINT32: "uint32_t",
    Dtype.UINT64: "uint64_t",
    Dtype.INT8: "int8_t",
    Dtype.INT16: "int16_t",
    Dtype.INT32: "int32_t",
    Dtype.INT64: "int64_t",
    Dtype.FLOAT16: "half",
    Dtype.BFLOAT16: "bfloat",
    Dtype.FLOAT32: "float",
}
_SHARED = (
    "extern __shared__ __align__(32) unsigned char kw_shared[];",
    "constexpr uint kw_end_0 = 0;",
)
_UINT3 = (
    "dispatch_threads_per_threadgroup",
    "grid_origin",
    "grid_size",
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
)
_UINT = (
    "dispatch_quadgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "thread_execution_width",
    "thread_index_in_quadgroup",
    "thread_index_in_simdgroup",
    "thread_index_in_threadgroup",
    "threads_per_simdgroup",
)


@dataclass(frozen=True)
class Translation:
    """A CUDA source with one `extern "C"` kernel, and how to launch it."""

    text: str
    symbol: str
    blocks: int
    threads: int
    """Per block; blocks and their grid are one-dimensional."""
    shared_bytes: int = 0
    """Allocated for each block at launch, beside its `__shared__` arrays."""

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid in threads, as `mx.fast.precompiled_cuda_kernel` wants it."""
        return self.blocks * self.threads, 1, 1


def headers() -> dict[str, str]:
    """Return the device-code headers by the names that translations include."""
    folder = files("kernelwright.metal.device.cuda") / "include"
    return {f"kw/{name}.cuh": (folder / f"{name}.cuh").read_text() for name in _INCLUDES}


def translate(
    program: BoundProgram, launch: Launch, *, shared_bytes: int = 0, resident: int = 1
) -> Translation:
    """Translate one launch; the kernel's parameters are its inputs, then its outputs.

    Args:
        program: What the launch is part of.
        launch: The launch.
        shared_bytes: What the body's threadgroup arrays take, where that is more than CUDA has
            for `__shared__` arrays: they are allocated at launch then.
        resident: How many threadgroups shall find registers on a core at once.
    """
    kernel = launch.kernel
    group = tuple(min(t, g) for t, g in zip(launch.threadgroup, launch.grid, strict=True))
    blocks = math.prod(-(-g // t) for g, t in zip(launch.grid, group, strict=True))
    inputs = [(name, program.type_of(name)) for name in kernel.inputs]
    outputs = [(name, program.type_of(name)) for name in kernel.outputs]
    attributes = [(a, t) for t, names in (("uint3", _UINT3), ("uint", _UINT)) for a in names]
    used = [(a, t) for a, t in attributes if mentions(kernel.source, a)]
    members = swizzle_members(kernel.header) | swizzle_members(kernel.source)
    gathered = gather_body(kernel.source, members) if shared_bytes else None
    if gathered:
        shared_bytes += _SHARED_GRAIN * max(gathered.arrays - 1, 0)
    parts = [
        "#include <cuda_bf16.h>",
        "#include <cuda_fp16.h>",
        *(f"#define KW_GRID_{axis} {g}u" for axis, g in zip("XYZ", launch.grid, strict=True)),
        *(f"#define KW_GROUP_{axis} {t}u" for axis, t in zip("XYZ", group, strict=True)),
        *(["#define KW_FAST_MATH"] if kernel.math_mode == "fast" else []),
        *(f'#include "kw/{name}.cuh"' for name in _INCLUDES),
        "namespace metal {",
        "namespace candidate {",
        *(shadowed(name) for name in sorted(members)),
        '#line 1 "header"',
        rewrite_header(kernel.header, members),
        *_body(launch, inputs, outputs, used, gathered or rewrite_body(kernel.source, members)),
        "}  // namespace candidate",
        '#line 1 "entry"',
        *_entry(launch, inputs, outputs, used, resident),
        "}  // namespace metal",
    ]
    return Translation(
        text="\n".join(parts) + "\n",
        symbol=_SYMBOL,
        blocks=blocks,
        threads=math.prod(group),
        shared_bytes=shared_bytes,
    )


def _body(
    launch: Launch,
    inputs: list[tuple[str, TensorType]],
    outputs: list[tuple[str, TensorType]],
    used: list[tuple[str, str]],
    source: GatheredBody | str,
) -> list[str]:
    parameters = [
        *(f"const {_type(t)}{_input_kind(t)} {name}" for name, t in inputs),
        *(f"{_output_type(launch, t)}* __restrict__ {name}" for name, t in outputs),
        *(f"{type_} {name}" for name, type_ in used),
    ]
    written = launch.kernel.source
    return [
        '#line 1 "signature"',
        *_template(launch),
        f"KW_FUNC void body({', '.join(parameters)}) {{",
        *(line for name, t in inputs for line in _shape(name, t, written)),
        *(_SHARED if isinstance(source, GatheredBody) else ()),
        '#line 1 "source"',
        source.text if isinstance(source, GatheredBody) else source,
        "}",
    ]


def _template(launch: Launch) -> list[str]:
    """Template arguments as names at namespace scope: the launch fixes each of them."""
    return [
        f"using {name} = {_METAL_TYPE[value]};"
        if isinstance(value, Dtype)
        else f"constexpr {'bool' if isinstance(value, bool) else 'int'} {name} = {int(value)};"
        for name, value in launch.template
    ]


def _shape(name: str, type_: TensorType, source: str) -> list[str]:
    """Shape, strides and rank of an input, where MLX would pass them; inputs are contiguous."""
    if not type_.shape:
        return []
    strides = [1]
    for size in reversed(type_.shape[1:]):
        strides.insert(0, strides[0] * size)
    rank = len(type_.shape)
    values = {
        f"{name}_shape": f"constexpr int {name}_shape[{rank}] = {_braced(type_.shape)};",
        f"{name}_strides": f"constexpr int64_t {name}_strides[{rank}] = {_braced(strides)};",
        f"{name}_ndim": f"constexpr int {name}_ndim = {rank};",
    }
    return [line for word, line in values.items() if mentions(source, word)]


def _entry(
    launch: Launch,
    inputs: list[tuple[str, TensorType]],
    outputs: list[tuple[str, TensorType]],
    used: list[tuple[str, str]],
    resident: int,
) -> list[str]:
    parameters = [
        *(f"const {_type(t)}* __restrict__ {name}" for name, t in inputs),
        *(f"{_output_type(launch, t)}* __restrict__ {name}" for name, t in outputs),
    ]
    arrays = [name for name, t in (*inputs, *outputs) if t.shape and t.nbytes > _POOLED_BYTES]

    def call(spelling: str) -> str:
        spelled = {name: spelling.format(name) for name in arrays}
        arguments = [
            *(spelled.get(name, name) if t.shape else f"*{name}" for name, t in inputs),
            *(spelled.get(name, name) for name, _ in outputs),
            *(f"kw_{name}()" for name, _ in used),
        ]
        return f"  candidate::body({', '.join(arguments)});"

    bounds = f"__launch_bounds__(kw_full_threads{f', {resident}' if resident > 1 else ''})"
    calls = [call("{}")]
    if arrays and _has_packed_access(launch.kernel):
        are_aligned = " && ".join(f"kw_is_aligned({name})" for name in arrays)
        calls = [f"  if ({are_aligned})", f"  {call('kw_aligned({})')}", "  else", f"  {calls[0]}"]
    return [
        f'extern "C" __global__ void {bounds} {_SYMBOL}({", ".join(parameters)}) {{',
        "  if (kw_is_outside()) return;",
        *calls,
        "}",
    ]


def _has_packed_access(kernel: Kernel) -> bool:
    """Say whether a kernel asks for neighbours at once, so that alignment makes a difference."""
    return "packed_" in kernel.source or "packed_" in kernel.header


def _type(type_: TensorType) -> str:
    return _METAL_TYPE[type_.dtype]


def _input_kind(type_: TensorType) -> str:
    return "* __restrict__" if type_.shape else "&"


def _output_type(launch: Launch, type_: TensorType) -> str:
    return f"atomic<{_type(type_)}>" if launch.kernel.atomic_outputs else _type(type_)


def _braced(values: tuple[int, ...] | list[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
