"""Prints a graph as the MLX code that a person would write for it."""

import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.errors import UnsupportedError
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call, Kind, mean_divisor, op_named
from kernelwright.ir.ops.indexing import COMBINING
from kernelwright.ir.ops.view import slices
from kernelwright.ir.passes.attention_steps import expand_attention
from kernelwright.runtime.export.attention_code import attention_text, is_one_function
from kernelwright.runtime.export.size_code import SizeNames, SizeText

LAUNCH = "launch"
"""An op that stands for the call of a function, named by its attribute `function`."""
_LONGEST_EXPRESSION = 64
_LONGEST_RESULT = 84
_ATOM = 10
_UNARY = 8
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
_SAME_NAME = """
    abs arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_invert ceil conjugate cos
    cosh erf erfinv exp expm1 floor imag log log10 log1p log2 logaddexp logical_and logical_not
    logical_or maximum minimum power real remainder round rsqrt sigmoid sign sin sinh sqrt square
    stop_gradient tan tanh
"""
_FUNCTIONS = frozenset(_SAME_NAME.split())


@dataclass(frozen=True)
class _Expression:
    """A piece of Python and how tightly its outermost operator binds."""

    text: str
    precedence: int = _ATOM

    def inside(self, precedence: int) -> str:
        """Return the text as an operand of an operator."""
        return self.text if self.precedence > precedence else f"({self.text})"


def function_source(graph: Graph, name: str, docstring: str) -> str:
    """Return the source of a function that computes `graph` with MLX's own ops.

    It takes the graph's inputs by position, under their names, and returns one array, or a
    tuple of them. The module that holds it imports `mlx.core as mx`.

    Raises:
        UnsupportedError: an op has no printed form; it is named.
    """
    graph = expand_attention(graph, unless=is_one_function)
    # What it is for is other shapes.
    printer = _Printer(graph, follows_sizes=True)
    lines = printer.body()
    parameters = ", ".join(parameter_names(graph))
    indented = "\n".join(f"    {line}" for line in lines)
    return f'def {name}({parameters}):\n    """{docstring}"""\n{indented}\n'


def is_printable(op: str) -> bool:
    """Say whether an op has a printed form, as far as its name tells."""
    known = _INFIX.keys() | _FUNCTIONS | _RENDERERS.keys()
    return op in known or op in ("cast", "negative", LAUNCH)


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
        self._written: dict[ValueId, _Expression] = {
            value: _Expression(name)
            for value, name in zip(graph.inputs, parameter_names(graph), strict=True)
        }
        named = data or {}
        self._written |= {
            value: _Expression(named[value]) if value in named else _constant(c)
            for value, c in graph.constants
        }
        self._lines: list[str] = []
        self._names = 0
        self._sizes = SizeNames(graph, parameter_names(graph)) if follows_sizes else None

    def body(self) -> list[str]:
        """Return the function's lines."""
        return [*self.steps(), f"return {', '.join(self.results())}"]

    def steps(self) -> list[str]:
        """Return the lines before the results are known."""
        for node in self._graph.nodes:
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
            expression = _Expression(f"{_atom(operands[0].text)}.astype({target})")
        elif node.op == LAUNCH:
            listed = ", ".join(operand.text for operand in operands)
            expression = _Expression(f"{call.text('function')}({listed})")
        else:
            expression = _rendered(node, call, operands)
        if len(node.outputs) > 1:
            names = [self._new_name() for _ in node.outputs]
            self._lines.append(f"{', '.join(names)} = {expression.text}")
            for value, name in zip(node.outputs, names, strict=True):
                self._written[value] = _Expression(name)
            return
        value = node.outputs[0]
        if self._is_inlined(value, expression):
            self._written[value] = expression
            return
        name = self._new_name()
        self._lines.append(f"{name} = {expression.text}  # {self._graph.types[value]}")
        self._written[value] = _Expression(name)

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

    def _is_inlined(self, value: ValueId, expression: _Expression) -> bool:
        readers = self._graph.consumers_of[value]
        uses = sum(self._graph.nodes[i].inputs.count(value) for i in readers)
        # A broadcast that is left out hands its operand on to all of its own readers.
        if any(self._graph.nodes[i].op == "broadcast" for i in readers):
            uses = 2
        is_output = value in self._graph.outputs
        short = len(expression.text) <= (_LONGEST_RESULT if is_output else _LONGEST_EXPRESSION)
        return short and uses + is_output <= 1

    def _operand(self, node: Node, place: int) -> _Expression:
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
            return _number(constant)
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


def _rendered(node: Node, call: Call, operands: Sequence[_Expression]) -> _Expression:
    texts = [operand.text for operand in operands]
    if node.op in _INFIX:
        sign, precedence = _INFIX[node.op]
        left = operands[0].inside(precedence - (precedence > 1))
        return _Expression(f"{left} {sign} {operands[1].inside(precedence)}", precedence)
    if node.op == "negative":
        return _Expression(f"-{operands[0].inside(_UNARY)}", _UNARY)
    if node.op in _FUNCTIONS:
        return _Expression(f"mx.{node.op}({', '.join(texts)})")
    render = _RENDERERS.get(node.op)
    if render is None:
        raise UnsupportedError(
            f"the op {node.op!r} cannot be printed as MLX code yet; export a kernel without it."
        )
    return _Expression(render(call, texts))


Renderer = Callable[[Call, Sequence[str]], str]


def _function(name: str, *attributes: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        values = [f"{a}={_literal(call.attributes[a])}" for a in attributes]
        return f"mx.{name}({', '.join([*operands, *values])})"

    return render


def _positional(name: str, *attributes: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        values = [_literal(call.attributes[a]) for a in attributes]
        return f"mx.{name}({', '.join([*operands, *values])})"

    return render


def _reduction(name: str, attribute: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        axes = call.attributes[attribute]
        if isinstance(axes, tuple) and len(axes) == 1:
            axes = axes[0]
        rank = len(call.inputs[0].shape)
        axis = "-1" if axes == rank - 1 else _literal(axes)
        return f"mx.{name}({operands[0]}, axis={axis}, keepdims=True)"

    return render


def _mean(call: Call, operands: Sequence[str]) -> str:
    if call.integer("ddof") == 0:
        return _reduction("mean", "axes")(call, operands)
    total = _reduction("sum", "axes")(call, operands)
    return f"({total} / {mean_divisor(call)})"


def _equal(call: Call, operands: Sequence[str]) -> str:
    x, y = operands
    same = f"mx.equal({x}, {y})"
    if not call.flag("equal_nan"):
        return same
    return f"({same} | (mx.isnan({x}) & mx.isnan({y})))"


def _slice(call: Call, operands: Sequence[str]) -> str:
    sizes = zip(slices(call), call.inputs[0].shape, call.outputs[0].shape, strict=True)
    places = [
        _part(place, taken)
        if isinstance(taken, SizeText) and taken != size
        else _place(place, size)
        for place, size, taken in sizes
    ]
    return f"{_atom(operands[0])}[{', '.join(places)}]"


def _part(place: slice, taken: SizeText) -> str:
    """Print one of the equal parts of an axis whose size may change."""
    number = place.start // taken
    text = f"({taken})" if " " in repr(taken) else repr(taken)
    begin = {0: "", 1: text}.get(number, f"{number} * {text}")
    return f"{begin}:{text if number == 0 else f'{number + 1} * {text}'}"


def _atom(text: str) -> str:
    """Return what a method or an index can follow."""
    is_call = text.startswith("mx.") and text.endswith(")")
    return text if text.isidentifier() or is_call else f"({text})"


def _place(place: slice, size: int) -> str:
    start, stop, step = place.start, place.stop, place.step
    if (start, stop, step) == (0, size, 1):
        return ":"
    text = f"{start or ''}:{'' if stop is None or stop == size else stop}"
    return text if step == 1 else f"{text}:{step}"


def _split(call: Call, operands: Sequence[str]) -> str:
    indices = list(call.integers("indices"))
    return f"mx.split({operands[0]}, {indices}, axis={call.integer('axis')})"


def _concatenate(call: Call, operands: Sequence[str]) -> str:
    return f"mx.concatenate([{', '.join(operands)}], axis={call.integer('axis')})"


def _softmax(call: Call, operands: Sequence[str]) -> str:
    precise = ", precise=True" if call.flag("precise") else ""
    return f"mx.softmax({operands[0]}, axis=-1{precise})"


def _quantization(call: Call) -> str:
    """Return how weights are packed, as keywords."""
    sizes = f"group_size={call.integer('group_size')}, bits={call.integer('bits')}"
    mode = call.attributes.get("mode", "affine")
    return sizes if mode == "affine" else f"{sizes}, mode={mode!r}"


def _quantized(name: str) -> Renderer:
    """Print a product with packed weights; the last two operands of `gather_qmm` are indices."""
    indices = 2 if name == "gather_qmm" else 0

    def render(call: Call, operands: Sequence[str]) -> str:
        arrays = list(operands[: len(operands) - indices])
        # Formats without biases have `None` in their place.
        arrays += ["None"] * (4 - len(arrays)) + list(operands[len(operands) - indices :])[:indices]
        options = f"transpose={call.flag('transpose')}, {_quantization(call)}"
        return f"mx.{name}({', '.join(arrays)}, {options})"

    return render


def _sorted_slice(whole: str, partial: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        start, step, kth = (call.integer(name) for name in ("start", "step", "kth"))
        stop = start + step * call.integer("count")
        place = _place(slice(start, None if stop < 0 else stop, step), call.inputs[0].shape[-1])
        ordered = f"{whole}({operands[0]}" if kth < 0 else f"{partial}({operands[0]}, {kth}"
        return f"mx.{ordered}, axis=-1)[..., {place}]"

    return render


def _scan(name: str) -> Renderer:
    return _function(name, "axis", "reverse", "inclusive")


def _arange(call: Call, operands: Sequence[str]) -> str:
    (count,) = call.outputs[0].shape
    if isinstance(count, SizeText) and (call.number("start"), call.number("step")) == (0, 1):
        return f"mx.arange({count!r}, dtype={dtype_source(call.outputs[0].dtype)})"
    span = ", ".join(f"{call.number(name):g}" for name in ("start", "stop", "step"))
    return f"mx.arange({span}, dtype={dtype_source(call.outputs[0].dtype)})"


def _gather(call: Call, operands: Sequence[str]) -> str:
    axes, sizes = call.integers("axes"), call.integers("slice_sizes")
    shape = call.inputs[0].shape
    if tuple(1 if axis in axes else size for axis, size in enumerate(shape)) != sizes:
        raise UnsupportedError(
            "the op 'gather' of windows cannot be printed as MLX code yet; "
            "export a kernel without it."
        )
    source, *indices = operands
    if axes == (0,):
        taken = f"mx.take({source}, {indices[0]}, axis=0)"
    else:
        rest = [axis for axis in range(len(shape)) if axis not in axes]
        taken = f"{_indexed(source, axes, rest)}[{', '.join(indices)}]"
    return f"mx.reshape({taken}, {_literal(call.outputs[0].shape)})"


def _indexed(source: str, axes: Sequence[int], rest: Sequence[int]) -> str:
    """Return an array with the axes that are indexed in front."""
    order = (*axes, *rest)
    in_order = order == tuple(range(len(order)))
    return _atom(source) if in_order else f"mx.transpose({source}, {_literal(order)})"


def _slice_update(call: Call, operands: Sequence[str]) -> str:
    shape, part = call.inputs[0].shape, call.inputs[1].shape
    places, (source, update) = slices(call), operands
    if how := COMBINING.get(call.text("reduce")):
        window = ", ".join(_place(place, size) for place, size in zip(places, shape, strict=True))
        return f"{_atom(source)}.at[{window}].{how}({update})"
    partial = [axis for axis, size in enumerate(shape) if part[axis] != size]
    starts = [places[axis].start for axis in partial]
    strided = [axis for axis in partial if places[axis].step != 1]
    if not strided:
        return f"mx.slice_update({source}, {update}, mx.array({starts}), {_literal(partial)})"
    if len(partial) > 1:
        raise UnsupportedError(
            "the op 'slice_update' that strides along several axes cannot be printed as MLX code "
            "yet; export a kernel without it."
        )
    # Assigning to a strided slice is a statement; this is the same as an expression.
    (axis,) = partial
    place = places[axis]
    along = tuple(-1 if i == axis else 1 for i in range(len(shape)))
    index = f"mx.arange({place.start}, {place.stop}, {place.step}).reshape({_literal(along)})"
    return f"mx.put_along_axis({source}, mx.broadcast_to({index}, {part}), {update}, {axis})"


def _scatter_axis(call: Call, operands: Sequence[str]) -> str:
    x, index, update = operands
    axis = call.integer("axis")
    if call.text("reduce") == "sum":
        if call.inputs[1].shape[axis] != 1:
            raise UnsupportedError(
                "the op 'scatter_axis' that adds at several places cannot be printed as MLX code "
                "yet; export a kernel without it."
            )
        update = f"mx.take_along_axis({x}, {index}, {axis}) + {update}"
    return f"mx.put_along_axis({x}, {index}, {update}, {axis})"


def _pad(call: Call, operands: Sequence[str]) -> str:
    widths = [(0, 0)] * len(call.inputs[0].shape)
    sides = zip(call.integers("axes"), call.integers("low"), call.integers("high"), strict=True)
    for axis, low, high in sides:
        widths[axis] = (low, high)
    return f"mx.pad({operands[0]}, {widths}, constant_values={operands[1]})"


_RENDERERS: dict[str, Renderer] = {
    "select": _positional("where"),
    "equal": _equal,
    "mean": _mean,
    "attention": attention_text,
    "softmax": _softmax,
    "logsumexp": lambda call, x: f"mx.logsumexp({x[0]}, axis=-1, keepdims=True)",
    "broadcast": _positional("broadcast_to", "shape"),
    "reshape": _positional("reshape", "shape"),
    "expand_dims": _positional("expand_dims", "axes"),
    "squeeze": _positional("squeeze", "axes"),
    "flatten": _positional("flatten", "start_axis", "end_axis"),
    "unflatten": _positional("unflatten", "axis", "shape"),
    "transpose": _positional("transpose", "axes"),
    "slice": _slice,
    "split": _split,
    "concatenate": _concatenate,
    "arange": _arange,
    "pad": _pad,
    "gather": _gather,
    "gather_axis": _positional("take_along_axis", "axis"),
    "scatter_axis": _scatter_axis,
    "slice_update": _slice_update,
    "full": lambda call, x: x[0],
    "copy": lambda call, x: x[0],
    "contiguous": lambda call, x: x[0],
    **{name: _reduction(name, "axes") for name in ("sum", "prod", "max", "min", "all", "any")},
    **{name: _reduction(name, "axis") for name in ("argmin", "argmax")},
    **{name: _scan(name) for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")},
    "dequantize": lambda call, x: f"mx.dequantize({', '.join(x)}, {_quantization(call)})",
    **{name: _quantized(name) for name in ("quantized_matmul", "gather_qmm")},
    "sorted_slice": _sorted_slice("sort", "partition"),
    "argsorted_slice": _sorted_slice("argsort", "argpartition"),
    **{name: _function(name, "axis") for name in ("sort", "argsort")},
    **{name: _function(name, "kth", "axis") for name in ("partition", "argpartition")},
}


def dtype_source(dtype: Dtype) -> str:
    """Return MLX's name of a dtype as Python, such as `mx.bfloat16`."""
    return f"mx.{'bool_' if dtype is Dtype.BOOL else dtype.value}"


def type_source(type_: TensorType) -> str:
    """Return a shape and dtype as Python, such as `((64, 1024), mx.float16)`."""
    return f"({type_.shape!r}, {dtype_source(type_.dtype)})"


def _literal(value: object) -> str:
    if isinstance(value, Dtype):
        return dtype_source(value)
    if isinstance(value, float):
        return _float(value)
    return repr(value)


def _constant(constant: Constant) -> _Expression:
    dtype = dtype_source(constant.type.dtype)
    if constant.type.shape == ():
        return _Expression(f"mx.array({_number(constant).text}, {dtype})")
    values = constant.array.astype(_wide(constant.type.dtype)).tolist()
    return _Expression(f"mx.array({values!r}, {dtype})")


def _number(constant: Constant) -> _Expression:
    value = constant.array.astype(_wide(constant.type.dtype)).reshape(-1)[0].item()
    text = repr(value)
    if isinstance(value, float):
        text = _shortest(value, constant.type.dtype) if math.isfinite(value) else _float(value)
    return _Expression(text, _UNARY if text.startswith("-") else _ATOM)


def _shortest(value: float, dtype: Dtype) -> str:
    """Return the shortest decimal that MLX reads back as the same value of the dtype."""
    # MLX takes a Python float to float32 first, then to a narrower dtype.
    first = np.float64 if dtype is Dtype.FLOAT64 else np.float32
    with np.errstate(over="ignore"):
        for digits in range(1, 17):
            text = repr(float(f"{value:.{digits}g}"))
            read = np.array(float(text)).astype(first).astype(dtype.numpy)
            if read.astype(np.float64).item() == value:
                return text
    return repr(value)


def _wide(dtype: Dtype) -> str:
    if dtype.is_float:
        return "float64"
    return "complex128" if dtype is Dtype.COMPLEX64 else dtype.value


def _float(value: float) -> str:
    if math.isnan(value):
        return "mx.nan"
    if math.isinf(value):
        return "mx.inf" if value > 0 else "-mx.inf"
    return repr(value)
