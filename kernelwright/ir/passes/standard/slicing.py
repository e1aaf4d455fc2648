"""Slices and concatenations written in one way: in one step, and of axes that are not cut up."""

from collections.abc import Sequence

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.view import reshape


def cut_last_axis(builder: GraphBuilder, x: ValueId, start: int, stop: int, stride: int) -> ValueId:
    """Return a slice of the last axis."""
    shape = builder.types[x].shape
    lead = len(shape) - 1
    return sliced(builder, x, (*(0,) * lead, start), (*shape[:-1], stop), (*(1,) * lead, stride))


def sliced(
    builder: GraphBuilder,
    x: ValueId,
    start: Sequence[int],
    stop: Sequence[int],
    strides: Sequence[int],
) -> ValueId:
    """Slice a value in one step with an earlier slice; each stop is as far as strides reach."""
    places = zip(start, stop, strides, strict=True)
    counts = [-(-(end - begin) // step) for begin, end, step in places]
    inner = builder.made_by(x, "slice")
    if inner is not None:
        before = Call(dict(inner.attributes), (), ())
        first, steps = before.integers("start"), before.integers("strides")
        start = [f + s * step for f, s, step in zip(first, start, steps, strict=True)]
        strides = [a * b for a, b in zip(strides, steps, strict=True)]
        x = inner.inputs[0]
    shape = builder.types[x].shape
    ends = zip(start, counts, strides, shape, strict=True)
    reached = tuple(min(s + n * step, size) for s, n, step, size in ends)
    return builder.apply("slice", x, start=tuple(start), stop=reached, strides=tuple(strides))


def _picked(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Slice the last axis where it was cut in two, one place was taken, and the cut forgotten."""
    part = builder.made_by(node.inputs[0], "slice") if node.op == "reshape" else None
    apart = builder.made_by(part.inputs[0], "reshape") if part is not None else None
    if part is None or apart is None:
        return None
    x, shape = apart.inputs[0], call.outputs[0].shape
    source, cut = (builder.types[v].shape for v in (x, part.inputs[0]))
    taken = Call(dict(part.attributes), (), ())
    starts, kept = taken.integers("start"), builder.types[part.outputs[0]].shape
    is_cut = len(cut) == len(source) + 1 and cut[:-2] == source[:-1] == kept[:-2]
    if not is_cut or set(taken.integers("strides")) != {1} or shape[:-1] != source[:-1]:
        return None
    if kept[-2:] == (1, cut[-1]) and shape[-1] == cut[-1]:
        return [cut_last_axis(builder, x, starts[-2] * cut[-1], (starts[-2] + 1) * cut[-1], 1)]
    if kept[-2:] == (cut[-2], 1) and shape[-1] == cut[-2]:
        return [cut_last_axis(builder, x, starts[-1], source[-1], cut[-1])]
    return None


def _beside(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Join along the last axis what is stacked before it and then laid side by side."""
    joined = builder.made_by(node.inputs[0], "concatenate") if node.op == "reshape" else None
    if joined is None:
        return None
    wide, shape = builder.types[node.inputs[0]].shape, call.outputs[0].shape
    axis = len(wide) - 2
    if dict(joined.attributes)["axis"] != axis or shape != (*wide[:-2], wide[-2] * wide[-1]):
        return None
    if any(builder.types[v].shape[axis] != 1 for v in joined.inputs):
        return None
    rows = [reshape(builder, v, (*wide[:-2], wide[-1])) for v in joined.inputs]
    return builder.add("concatenate", rows, call.outputs, (("axis", axis),))


def _one_slice(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Take a slice of a slice at once."""
    if node.op != "slice" or min(call.integers("strides"), default=1) < 1:
        return None
    inner = builder.made_by(node.inputs[0], "slice")
    if inner is not None and min(Call(dict(inner.attributes), (), ()).integers("strides")) < 1:
        return None
    bounds = (call.integers(name) for name in ("start", "stop", "strides"))
    return [sliced(builder, node.inputs[0], *bounds)]


def _one_concatenation(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Join at once what is joined in two steps along one axis."""
    if node.op != "concatenate":
        return None
    operands: list[ValueId] = []
    for value in node.inputs:
        inner = builder.made_by(value, "concatenate")
        is_same = inner is not None and inner.attributes == node.attributes
        operands += inner.inputs if inner is not None and is_same else [value]
    if len(operands) == len(node.inputs):
        return None
    return builder.add("concatenate", operands, call.outputs, node.attributes)


VIEWS: tuple[Rule, ...] = (_picked, _beside)
"""For reshapes, of which the rules of views leave none to others."""
RULES: tuple[Rule, ...] = (_one_slice, _one_concatenation)
