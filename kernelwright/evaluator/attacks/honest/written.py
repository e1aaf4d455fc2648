"""Hand-written kernels in unusual but legal styles, read from `source/*.toml`."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.honest.kernel import HonestKernel
from kernelwright.evaluator.attacks.honest.source_file import (
    LaunchSource,
    Sizes,
    SourceFile,
    Specialization,
    source_files,
    specializations,
)
from kernelwright.evaluator.attacks.honest.tasks import TASKS
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.extent import evaluate
from kernelwright.metal.kernel import Extent, Kernel, Program, TemplateValue, Tensor

_ARRAY = re.compile(r"^(\w+): (\w+)\[([^\]]*)\]$")


@cache
def written_kernels() -> tuple[HonestKernel, ...]:
    """Specialise every hand-written kernel to its dtypes and sizes."""
    return tuple(
        _specialized(name, file, chosen)
        for name, file in source_files().items()
        for chosen in specializations(file)
    )


def _specialized(name: str, file: SourceFile, chosen: Specialization) -> HonestKernel:
    sizes = ",".join(f"{k}={v}" for k, v in chosen.sizes.items())
    form = "symbolic" if chosen.is_symbolic else "fixed"
    label = f"{name}: {chosen.kernel.style}, {chosen.dtype} {sizes} {form}"
    task = _task(file.task, file.inputs, chosen.dtype, tuple(chosen.sizes.items()))
    return HonestKernel(label, task, partial(_program, name, file, chosen))


@cache
def _task(
    name: str, inputs: tuple[str, ...], dtype: str, sizes: tuple[tuple[str, int], ...]
) -> Task:
    tensors = [_tensor(text, dtype, _bound(dict(sizes))) for text in inputs]
    arrays = [mx.zeros(_numbers(t), _mlx_dtype(t.dtype)) for t in tensors]
    with mx.stream(mx.cpu):
        return Task(canonicalize(capture(TASKS[name], *arrays)), name)


def _numbers(tensor: Tensor) -> list[int]:
    return [int(extent) for extent in tensor.shape]


def _mlx_dtype(dtype: Dtype) -> mx.Dtype:
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found


def _program(name: str, file: SourceFile, chosen: Specialization) -> Program:
    settle = _kept if chosen.is_symbolic else _bound(chosen.sizes)

    def tensors(texts: Sequence[str]) -> tuple[Tensor, ...]:
        return tuple(_tensor(text, chosen.dtype, settle) for text in texts)

    inputs, outputs = tensors(file.inputs), tensors(file.outputs)
    return Program(
        inputs=inputs,
        outputs=outputs,
        temporaries=tensors(chosen.kernel.temporaries),
        kernels=tuple(
            Kernel(
                name=f"{name}_{number}",
                inputs=launch.reads or tuple(t.name for t in inputs),
                outputs=launch.writes or tuple(t.name for t in outputs),
                source=launch.source,
                header=launch.header,
                template=_template(launch, chosen.dtype, settle),
                grid=_three(launch.grid, settle),
                threadgroup=_three(launch.threadgroup, settle),
                atomic_outputs=launch.atomic_outputs,
                init_value=launch.init_value,
            )
            for number, launch in enumerate(chosen.kernel.launch)
        ),
    )


def _template(
    launch: LaunchSource, dtype: str, settle: Callable[[Extent], Extent]
) -> dict[str, TemplateValue]:
    def value(given: bool | Extent) -> TemplateValue:
        if given == "T":
            return Dtype.parse(dtype)
        return given if isinstance(given, bool) else settle(given)

    return {name: value(given) for name, given in launch.template.items()}


def _three(
    extents: tuple[Extent, Extent, Extent], settle: Callable[[Extent], Extent]
) -> tuple[Extent, Extent, Extent]:
    x, y, z = map(settle, extents)
    return x, y, z


def _tensor(text: str, dtype: str, settle: Callable[[Extent], Extent]) -> Tensor:
    match = _ARRAY.match(text)
    if match is None:
        raise InputError(f"expected an array such as x: T[rows,cols], found {text!r}.")
    return Tensor(
        name=match[1],
        dtype=Dtype.parse(dtype if match[2] == "T" else match[2]),
        shape=tuple(map(settle, _extents(match[3]))),
    )


def _extents(text: str) -> Iterator[Extent]:
    for part in filter(None, text.split(",")):
        yield int(part) if part.isdigit() else part


def _kept(extent: Extent) -> Extent:
    return extent


def _bound(sizes: Sizes) -> Callable[[Extent], Extent]:
    return lambda extent: evaluate(extent, sizes)
