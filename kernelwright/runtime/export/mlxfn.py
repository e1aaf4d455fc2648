"""A kernel as a file that any MLX imports: `mx.import_function` in Python, C++ and Swift."""

import json
from collections.abc import Sequence

import mlx.core as mx

from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.kernel import BoundProgram, Launch
from kernelwright.metal.render import mlx_kernel, template_arguments
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.verification import verification_text
from kernelwright.scratch import ScratchFolder

_LIMITS = (
    "Other shapes and dtypes: the function takes the ones above and no others.",
    "Machines without a GPU: the file has no fallback; MLX without a GPU refuses to import it.",
    "Gradients: a Metal kernel has none of its own.",
    "Other versions of MLX: its authors call the file format experimental.",
)


class MlxfnFormat:
    """An .mlxfn file and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Trace the launches with MLX's own exporter; no GPU is needed for that."""
        (chosen,) = selections
        bound = chosen.detail.program.bind(chosen.detail.graph.input_types)
        return (
            ExportedFile(name=f"{chosen.name}.mlxfn", data=_exported(bound, _metadata(chosen))),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen, _LIMITS)),
        )

    def use(self, name: str) -> str:
        """Return an import and a call."""
        return f'mx.import_function("{name}.mlxfn")'


def _metadata(chosen: Selection) -> str:
    return json.dumps(
        {
            "name": chosen.name,
            "program": chosen.detail.candidate.program_id,
            "is_verified": chosen.is_verified,
            **({} if chosen.is_verified else {"warning": WARNING}),
        }
    )


def _exported(bound: BoundProgram, metadata: str) -> bytes:
    """Trace a program's launches and return MLX's file of them."""

    def call(*arrays: mx.array) -> list[mx.array]:
        values = dict(zip((t.name for t in bound.program.inputs), arrays, strict=True))
        for launch in bound.launches:
            values |= _launched(bound, launch, values)
        return [values[tensor.name] for tensor in bound.program.outputs]

    arrays = [_zeros(type_) for type_ in bound.inputs]
    with ScratchFolder() as folder:
        path = folder / "function.mlxfn"
        mx.export_function(str(path), call, *arrays, metadata=metadata)
        return path.read_bytes()


def _launched(
    bound: BoundProgram, launch: Launch, values: dict[str, mx.array]
) -> dict[str, mx.array]:
    outputs = [bound.type_of(name) for name in launch.kernel.outputs]
    made = mlx_kernel(launch.kernel)(
        inputs=[values[name] for name in launch.kernel.inputs],
        template=template_arguments(launch),
        grid=launch.grid,
        threadgroup=launch.threadgroup,
        output_shapes=[type_.shape for type_ in outputs],
        output_dtypes=[mlx_dtype(type_.dtype) for type_ in outputs],
        stream=mx.gpu,
        init_value=launch.kernel.init_value,
    )
    return dict(zip(launch.kernel.outputs, made, strict=True))


def _zeros(type_: TensorType) -> mx.array:
    return mx.zeros(type_.shape, mlx_dtype(type_.dtype), stream=mx.cpu)
