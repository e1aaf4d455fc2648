"""The bare Metal text as MLX generates it, with its launch and its program as JSON."""

import json
from collections.abc import Sequence

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import BoundProgram, Launch
from kernelwright.metal.render import Rendered, render
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.verification import verification_text

_LIMITS = (
    "Other shapes: launch.json is for the shapes above; program.json has the arithmetic.",
    "Use outside MLX: `mlx/backend/metal/kernels/utils.h` belongs above the text, as in MLX.",
)


class MetalFormat:
    """A .metal file for each launch, launch.json, program.json and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Render every launch at the shapes that were verified."""
        (chosen,) = selections
        bound = chosen.detail.program.bind(chosen.detail.graph.input_types)
        rendered = [render(launch, bound) for launch in bound.launches]
        names = _file_names(chosen.name, len(rendered))
        notice = "" if chosen.is_verified else f"// {WARNING}\n"
        launches = {
            "is_verified": chosen.is_verified,
            "launches": [
                _launch(bound, launch, text, file)
                for launch, text, file in zip(bound.launches, rendered, names, strict=True)
            ],
        }
        return (
            *(
                ExportedFile(name=file, text=notice + text.text)
                for file, text in zip(names, rendered, strict=True)
            ),
            ExportedFile(name="launch.json", text=json.dumps(launches, indent=2) + "\n"),
            ExportedFile(
                name="program.json", text=chosen.detail.program.model_dump_json(indent=2) + "\n"
            ),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen, _LIMITS)),
        )

    def use(self, name: str) -> str:
        """Name the file that says how to launch the text."""
        return "launch.json lists buffers, grid and threadgroup"


def _file_names(name: str, count: int) -> list[str]:
    if count == 1:
        return [f"{name}.metal"]
    return [f"{name}_{place + 1}.metal" for place in range(count)]


def _launch(bound: BoundProgram, launch: Launch, text: Rendered, file: str) -> dict[str, object]:
    kernel = launch.kernel
    return {
        "file": file,
        "function": text.name,
        "buffers": [
            {
                "index": buffer.parameter.index,
                "name": buffer.parameter.name,
                "array": buffer.array,
                "holds": buffer.role,
                "is_output": buffer.array in kernel.outputs,
                "dtype": bound.type_of(buffer.array).dtype.value,
                "shape": bound.type_of(buffer.array).shape,
            }
            for buffer in text.buffers
        ],
        "grid_threads": launch.grid,
        "threadgroup": launch.threadgroup,
        "template": {n: v.value if isinstance(v, Dtype) else v for n, v in launch.template},
        "math_mode": kernel.math_mode,
        "ensure_row_contiguous": kernel.ensure_row_contiguous,
        "atomic_outputs": kernel.atomic_outputs,
        "init_value": kernel.init_value,
    }
