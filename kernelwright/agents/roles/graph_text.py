"""Graphs and tasks as the text that prompts show."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.agents.roles.judged_values import judged_sentences
from kernelwright.agents.roles.prompt import render
from kernelwright.agents.roles.task_signature import Interface
from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir.graph import Attribute, Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.naming.describe import describe, value_names
from kernelwright.ir.naming.idioms import idioms
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import find_profile
from kernelwright.plan.cost import cost
from kernelwright.plan.partition import partition
from kernelwright.plan.traffic import compile_groups, compiled_traffic, eager_traffic

SMALL_INPUT = 8
"""Elements below which MLX places an input in `constant`:
https://github.com/ml-explore/mlx/blob/main/mlx/backend/common/metal_kernel.cpp."""
_MOST_NODES = 400
_LONGEST_TABLE = 14_000
"""Bytes of a graph that a prompt shows; the coder's `show` gives the rest."""
_MIB = 1 << 20


def device_text(device: DeviceInfo) -> str:
    """Say in a line what a device can do, and whether speed on it is measured or predicted."""
    # Where nothing can be timed, the evaluator predicts for the chip that its configuration names.
    default_chip = EvaluatorConfig().chip_for(device)
    try:
        chip = find_profile(device.bare_chip if device.measures_time else default_chip)
    except InputError:
        return f"Device: {device.chip}, on which programs are timed."
    ends = "on which programs are timed" if device.measures_time else (
        "for which times are predicted from counted work; nothing is timed"
    )  # fmt: skip
    return (
        f"Device: {chip.name}, {chip.cores} GPU cores, {chip.bandwidth_gb_s:g} GB/s from memory, "
        f"{chip.last_cache_bytes // _MIB} MiB of last-level cache, {chip.float_tflops:.1f} TFLOPS "
        f"in float, {chip.launch_us:g} us from one kernel to the next, {ends}."
    )


def node_table(graph: Graph) -> str:
    """Write what a graph reads, then one numbered node a line, with the bytes that it moves."""
    names, outputs = value_names(graph), set(graph.outputs)
    lines = [f"{names[v]}: {graph.types[v]}, an input" for v in graph.inputs]
    lines += [
        f"{names[v]}: {constant.type}, a weight"
        for v, constant in graph.constants
        if constant.type.size > 1
    ]
    for index, node in enumerate(graph.nodes[:_MOST_NODES]):
        made = ", ".join(f"{names[v]} {graph.types[v]}" for v in node.outputs)
        read = ", ".join(names[v] for v in node.inputs)
        kind = op_named(node.op).kind
        moved = sum(graph.types[v].nbytes for v in {*node.inputs, *node.outputs})
        is_free = kind is Kind.VIEW and not eager_traffic(graph, (index,)).launches
        note = "view" if is_free else f"{moved} bytes"
        note += ", copies" if kind is Kind.VIEW and not is_free else ""
        note += ", stays" if kind is Kind.BARRIER else ""
        note += ", output" if outputs.intersection(node.outputs) else ""
        read += "".join(f", {key}={_shown(value)}" for key, value in node.attributes)
        lines.append(f"{index}: {made} = {node.op}({read})  {note}")
    kept = _within(lines, _LONGEST_TABLE)
    listed = min(len(graph.nodes), _MOST_NODES) - (len(lines) - len(kept))
    if listed < len(graph.nodes):
        kept.append(f"… and {len(graph.nodes) - listed} more, which stay")
    return "\n".join(kept)


def mlx_text(graph: Graph) -> str:
    """Say what MLX launches for a graph, eagerly and compiled, with the bytes that it moves."""
    eager, compiled = eager_traffic(graph), compiled_traffic(graph)
    fused = compiled_table(graph) or "no two nodes"
    return (
        f"Plain MLX launches {eager.launches} kernels, which read {eager.bytes_read} and write "
        f"{eager.bytes_written} bytes. mx.compile launches {compiled.launches}, which read "
        f"{compiled.bytes_read} and write {compiled.bytes_written} bytes; it makes one kernel of "
        f"each of these groups:\n{fused}"
    )[:_LONGEST_TABLE]


def _within(lines: Sequence[str], most_bytes: int) -> list[str]:
    """Return the first lines, as many as fit."""
    kept: list[str] = []
    for line in lines:
        most_bytes -= len(line.encode()) + 1
        if most_bytes < 0:
            break
        kept.append(line)
    return kept


def _shown(value: Attribute) -> str:
    if isinstance(value, Dtype):
        return value.short
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"({', '.join(_shown(item) for item in value)})"
    return str(value)


def pattern_table(graph: Graph) -> str:
    """Write the known computations in a graph, one a line."""
    return "\n".join(f"{i.name}: nodes {_listed(i.indices)}" for i in idioms(graph))


def compiled_table(graph: Graph) -> str:
    """Write what `mx.compile` makes one kernel of, one group a line."""
    groups = [group for group in compile_groups(graph) if len(group) > 1]
    return "\n".join(f"nodes {_listed(group)}" for group in groups)


def greedy_table(graph: Graph) -> str:
    """Write what a greedy cut would fuse and gain, one region a line."""
    lines = []
    for region in partition(graph):
        estimate = cost(region)
        lines.append(
            f"nodes {_listed(region.indices)}: saves {estimate.benefit_us:.3g} us against MLX, "
            f"{estimate.benefit_over_compile_us:.3g} us against mx.compile, costs "
            f"{estimate.penalty_us:.3g} us on chip"
        )
    return "\n".join(lines)


def task_text(task: Task, device: DeviceInfo) -> str:
    """Render what a coder and a repairer are told about a task; the same for every call."""
    interface = Interface(task)
    graph = replace(task.graph, names=interface.input_names)
    return render(
        "task",
        {
            "task": task,
            "inputs": [
                {"name": name, "type": type_, "is_small": type_.size < SMALL_INPUT}
                for name, type_ in zip(interface.input_names, graph.input_types, strict=True)
            ],
            "outputs": [
                {
                    "name": name,
                    "type": type_,
                    "tolerance": _held_to(type_.dtype, t),
                }
                for name, type_, t in zip(
                    interface.output_names, graph.output_types, task.output_tolerances, strict=True
                )
            ],
            "dimensions": interface.dimensions,
            "graph": _cut(describe(graph)),
            "judged": judged_sentences(graph),
            "bytes_read": sum(t.nbytes for t in graph.input_types),
            "bytes_written": sum(t.nbytes for t in graph.output_types),
            "device": device_text(device),
        },
    )


def _held_to(dtype: Dtype, tolerance: Tolerance) -> str:
    if not dtype.is_float:
        return "exact"
    return f"within {tolerance.relative:g} relative and {tolerance.absolute:g} absolute"


def _cut(text: str) -> str:
    lines = text.splitlines()
    kept = _within(lines, _LONGEST_TABLE)
    if len(kept) < len(lines):
        kept.append(f"… and {len(lines) - len(kept)} more, from line {len(kept) + 1} of `graph` on")
    return "\n".join(kept)


def _listed(indices: tuple[int, ...]) -> str:
    """Write ascending numbers with runs as ranges."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)
