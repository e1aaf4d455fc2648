"""Graphs and tasks as the text that prompts show."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.agents.roles.reply.task_signature import Interface, identifiers
from kernelwright.agents.roles.text.judged_values import judged_sentences
from kernelwright.agents.roles.text.mlx_code import mlx_code
from kernelwright.agents.roles.text.prompt import render
from kernelwright.agents.session.tools.report import chip_of
from kernelwright.evaluator.speed.prediction import flops_of, perfect_time
from kernelwright.evaluator.speed.roofline import least_bytes_read
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.naming.describe import attribute_text, value_names
from kernelwright.ir.naming.idioms import idioms
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import ChipProfile, caveat_of
from kernelwright.plan.baseline import baselines
from kernelwright.plan.cost import DEFAULT_PROFILE, Profile, cost
from kernelwright.plan.mlx.fusion import compile_groups
from kernelwright.plan.partition import partition
from kernelwright.plan.traffic import node_traffic
from kernelwright.plural import counted

SMALL_INPUT = 8
"""Elements below which MLX places an input in `constant`:
https://github.com/ml-explore/mlx/blob/main/mlx/backend/common/metal_kernel.cpp."""
_MOST_NODES = 400
_LONGEST_TABLE = 14_000
"""Bytes of a graph that a prompt shows; the coder's `show` gives the rest."""
_MIB = 1 << 20


def device_text(device: DeviceInfo) -> str:
    """Say in a line what a device can do, and whether speed on it is measured or predicted."""
    chip = chip_of(device)
    if chip is None:
        return f"Device: {device.chip}, on which programs are timed."
    caveat = caveat_of([chip.name])
    ends = "on which programs are timed" if device.measures_time else (
        f"for which times are predicted from counted work{', by ' if caveat else ''}{caveat}"
    )  # fmt: skip
    return (
        f"Device: {chip.name}, {chip.cores} GPU cores, {chip.bandwidth_gb_s:g} GB/s from memory, "
        f"{chip.last_cache_bytes // _MIB} MiB of last-level cache, {chip.float_tflops:.1f} TFLOPS "
        f"in float, {chip.launch_us:g} us from one kernel to the next, {ends}. {_core_text(chip)}"
    )


def _core_text(chip: ChipProfile) -> str:
    """Say what one core holds and does, which decides how many threads hide its waiting."""
    core = chip.core
    return (
        f"A core holds {core.threads} threads of {core.registers // core.threads} registers and "
        f"{core.threadgroup_memory // 1024} KB of threadgroup memory; {core.saturating_threads} "
        f"threads keep it busy. A cycle does {core.float_operations // 2} float multiply-adds, "
        f"{core.matrix_multiply_adds} of simdgroup matrices, {core.special_operations} "
        f"exponentials or roots, {core.integer_operations} integer operations."
    )


def node_table(graph: Graph, mark: str = "%") -> str:
    """Write what a graph reads, then one numbered node a line, with the bytes that it moves.

    Inputs have the names that programs use, what nodes make has its number behind a mark.
    """
    names, outputs = _names_in(graph, mark), set(graph.outputs)
    lines = [f"{names[v]}: {graph.types[v]}, an input" for v in graph.inputs]
    lines += [
        f"{names[v]}: {constant.type}, a weight"
        for v, constant in graph.constants
        if constant.type.size > 1
    ]
    counts = node_traffic(graph)
    for index, node in enumerate(graph.nodes[:_MOST_NODES]):
        made = ", ".join(f"{names[v]} {graph.types[v]}" for v in node.outputs)
        read = ", ".join(names[v] for v in node.inputs)
        kind = op_named(node.op).kind
        is_free = kind is Kind.VIEW and not counts[index].launches
        note = "view" if is_free else f"{counts[index].nbytes} bytes"
        note += ", copies" if kind is Kind.VIEW and not is_free else ""
        note += ", stays" if kind is Kind.BARRIER else ""
        note += ", output" if outputs.intersection(node.outputs) else ""
        read += "".join(f", {key}={attribute_text(value, ', ')}" for key, value in node.attributes)
        lines.append(f"{index}: {made} = {node.op}({read})  {note}")
    kept = _within(lines, _LONGEST_TABLE)
    listed = min(len(graph.nodes), _MOST_NODES) - (len(lines) - len(kept))
    if listed < len(graph.nodes):
        kept.append(f"… and {len(graph.nodes) - listed} more, which stay")
    return "\n".join(kept)


def _names_in(graph: Graph, mark: str) -> dict[ValueId, str]:
    return value_names(replace(graph, names=identifiers(graph.input_names())), mark)


def launches_text(graph: Graph, device: DeviceInfo) -> str:
    """Say what MLX launches for a graph, each way, and how long that is predicted.

    It is counted as it is written or in the standard form, whichever is cheaper.
    """
    by_mlx = baselines(graph)
    told = {"Plain MLX": by_mlx.eager, "mx.compile": by_mlx.compiled}
    if by_mlx.fast != by_mlx.compiled:
        told["mx.compile with mx.fast's kernels"] = by_mlx.fast
    chip, flops = chip_of(device), flops_of(graph)
    return "; ".join(
        f"{who} launches {counted(traffic.launches, 'kernel')}, {traffic.bytes_read} bytes read, "
        f"{traffic.bytes_written} written"
        + (f", at least {perfect_time(traffic, flops, chip).microseconds:.3g} us" if chip else "")
        for who, traffic in told.items()
    )


def mlx_page(graph: Graph, device: DeviceInfo) -> str:
    """Say what MLX launches, and of which nodes of the graph `mx.compile` makes one kernel."""
    fused = compiled_table(graph) or "no two nodes"
    # As `graph_page` numbers them.
    table = node_table(graph, "v")
    return (
        f"{launches_text(graph, device)}. It makes one kernel of each of these groups:\n"
        f"{fused}\nwhere nodes are numbered from 0 in this order:\n{table}"
    )[:_LONGEST_TABLE]


def graph_page(task: Task) -> str:
    """Write what a task computes as code of MLX, by the names that its programs use."""
    return mlx_code(replace(task.graph, names=Interface(task).input_names))


def _within(lines: Sequence[str], most_bytes: int) -> list[str]:
    """Return the first lines, as many as fit."""
    kept: list[str] = []
    for line in lines:
        most_bytes -= len(line.encode()) + 1
        if most_bytes < 0:
            break
        kept.append(line)
    return kept


def _room(share: float) -> int:
    """Return the bytes of a graph at a share of what is long; other things are cut before it."""
    return int(_LONGEST_TABLE * min(1.0, 2 * share))


def cut_to(table: str, share: float) -> str:
    """Return a table's first lines, as many as a share of its usual length holds."""
    lines = table.splitlines()
    kept = _within(lines, _room(share))
    more = len(lines) - len(kept)
    return "\n".join([*kept, f"… and {more} more"] if more else kept)


def pattern_table(graph: Graph) -> str:
    """Write the known computations in a graph, one a line."""
    return "\n".join(f"{i.name}: nodes {_listed(i.indices)}" for i in idioms(graph))


def compiled_table(graph: Graph) -> str:
    """Write what `mx.compile` makes one kernel of, one group a line."""
    groups = [group for group in compile_groups(graph) if len(group) > 1]
    return "\n".join(f"nodes {_listed(group)}" for group in groups)


def greedy_table(graph: Graph, device: DeviceInfo) -> str:
    """Write what a greedy cut would fuse and gain on a device, one region a line.

    Launches and gains are those of the region's task, as the coder is told them.
    """
    profile = _profile_of(chip_of(device))
    lines = []
    for region in partition(graph, profile=profile):
        task = region.extract()
        estimate = cost(Region(task, tuple(range(len(task.nodes)))), profile)
        lines.append(
            f"nodes {_listed(region.indices)}: for {estimate.eager.launches} launches of MLX and "
            f"{estimate.compiled.launches} of mx.compile, saves {estimate.benefit_us:.3g} us "
            f"against MLX, {estimate.benefit_over_compile_us:.3g} us against mx.compile, costs "
            f"{estimate.penalty_us:.3g} us on chip"
        )
    return "\n".join(lines)


def renamed_inputs(region: Region) -> str:
    """Say which inputs of a region have other names in its task than in the table of its graph."""
    names = _names_in(region.graph, "%")
    own = identifiers(region.extract().input_names())
    pairs = zip((names[v] for v in region.inputs), own, strict=True)
    return ", ".join(f"{there} is {here}" for there, here in pairs if there != here)


def _profile_of(chip: ChipProfile | None) -> Profile:
    """Return what a byte, a launch and an operation are worth on a chip, or on an average one."""
    if chip is None:
        return DEFAULT_PROFILE
    return replace(
        DEFAULT_PROFILE,
        bytes_per_us=chip.bandwidth_gb_s * chip.bandwidth_efficiency * 1e3,
        launch_us=chip.launch_us,
        flops_per_us=chip.float_tflops * 1e6,
    )


def task_text(task: Task, device: DeviceInfo, share: float = 1.0) -> str:
    """Render what a coder and a repairer are told about a task; the same for every call.

    A long graph is cut, to a `share` of the usual length.
    """
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
            "dimensions": (*interface.dimensions, *interface.derived_dimensions),
            "graph": _cut(graph_page(task), share),
            "launches": launches_text(graph, device),
            "judged": judged_sentences(graph),
            "is_exact": not any(type_.dtype.is_float for type_ in graph.types),
            "bytes_read": sum(least_bytes_read(graph)),
            "bytes_held": sum(type_.nbytes for type_ in graph.input_types),
            "bytes_written": sum(t.nbytes for t in graph.output_types),
            "device": device_text(device),
        },
    )


def _held_to(dtype: Dtype, tolerance: Tolerance) -> str:
    if not dtype.is_float:
        return "exact"
    return f"within {tolerance.relative:g} relative and {tolerance.absolute:g} absolute"


def _cut(text: str, share: float) -> str:
    lines = text.splitlines()
    kept = _within(lines, _room(share))
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
