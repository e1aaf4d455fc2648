"""Prints a graph as the MLX code that a person would write for it."""

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId, nest
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.passes.attention_steps import expand_attention
from kernelwright.runtime.export.attention_code import is_one_function
from kernelwright.runtime.export.literal_code import (
    UNARY,
    Expression,
    constant_source,
    dtype_source,
    literal,
    number_source,
)
from kernelwright.runtime.export.op_code import RENDERERS, atom
from kernelwright.runtime.export.size_code import SizeNames

LAUNCH = "launch"
"""An op that stands for the call of a function, named by its attribute `function`."""
_LONGEST_EXPRESSION = 64
_LONGEST_RESULT = 84
# Python's own precedences, ascending; equal ones group from the left, comparisons not at all.
_INFIX = {
    "less": ("<", 1),
    "less_equal": ("<=", 1),
    "greater": (">", 1),
    "greater_equal": (">=", 1),
    "not_equal": ("!=", 1),
    "bitwise_or": ("|", 2),
    "bitwise_xor": ("^", 3),
    "bitwise_and": ("&", 4),
    "left_shift": ("<<", 5),
    "right_shift": (">>", 5),
    "add": ("+", 6),
    "subtract": ("-", 6),
    "multiply": ("*", 7),
    "divide": ("/", 7),
    "floor_divide": ("//", 7),
    "matmul": ("@", 7),
}


def function_source(graph: Graph, name: str, docstring: str) -> str:
    """Return the source of a function that computes `graph` with MLX's own ops.

    It takes the graph's inputs by position, under their names, and returns what its function
    makes of the outputs: one array, or a tuple of them, where nothing else is known. The module
    that holds it imports `mlx.core as mx`.

    Raises:
        UnsupportedError: an op has no printed form; it is named.
    """
    graph = as_returned(expand_attention(graph, unless=is_one_function))
    # What it is for is other shapes.
    printer = _Printer(graph, follows_sizes=True)
    lines = printer.body()
    parameters = ", ".join(parameter_names(graph))
    indented = "\n".join(f"    {line}" for line in lines)
    return f'def {name}({parameters}):\n    """{docstring}"""\n{indented}\n'


def as_returned(graph: Graph) -> Graph:
    """Return a graph whose outputs are what its function returns, each as often as it does."""
    if graph.results is None:
        return graph
    types, nodes, outputs = list(graph.types), list(graph.nodes), []
    for leaf in nest.leaves(graph.results):
        values = graph.inputs if isinstance(leaf, nest.Given) else graph.outputs
        value = values[leaf.place]
        for view in leaf.views:
            nodes.append(Node(view.op, (value,), (len(types),), view.attributes))
            types.append(TensorType(view.shape, types[value].dtype))
            value = len(types) - 1
        outputs.append(value)
    return replace(
        graph,
        types=tuple(types),
        nodes=tuple(nodes),
        outputs=tuple(outputs),
        results=nest.numbered(graph.results),
    )


def nested(graph: Graph, results: Sequence[str]) -> str:
    """Return the nest of a graph's outputs, of their expressions."""
    if graph.results is None:
        return ", ".join(results)
    return nest.source(graph.results, results)


def returning_lines(graph: Graph, results: Sequence[str]) -> list[str]:
    """Return the lines by which a function returns what it has of a graph's outputs."""
    whole = as_returned(graph)
    printer = _Printer(whole, follows_sizes=True)
    printer.know(dict(zip(graph.outputs, results, strict=True)))
    shown = printer.steps(whole.nodes[len(graph.nodes) :])
    return [*shown, f"return {nested(whole, printer.results())}"]


def is_printable(op: str) -> bool:
    """Say whether an op has a printed form, as far as its name tells."""
    known = _INFIX.keys() | RENDERERS.keys()
    return op in known or op in ("cast", "negative", LAUNCH) or op_named(op).mlx is not None


def printable(graph: Graph) -> Graph:
    """Return a graph with the ops that MLX has no function for as the steps they mean."""
    return expand_attention(graph, unless=is_one_function)


def launching_source(graph: Graph, name: str, docstring: str, data: Mapping[ValueId, str]) -> str:
    """Return the source of a function that returns the list of a graph's outputs.

    Args:
        graph: may hold `LAUNCH` nodes beside ops of MLX; as `printable` returns it.
        name: of the function.
        docstring: of the function.
        data: expressions of the constants that are not written out.

    Raises:
        UnsupportedError: an op has no printed form; it is named.
    """
    printer = _Printer(graph, data)
    lines = [*printer.steps(), f"return [{', '.join(printer.results())}]"]
    body = "\n".join(f"    {line}" for line in lines)
    return f'def {name}({", ".join(parameter_names(graph))}):\n    """{docstring}"""\n{body}\n'


def parameter_names(graph: Graph) -> tuple[str, ...]:
    """Return a Python identifier for each input, all different."""
    names: list[str] = []
    for given in graph.input_names():
        stem = re.sub(r"\W+", "_", given).strip("_") or "x"
        if stem[0].isdigit() or keyword.iskeyword(stem) or stem in ("mx", "reference"):
            stem = f"x_{stem}"
        taken = sum(name == stem or name.startswith(f"{stem}_") for name in names)
        names.append(f"{stem}_{taken + 1}" if stem in names else stem)
    return tuple(names)


class _Printer:
    """Walks the nodes once; a value that is read once becomes part of its reader's line."""

    def __init__(
        self,
        graph: Graph,
        data: Mapping[ValueId, str] | None = None,
        *,
        follows_sizes: bool = False,
    ) -> None:
        self._graph = graph
        self._written: dict[ValueId, Expression] = {
            value: Expression(name)
            for value, name in zip(graph.inputs, parameter_names(graph), strict=True)
        }
        named = data or {}
        self._written |= {
            value: Expression(named[value]) if value in named else constant_source(c)
            for value, c in graph.constants
        }
        self._lines: list[str] = []
        self._names = 0
        self._sizes = SizeNames(graph, parameter_names(graph)) if follows_sizes else None

    def body(self) -> list[str]:
        """Return the function's lines."""
        return [*self.steps(), f"return {nested(self._graph, self.results())}"]

    def know(self, expressions: Mapping[ValueId, str]) -> None:
        """Take values as given, which then need no steps."""
        self._written |= {value: Expression(text) for value, text in expressions.items()}

    def steps(self, nodes: Sequence[Node] | None = None) -> list[str]:
        """Return the lines of the steps, all of them or some, before the results are known."""
        for node in self._graph.nodes if nodes is None else nodes:
            self._print(node)
        return self._lines

    def results(self) -> list[str]:
        """Return the expressions of the graph's outputs, once all steps are printed."""
        return [self._written[v].text for v in self._graph.outputs]

    def _print(self, node: Node) -> None:
        call = self._sizes.call(node) if self._sizes else Call.of(self._graph, node)
        if node.op == "broadcast" and self._is_implicit(node):
            self._written[node.outputs[0]] = self._written[node.inputs[0]]
            return
        operands = [self._operand(node, place) for place in range(len(node.inputs))]
        if node.op == "cast":
            target = self._dtype(call.dtype("dtype"))
            expression = Expression(f"{atom(operands[0].text)}.astype({target})")
        elif node.op == LAUNCH:
            listed = ", ".join(operand.text for operand in operands)
            expression = Expression(f"{call.text('function')}({listed})")
        else:
            expression = _rendered(node, call, operands)
        if len(node.outputs) > 1:
            names = [self._new_name() for _ in node.outputs]
            self._lines.append(f"{', '.join(names)} = {expression.text}")
            for value, name in zip(node.outputs, names, strict=True):
                self._written[value] = Expression(name)
            return
        value = node.outputs[0]
        if self._is_inlined(value, expression):
            self._written[value] = expression
            return
        name = self._new_name()
        self._lines.append(f"{name} = {expression.text}  # {self._graph.types[value]}")
        self._written[value] = Expression(name)

    def _dtype(self, dtype: Dtype) -> str:
        """Return a cast's target; the inputs' own dtype follows the inputs.

        A trace does not tell `astype(x.dtype)` from a dtype written out. The first is what
        norms and softmaxes mean, and only it is right when the fallback meets another dtype.
        """
        names = parameter_names(self._graph)
        floats = [
            (name, t.dtype)
            for name, t in zip(names, self._graph.input_types, strict=True)
            if t.dtype.is_float
        ]
        if floats and all(found is dtype for _, found in floats):
            return f"{floats[0][0]}.dtype"
        return dtype_source(dtype)

    def _new_name(self) -> str:
        self._names += 1
        name = f"t{self._names}"
        return self._new_name() if name in parameter_names(self._graph) else name

    def _is_inlined(self, value: ValueId, expression: Expression) -> bool:
        readers = self._graph.consumers_of[value]
        uses = sum(self._graph.nodes[i].inputs.count(value) for i in readers)
        # A broadcast that is left out hands its operand on to all of its own readers.
        if any(self._graph.nodes[i].op == "broadcast" for i in readers):
            uses = 2
        is_output = value in self._graph.outputs
        short = len(expression.text) <= (_LONGEST_RESULT if is_output else _LONGEST_EXPRESSION)
        return short and uses + is_output <= 1

    def _operand(self, node: Node, place: int) -> Expression:
        """Return one operand; a scalar constant of the others' dtype is a plain number."""
        value = node.inputs[place]
        constant = self._scalar_behind(value)
        if constant is None or op_named(node.op).kind is not Kind.ELEMENTWISE:
            return self._written[value]
        dtype = constant.type.dtype
        others = [v for i, v in enumerate(node.inputs) if i != place]
        if node.op == "select" and place > 0:
            others = [v for v in others if v != node.inputs[0]]
        strong = [v for v in others if self._scalar_behind(v) is None]
        if strong and all(self._graph.types[v].dtype is dtype for v in strong):
            return number_source(constant)
        return self._written[value]

    def _scalar_behind(self, value: ValueId) -> Constant | None:
        """Return the one-element constant that a value is, or broadcasts."""
        constant = self._graph.constant_of.get(value)
        if constant is not None:
            return constant if constant.type.shape in ((), (1,)) else None
        producer = self._graph.producer_of.get(value)
        if producer is None or self._graph.nodes[producer].op != "broadcast":
            return None
        node = self._graph.nodes[producer]
        return self._scalar_behind(node.inputs[0]) if self._is_implicit(node) else None

    def _is_implicit(self, node: Node) -> bool:
        """Say whether every reader of a broadcast broadcasts by itself."""
        value = node.outputs[0]
        if value in self._graph.outputs:
            return False
        readers = [self._graph.nodes[i] for i in self._graph.consumers_of[value]]
        return all(
            op_named(reader.op).kind is Kind.ELEMENTWISE
            and any(self._is_full(v, reader) for v in reader.inputs)
            for reader in readers
        )

    def _is_full(self, value: ValueId, reader: Node) -> bool:
        """Say whether an operand alone gives its reader the result's shape."""
        producer = self._graph.producer_of.get(value)
        is_broadcast = producer is not None and self._graph.nodes[producer].op == "broadcast"
        return not is_broadcast and self._graph.types[value].shape == (
            self._graph.types[reader.outputs[0]].shape
        )


def _rendered(node: Node, call: Call, operands: Sequence[Expression]) -> Expression:
    texts = [operand.text for operand in operands]
    if node.op in _INFIX:
        sign, precedence = _INFIX[node.op]
        left = operands[0].inside(precedence - (precedence > 1))
        return Expression(f"{left} {sign} {operands[1].inside(precedence)}", precedence)
    if node.op == "negative":
        return Expression(f"-{operands[0].inside(UNARY)}", UNARY)
    render, known = RENDERERS.get(node.op), op_named(node.op).mlx
    if render is None and known is not None:
        keywords = (f"{name}={literal(v)}" for name, v in known.keywords(call).items())
        return Expression(f"mx.{known.function}({', '.join([*texts, *keywords])})")
    if render is None:
        raise UnsupportedError(
            f"the op {node.op!r} cannot be printed as MLX code yet; export a kernel without it."
        )
    return Expression(render(call, texts))
