"""A laboratory of MLX's on a GPU: the candidate as it is served, beside what MLX does itself."""

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.evaluator.speed.baseline import Function, baselines_of
from kernelwright.evaluator.speed.measuring import SetUp
from kernelwright.evaluator.speed.mlx_benchmark import MlxLaboratory
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.array import to_mlx
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Device, Executable
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.diagnostic import LaunchError


class NoBaselineError(Exception):
    """MLX cannot compute the task on this backend."""


def mlx_laboratory(device: Device, executable: Executable, request: SetUp) -> MlxLaboratory:
    """Set up for one program beside MLX's baselines.

    Raises:
        NoBaselineError: MLX computes the task in no way here.
        LaunchError: the candidate does not run as it is timed.
        DeviceError: the device does not measure time.
    """
    if not isinstance(executable, MlxExecutable):
        raise DeviceError(f"the {device.info.name} device measures no time.")
    _use_gpu()
    slots = request.inputs
    example = [to_mlx(array) for array in slots[0]]
    # As people use it: recorded once, like the compiled baseline.
    padding = RunOptions().padding_bytes
    candidate: Function = mx.compile(
        lambda *arrays: executable.graph(arrays, padding_bytes=padding)
    )
    try:
        # A program that is served was loaded, too: its launches cost the host less.
        executable.load()
        mx.eval(candidate(*example))
    except (RuntimeError, ValueError) as e:
        raise LaunchError(f"the kernel did not run under mx.compile: {e}") from e
    laboratory = MlxLaboratory(
        device=device,
        candidate=candidate,
        baselines=_that_run(baselines_of(request.graph), example),
        make_inputs=lambda slot: [to_mlx(a) for a in slots[slot % len(slots)]],
        plan=request.plan,
        input_bytes=sum(t.nbytes for t in request.graph.input_types),
        output_bytes=sum(t.nbytes for t in request.graph.output_types),
        buffers=executable.buffers(padding),
        seed=request.seed,
    )
    laboratory.make_ready()
    return laboratory


def run_baselines(graph: Graph, names: Sequence[str]) -> None:
    """Run on zeros, once, what MLX has for a graph under some names.

    Raises:
        DeviceError: nothing of it can be computed here.
    """
    _use_gpu()
    wanted = {name: run for name, run in baselines_of(graph).items() if name in names}
    if not wanted:
        return
    types = graph.input_types
    try:
        _that_run(wanted, [to_mlx(np.zeros(t.shape, t.dtype.numpy)) for t in types])
    except NoBaselineError as e:
        raise DeviceError(f"MLX cannot compute this here: {e}") from e


def _use_gpu() -> None:
    if mx.metal.is_available() or mx.cuda.is_available():
        mx.set_default_device(mx.gpu)


def _that_run(
    baselines: Mapping[str, Function], example: Sequence[mx.array]
) -> dict[str, Function]:
    """Keep the baselines that this backend has; MLX does not offer every op on every GPU."""
    kept, reasons = {}, []
    for name, function in baselines.items():
        try:
            mx.eval(function(*example))
            kept[name] = function
        except (RuntimeError, ValueError) as e:
            reasons.append(f"{name}: {e}")
    if not kept:
        raise NoBaselineError("; ".join(reasons)[:500])
    return kept
