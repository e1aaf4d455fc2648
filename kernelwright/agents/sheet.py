"""Graphs and tasks as the text that prompts show."""

from kernelwright.agents.interface import Interface
from kernelwright.agents.prompt import render
from kernelwright.evaluator.task import Task
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Attribute, Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.device.base import DeviceInfo

SMALL_INPUT = 8
"""Elements below which MLX places an input in `constant`:
https://github.com/ml-explore/mlx/blob/main/mlx/backend/common/metal_kernel.cpp."""
_FUSABLE = frozenset({Kind.ELEMENTWISE, Kind.REDUCTION, Kind.VIEW})
_MOST_NODES = 400


def graph_text(graph: Graph, names: tuple[str, ...] = (), *, marks_barriers: bool = False) -> str:
    """Write a graph line by line: values by name, one node a line with its number."""
    called = _value_names(graph, names or graph.input_names())
    lines = [f"{called[v]}: {graph.types[v]}" for v in graph.inputs]
    lines += [
        f"{called[value]}: {constant.type} (a constant array)"
        for value, constant in graph.constants
        if constant.type.size > 1
    ]
    for index, node in enumerate(graph.nodes[:_MOST_NODES]):
        outputs = ", ".join(f"{called[v]}: {graph.types[v]}" for v in node.outputs)
        arguments = ", ".join([*(called[v] for v in node.inputs), *_attributes(node)])
        stays = marks_barriers and op_named(node.op).kind not in _FUSABLE
        lines.append(f"[{index}] {outputs} = {node.op}({arguments}){'  stays' if stays else ''}")
    if len(graph.nodes) > _MOST_NODES:
        lines.append(f"… and {len(graph.nodes) - _MOST_NODES} more nodes")
    lines.append(f"return {', '.join(called[v] for v in graph.outputs)}")
    return "\n".join(lines)


def cost_text(graph: Graph) -> str:
    """Write what each node moves when MLX runs it alone, views and scalars left out."""
    lines = []
    for index, node in enumerate(graph.nodes[:_MOST_NODES]):
        if op_named(node.op).kind is Kind.VIEW:
            continue
        read = sum(graph.types[v].nbytes for v in dict.fromkeys(node.inputs))
        written = sum(graph.types[v].nbytes for v in node.outputs)
        lines.append(f"[{index}] {node.op}: {read} read, {written} written")
    return "\n".join(lines)


def task_text(task: Task, device: DeviceInfo) -> str:
    """Render what a coder and a repairer are told about a task; the same for every call."""
    interface = Interface(task)
    graph = task.graph
    tolerances = task.output_tolerances
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
                    "tolerance": f"{t.relative:g} relative and {t.absolute:g} absolute",
                }
                for name, type_, t in zip(
                    interface.output_names, graph.output_types, tolerances, strict=True
                )
            ],
            "dimensions": interface.dimensions,
            "graph": graph_text(graph, interface.input_names),
            "bytes_read": sum(t.nbytes for t in graph.input_types),
            "bytes_written": sum(t.nbytes for t in graph.output_types),
            "device": device,
        },
    )


def _value_names(graph: Graph, names: tuple[str, ...]) -> dict[ValueId, str]:
    called = {value: f"v{value}" for value in range(len(graph.types))}
    called |= {v: _number(graph, v) for v, c in graph.constants if c.type.size == 1}
    called |= dict(zip(graph.inputs, names, strict=True))
    return called


def _number(graph: Graph, value: ValueId) -> str:
    scalar: TensorType = graph.types[value]
    number = graph.constant_of[value].array.reshape(()).item()
    return f"{scalar.dtype.short}({number!r})"


def _attributes(node: Node) -> list[str]:
    return [f"{name}={_written(value)}" for name, value in node.attributes]


def _written(value: Attribute) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))})"
    return value.short if isinstance(value, Dtype) else str(value)
