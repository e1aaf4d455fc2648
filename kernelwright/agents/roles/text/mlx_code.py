"""A graph as code of MLX that means the same, as prompts show it."""

from collections.abc import Callable, Mapping, Sequence

from kernelwright.ir.graph import Attribute, Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.naming.describe import idiom_text, value_names
from kernelwright.ir.naming.idioms import idioms
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops.indexing import COMBINING
from kernelwright.plan.mlx.fusion import copies

Write = Callable[..., str]
"""`(call, *operands)` as text -> the call of MLX, or nothing where it takes more than one."""


def mlx_code(graph: Graph) -> str:
    """Write a graph as lines of Python, with the type of each value and the views that MLX copies.

    Example:
        v0 = x * x  # f32[8,64]
        v1 = mx.sum(v0, axis=(1,), keepdims=True)  # f32[8,1]
        return v1

    An op that no single call of MLX stands for is written as the graph has it, in brackets. A
    number that is spread for an elementwise op stays a number.
    """
    names = {v: _NUMBERS.get(name, name) for v, name in value_names(graph, "v").items()}
    spread = _spread_numbers(graph, names)
    names |= {node.outputs[0]: names[node.inputs[0]] for node in spread}
    lines = [
        f"# {names[value]}: {constant.type}, a constant"
        for value, constant in graph.constants
        if constant.type.size > 1
    ]
    for node in graph.nodes:
        if node in spread:
            continue
        made = ", ".join(names[v] for v in node.outputs)
        operands = [names[v] for v in node.inputs]
        types = ", ".join(str(graph.types[v]) for v in node.outputs)
        note = ", copied by MLX" if copies(graph, node) else ""
        lines.append(f"{made} = {_written(graph, node, operands)}  # {types}{note}")
    lines.append(f"return {', '.join(names[v] for v in graph.outputs)}")
    lines += [f"# {idiom_text(idiom, names)}" for idiom in idioms(graph)]
    return "\n".join(lines)


def _spread_numbers(graph: Graph, names: Mapping[ValueId, str]) -> list[Node]:
    """Return what broadcasts a number for nothing but elementwise ops with another operand."""
    made = [
        node
        for node in graph.nodes
        if node.op == "broadcast" and not names[node.inputs[0]].isidentifier()
    ]
    numbers = {node.outputs[0] for node in made}
    needed = set(graph.outputs)
    for node in graph.nodes:
        is_elementwise = op_named(node.op).kind is Kind.ELEMENTWISE
        if not is_elementwise or numbers.issuperset(node.inputs):
            needed.update(node.inputs)
    return [node for node in made if node.outputs[0] not in needed]


_OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "not_equal": "!=",
}
_NUMBERS = {"inf": "mx.inf", "-inf": "-mx.inf", "nan": "mx.nan"}


def _written(graph: Graph, node: Node, operands: Sequence[str]) -> str:
    call, known = Call.of(graph, node), op_named(node.op).mlx
    if (sign := _OPERATORS.get(node.op)) is not None:
        return f"{operands[0]} {sign} {operands[1]}"
    if node.op == "broadcast" and not operands[0].isidentifier():
        # A bare number has no dtype, or another one.
        return _SPECIAL["full"](call, *operands)
    if known is not None:
        return _call(f"mx.{known.function}", operands, known.keywords(call))
    if (write := _SPECIAL.get(node.op)) is not None and (text := write(call, *operands)):
        return text
    return f"<{_call(node.op, operands, call.attributes)}>"


def _call(function: str, operands: Sequence[str], keywords: Mapping[str, Attribute]) -> str:
    named = (f"{key}={_shown(value)}" for key, value in keywords.items())
    return f"{function}({', '.join((*operands, *named))})"


def _shown(value: Attribute) -> str:
    if isinstance(value, Dtype):
        return f"mx.{'bool_' if value is Dtype.BOOL else value.value}"
    if isinstance(value, float):
        return _NUMBERS.get(str(value), f"{value:.6g}")
    if isinstance(value, tuple):
        items = [_shown(item) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return repr(value)


def _cast(call: Call, x: str) -> str:
    array = x if x.isidentifier() else f"mx.array({x})"
    return f"{array}.astype({_shown(call.dtype('dtype'))})"


def _equal(call: Call, x: str, y: str) -> str:
    return "" if call.flag("equal_nan") else f"{x} == {y}"


def _slice(call: Call, x: str) -> str:
    sizes = call.inputs[0].shape
    parts = zip(
        call.integers("start"), call.integers("stop"), call.integers("strides"), sizes, strict=True
    )
    return f"{x}[{', '.join(_part(*part) for part in parts)}]"


def _slice_update(call: Call, x: str, update: str) -> str:
    start, strides = call.integers("start"), call.integers("strides")
    if (method := COMBINING.get(call.text("reduce"))) is not None:
        sizes = call.inputs[0].shape
        parts = zip(start, call.integers("stop"), strides, sizes, strict=True)
        return f"{x}.at[{', '.join(_part(*part) for part in parts)}].{method}({update})"
    if set(strides) != {1} or call.text("reduce") != "none":
        return ""
    moved = [axis for axis, first in enumerate(start) if first] or [0]
    first = f"mx.array({[start[axis] for axis in moved]})"
    return f"mx.slice_update({x}, {update}, {first}, {moved})"


def _part(start: int, stop: int, step: int, size: int) -> str:
    if step < 0:
        return f"{start}:{stop if stop >= 0 else ''}:{step}"
    if (start, step) == (0, 1) and stop == size:
        return ":"
    return f"{start}:{stop}" + (f":{step}" if step != 1 else "")


def _pad(call: Call, x: str, value: str) -> str:
    widths = [(0, 0)] * len(call.inputs[0].shape)
    sides = zip(call.integers("axes"), call.integers("low"), call.integers("high"), strict=True)
    for axis, low, high in sides:
        widths[axis] = (low, high)
    return f"mx.pad({x}, {widths}, constant_values={value})"


def _convolution(call: Call, x: str, weight: str) -> str:
    low, high = call.integers("padding_low"), call.integers("padding_high")
    usual: dict[str, tuple[Attribute, Attribute]] = {
        "stride": (call.integers("strides"), (1,) * len(low)),
        "padding": ((low, high), ((0,) * len(low), (0,) * len(low))),
        "kernel_dilation": (call.integers("kernel_dilation"), (1,) * len(low)),
        "input_dilation": (call.integers("input_dilation"), (1,) * len(low)),
        "groups": (call.integer("groups"), 1),
        "flip": (call.flag("flip"), False),
    }
    keywords = {name: given for name, (given, default) in usual.items() if given != default}
    return _call("mx.conv_general", (x, weight), keywords)


def _gather(call: Call, x: str, *indices: str) -> str:
    """Take whole rows: by one index array an axis, all of the other axes."""
    axes, sizes, shape = call.integers("axes"), call.integers("slice_sizes"), call.inputs[0].shape
    whole = all(size == (1 if axis in axes else shape[axis]) for axis, size in enumerate(sizes))
    if not axes or not whole:
        return ""
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    order = [*axes, *rest]
    moved = x if order == sorted(order) else f"mx.transpose({x}, {order})"
    lead = len(call.outputs[0].shape) - len(shape)
    return f"mx.expand_dims({moved}[{', '.join(indices)}], {[lead + axis for axis in axes]})"


def _arange(call: Call) -> str:
    numbers = [call.number(name) for name in ("start", "stop", "step")]
    return _call("mx.arange", [_shown(n) for n in numbers], {"dtype": call.outputs[0].dtype})


def _attention(call: Call, q: str, k: str, v: str, *rest: str) -> str:
    """Name MLX's own function, where nothing but a causal mask hides keys."""
    if rest or call.integer("window") or call.number("soft_cap") or call.flag("has_sinks"):
        return ""
    keywords: dict[str, Attribute] = {"scale": call.number("scale")}
    if call.flag("is_causal"):
        keywords["mask"] = "causal"
    return _call("mx.fast.scaled_dot_product_attention", (q, k, v), keywords)


def _sorted_slice(function: str, partial: str) -> Write:
    def write(call: Call, x: str) -> str:
        kth, start, step = call.integer("kth"), call.integer("start"), call.integer("step")
        ordered = f"mx.{function}({x})" if kth < 0 else f"mx.{partial}({x}, {kth})"
        stop = start + step * call.integer("count")
        return f"{ordered}[..., {start}:{stop if stop >= 0 else ''}:{step}]"

    return write


_SPECIAL: Mapping[str, Write] = {
    "cast": _cast,
    "equal": _equal,
    "slice": _slice,
    "slice_update": _slice_update,
    "dynamic_slice": lambda call, x, start: (
        f"mx.slice({x}, {start}, {list(call.integers('axes'))}, {list(call.integers('shape'))})"
    ),
    "dynamic_slice_update": lambda call, x, update, start: (
        f"mx.slice_update({x}, {update}, {start}, {list(call.integers('axes'))})"
    ),
    "pad": _pad,
    "convolution": _convolution,
    "gather": _gather,
    "arange": _arange,
    "attention": _attention,
    "sorted_slice": _sorted_slice("sort", "partition"),
    "argsorted_slice": _sorted_slice("argsort", "argpartition"),
    "mean": lambda call, x: _call(
        "mx.mean", (x,), {"axis": call.integers("axes"), "keepdims": True}
    ),
    "split": lambda call, x: (
        f"mx.split({x}, {list(call.integers('indices'))}, axis={call.integer('axis')})"
    ),
    "concatenate": lambda call, *arrays: (
        f"mx.concatenate([{', '.join(arrays)}], axis={call.integer('axis')})"
    ),
    "full": lambda call, x: (
        f"mx.full({_shown(call.outputs[0].shape)}, {x}, {_shown(call.outputs[0].dtype)})"
    ),
    "copy": lambda call, x: x,
    "contiguous": lambda call, x: x,
    "view": lambda call, x: f"{x}.view({_shown(call.dtype('dtype'))})",
    "addmm": lambda call, x, y, bias: _call(
        "mx.addmm",
        (bias, x, y),
        {"alpha": call.number("alpha"), "beta": call.number("beta")},
    ),
    "search_sorted": lambda call, x, v: (
        f"mx.searchsorted({x}, {v}, '{'right' if call.flag('right') else 'left'}')"
    ),
}
"""How ops are written that are more than one call of a function of MLX, or take arguments
otherwise; the same as `ir/trace/replay.py` does."""
