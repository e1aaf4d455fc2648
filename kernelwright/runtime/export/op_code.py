"""Prints the ops that functions of arrays mostly consist of, as calls of MLX."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from kernelwright.ir.ops import OPS, Call, Kind, mean_divisor
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.indexing import COMBINING
from kernelwright.ir.ops.relation_of_slice import is_turned
from kernelwright.runtime.export.attention_code import attention_text
from kernelwright.runtime.export.literal_code import dtype_source, literal
from kernelwright.runtime.export.rare_op_code import RENDERERS as RARE_RENDERERS
from kernelwright.runtime.export.size_code import SizeText

Renderer = Callable[[Call, Sequence[str]], str]


def _function(name: str, *attributes: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        values = [f"{a}={literal(call.attributes[a])}" for a in attributes]
        return f"mx.{name}({', '.join([*operands, *values])})"

    return render


def _positional(name: str, *attributes: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        values = [literal(call.attributes[a]) for a in attributes]
        return f"mx.{name}({', '.join([*operands, *values])})"

    return render


def _reduction(name: str, attribute: str) -> Renderer:
    def render(call: Call, operands: Sequence[str]) -> str:
        axes = call.attributes[attribute]
        if isinstance(axes, tuple) and len(axes) == 1:
            axes = axes[0]
        rank = len(call.inputs[0].shape)
        axis = "-1" if axes == rank - 1 else literal(axes)
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
    places = [_place(place, size, taken) for place, size, taken in sizes]
    return f"{atom(operands[0])}[{', '.join(places)}]"


def _place(place: slice, size: int, taken: int) -> str:
    """Print what is taken of an axis, so that it holds at other sizes where there are any."""
    if not isinstance(taken, SizeText) or taken == size:
        return place_text(place, size)
    if place.step == 1 and 2 * taken <= size:
        return _part(place, taken)
    return _margin_text(place, size)


def _margin_text(place: slice, size: int) -> str:
    """Print what is taken of an axis, with its stop counted from the end."""
    stop = place.stop if place.stop < 0 else min(place.stop - size, 0) or None
    return place_text(slice(place.start, stop, place.step), size)


def _part(place: slice, taken: SizeText) -> str:
    """Print one of the equal parts of an axis whose size may change."""
    number = place.start // taken
    text = f"({taken})" if " " in repr(taken) else repr(taken)
    begin = {0: "", 1: text}.get(number, f"{number} * {text}")
    return f"{begin}:{text if number == 0 else f'{number + 1} * {text}'}"


def atom(text: str) -> str:
    """Return what a method or an index can follow."""
    is_call = text.startswith("mx.") and text.endswith(")")
    return text if text.isidentifier() or is_call else f"({text})"


def place_text(place: slice, size: int) -> str:
    """Return one axis of an index as Python writes it."""
    start, stop, step = place.start, place.stop, place.step
    if (start, stop, step) == (0, size, 1):
        return ":"
    if is_turned(place, size):
        return "::-1"
    text = f"{start or ''}:{'' if stop is None or stop == size else stop}"
    return text if step == 1 else f"{text}:{step}"


def _split(call: Call, operands: Sequence[str]) -> str:
    indices, axis = list(call.integers("indices")), call.integer("axis")
    is_even = len({t.shape[axis] for t in call.outputs}) == 1
    where = len(call.outputs) if is_even else indices
    return f"mx.split({operands[0]}, {where}, axis={axis})"


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
        place = place_text(slice(start, None if stop < 0 else stop, step), call.inputs[0].shape[-1])
        ordered = f"{whole}({operands[0]}" if kth < 0 else f"{partial}({operands[0]}, {kth}"
        return f"mx.{ordered}, axis=-1)[..., {place}]"

    return render


_SCANNED = ("axis", "reverse", "inclusive")


def _scan(name: str) -> Renderer:
    return _function(name, *_SCANNED)


def _functions_of(kind: Kind, *attributes: str) -> Iterator[tuple[str, str]]:
    """Yield the ops of a kind that have these attributes, with MLX's function of each."""
    for name, op in OPS.items():
        if op.kind is kind and op.attributes == attributes and op.mlx is not None:
            yield name, op.mlx.function


def _arange(call: Call, operands: Sequence[str]) -> str:
    (count,) = call.outputs[0].shape
    start, step = call.number("start"), call.number("step")
    span = ", ".join(f"{call.number(name):g}" for name in ("start", "stop", "step"))
    if isinstance(count, SizeText):
        text = f"({count!r})" if " " in repr(count) and step != 1 else repr(count)
        times = "" if step == 1 else f" * {step:g}"
        plus = f" + {start:g}" if start else ""
        stop = f"{text}{times}{plus}"
        span = stop if (start, step) == (0, 1) else f"{start:g}, {stop}, {step:g}"
    return f"mx.arange({span}, dtype={dtype_source(call.outputs[0].dtype)})"


def _gather(call: Call, operands: Sequence[str]) -> str:
    axes, sizes = call.integers("axes"), call.integers("slice_sizes")
    shape = call.inputs[0].shape
    if not axes:
        return operands[0]
    if tuple(1 if axis in axes else size for axis, size in enumerate(shape)) != sizes:
        return f"_gather_windows({operands[0]}, {axes!r}, {sizes!r}, {', '.join(operands[1:])})"
    source, *indices = operands
    if axes == (0,):
        taken = f"mx.take({source}, {indices[0]}, axis=0)"
    else:
        rest = [axis for axis in range(len(shape)) if axis not in axes]
        taken = f"{_indexed(source, axes, rest)}[{', '.join(indices)}]"
    return f"mx.reshape({taken}, {literal(call.outputs[0].shape)})"


def _indexed(source: str, axes: Sequence[int], rest: Sequence[int]) -> str:
    """Return an array with the axes that are indexed in front."""
    order = (*axes, *rest)
    in_order = order == tuple(range(len(order)))
    return atom(source) if in_order else f"mx.transpose({source}, {literal(order)})"


def _slice_update(call: Call, operands: Sequence[str]) -> str:
    shape, part = call.inputs[0].shape, call.inputs[1].shape
    places, (source, update) = slices(call), operands
    if how := COMBINING.get(call.text("reduce")):
        sizes = zip(places, shape, call.outputs[0].shape, strict=True)
        window = ", ".join(
            (_margin_text if isinstance(made, SizeText) else place_text)(place, size)
            for place, size, made in sizes
        )
        return f"{atom(source)}.at[{window}].{how}({update})"
    partial = [axis for axis, size in enumerate(shape) if part[axis] != size]
    starts = [places[axis].start for axis in partial]
    strided = [axis for axis in partial if places[axis].step != 1]
    if not strided:
        return f"mx.slice_update({source}, {update}, mx.array({starts}), {literal(partial)})"
    if len(partial) > 1:
        listed = ", ".join(f"slice({p.start}, {p.stop}, {p.step})" for p in places)
        return f"_update({source}, ({listed},), {update}, 'set')"
    # Assigning to a strided slice is a statement; this is the same as an expression.
    (axis,) = partial
    place = places[axis]
    along = tuple(-1 if i == axis else 1 for i in range(len(shape)))
    index = f"mx.arange({place.start}, {place.stop}, {place.step}).reshape({literal(along)})"
    return f"mx.put_along_axis({source}, mx.broadcast_to({index}, {part}), {update}, {axis})"


def _scatter_axis(call: Call, operands: Sequence[str]) -> str:
    x, index, update = operands
    axis = call.integer("axis")
    if call.text("reduce") == "sum":
        if call.inputs[1].shape[axis] != 1:
            return f"_add_along_axis({x}, {index}, {update}, {axis})"
        update = f"mx.take_along_axis({x}, {index}, {axis}) + {update}"
    return f"mx.put_along_axis({x}, {index}, {update}, {axis})"


def _pad(call: Call, operands: Sequence[str]) -> str:
    widths = [(0, 0)] * len(call.inputs[0].shape)
    sides = zip(call.integers("axes"), call.integers("low"), call.integers("high"), strict=True)
    for axis, low, high in sides:
        widths[axis] = (low, high)
    return f"mx.pad({operands[0]}, {widths}, constant_values={operands[1]})"


RENDERERS: Mapping[str, Renderer] = {
    **RARE_RENDERERS,
    "stop_gradient": _function("stop_gradient"),
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
    **{op: _reduction(f, "axes") for op, f in _functions_of(Kind.REDUCTION, "axes")},
    **{op: _reduction(f, "axis") for op, f in _functions_of(Kind.REDUCTION, "axis")},
    **{op: _scan(f) for op, f in _functions_of(Kind.SCAN, *_SCANNED)},
    "dequantize": lambda call, x: f"mx.dequantize({', '.join(x)}, {_quantization(call)})",
    **{name: _quantized(name) for name in ("quantized_matmul", "gather_qmm")},
    "sorted_slice": _sorted_slice("sort", "partition"),
    "argsorted_slice": _sorted_slice("argsort", "argpartition"),
    **{name: _function(name, "axis") for name in ("sort", "argsort")},
    **{name: _function(name, "kth", "axis") for name in ("partition", "argpartition")},
}
