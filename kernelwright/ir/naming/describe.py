"""Graphs in words: a listing for terminals and prompts, and a name to ask the store by."""

from collections.abc import Mapping, Sequence

from kernelwright.ir.graph import Attribute, Constant, Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.naming.idioms import Idiom, idioms
from kernelwright.ir.naming.idioms.reader import Parameter
from kernelwright.ir.naming.table import with_tables
from kernelwright.ir.ops import Kind, op_named

_SHOWN_ELEMENTS = 1
_PLUMBING = frozenset({"cast", "arange"})


def describe(graph: Graph) -> str:
    """List a graph line by line, with the idioms in it.

    Example:
        inputs  x: f16[8,64], weight: f16[64]
        %0 = cast(x, dtype=f32)  f32[8,64]
        …
        return %9
        idioms  rms_norm(x, weight) axes=(1,) epsilon=1e-05
    """
    names = value_names(graph)
    lines = ["inputs  " + _signature(graph)]
    lines += [
        f"{names[value]}: {constant.type} (constant)"
        for value, constant in graph.constants
        if constant.type.size > _SHOWN_ELEMENTS
    ]
    lines += [_line(graph, node, names) for node in graph.nodes]
    lines.append("return " + ", ".join(names[v] for v in graph.outputs))
    lines += ["idiom   " + idiom_text(idiom, names) for idiom in idioms(graph)]
    return "\n".join(lines)


def operation(graph: Graph) -> str:
    """Name what a canonical graph computes, such as `softmax` or `add+rms_norm`.

    Idioms stand for their nodes, rope for its angles too, and other ops for themselves, in graph
    order, views and casts left out, repetitions in a row once; at most six names, then `…`. A graph
    of elementwise ops only is `elementwise:` and its ops.
    """
    words: dict[int, str] = {}
    covered: set[int] = set()
    for idiom in idioms(graph):
        words[max(idiom.indices)] = idiom.name
        covered.update(idiom.indices)
        if idiom.name == "rope":
            covered.update(with_tables(graph, idiom, covered))
    for index, node in enumerate(graph.nodes):
        kind = op_named(node.op).kind
        if index not in covered and kind is not Kind.VIEW and node.op not in _PLUMBING:
            words[index] = node.op
    named = [words[i] for i in sorted(words)]
    distinct = [w for i, w in enumerate(named) if i == 0 or named[i - 1] != w]
    shown = [*distinct[:6], *(["…"] if len(distinct) > 6 else [])]
    kinds = {op_named(node.op).kind for node in graph.nodes}
    if kinds <= {Kind.ELEMENTWISE, Kind.VIEW} and len(shown) > 1:
        return "elementwise:" + "*".join(shown)
    return "+".join(shown) or "views"


def value_names(graph: Graph, mark: str = "%") -> dict[ValueId, str]:
    """Return a short name for every value: inputs by theirs, scalars by their number.

    What nodes make is numbered behind a mark.
    """
    names = dict(zip(graph.inputs, graph.input_names(), strict=True))
    for place, (value, constant) in enumerate(graph.constants):
        names[value] = _number(constant) if constant.type.size == 1 else f"c{place}"
    made = (v for node in graph.nodes for v in node.outputs)
    names.update((v, f"{mark}{place}") for place, v in enumerate(made))
    return names


def _signature(graph: Graph) -> str:
    pairs = zip(graph.input_names(), graph.input_types, strict=True)
    return ", ".join(f"{name}: {type_}" for name, type_ in pairs)


def _line(graph: Graph, node: Node, names: dict[ValueId, str]) -> str:
    made = ", ".join(names[v] for v in node.outputs)
    arguments = [names[v] for v in node.inputs]
    arguments += [f"{key}={attribute_text(value)}" for key, value in node.attributes]
    types = ", ".join(str(graph.types[v]) for v in node.outputs)
    return f"{made} = {node.op}({', '.join(arguments)})  {types}"


def idiom_text(idiom: Idiom, names: Mapping[ValueId, str]) -> str:
    """Write an idiom as a call of its operands and parameters, and the value that it makes."""
    operands = ", ".join(f"{role}={names[v]}" for role, v in idiom.operands)
    parameters = " ".join(f"{key}={_parameter(value)}" for key, value in idiom.parameters)
    return f"{idiom.name}({operands}) {parameters}".rstrip() + f" -> {names[idiom.output]}"


def _parameter(value: Parameter) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace(" ", "")


def _number(constant: Constant) -> str:
    value = constant.array.reshape(-1)[0]
    if constant.type.dtype.is_float:
        return f"{float(value):.6g}"
    return str(value.item())


def attribute_text(value: Attribute, comma: str = ",") -> str:
    """Write what an op's attribute holds: a dtype in short, several values in brackets."""
    if isinstance(value, Dtype):
        return value.short
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"({comma.join(attribute_text(item, comma) for item in value)})"
    return str(value)
