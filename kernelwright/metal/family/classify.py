"""What kind of kernel a region needs: the one notion that planner and lowering share."""

import math
from dataclasses import dataclass
from enum import StrEnum

from kernelwright.ir.analysis.row_independence import row_independence
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.ir.region import Region
from kernelwright.metal.family import matvec, top_k
from kernelwright.metal.family.component import row_parts
from kernelwright.metal.family.concatenated_outputs import stacked_axis
from kernelwright.metal.family.contraction import DENSE, trouble_with_attention, trouble_with_dense
from kernelwright.metal.family.depthwise_conv import is_window, trouble_with_windows
from kernelwright.metal.family.plain_rows import plain_rows
from kernelwright.metal.family.plane import Part, Plane, plane_of
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.family.reducer import PLACES, REDUCERS
from kernelwright.metal.family.spelled_out import spelled_out


class Pattern(StrEnum):
    """How threads and data meet."""

    ELEMENTWISE = "elementwise"
    """Each output element depends on a fixed handful of input elements."""
    ROWWISE = "rowwise"
    """Map, reduce and map again over rows: some axes of one common shape."""
    PLANE = "plane"
    """Rows and columns of one matrix reduced in one walk, and what waits for both."""
    SCAN = "scan"
    """Running values along one axis, with elementwise work before and after."""
    ATTENTION = "attention"
    """One attention, with elementwise work before and after."""
    MATVEC = "matvec"
    """Rows of a quantized matrix times few vectors, with elementwise work behind."""
    DENSE = "dense"
    """Few rows times matrices, with elementwise work before and after."""
    NONE = "none"
    """No kernel family; `reason` says why."""


@dataclass(frozen=True)
class Family:
    """A region's kernel family.

    `shape` is that of the elements a kernel walks over: the outputs' when elementwise, the
    reduced values' when row-wise. `axes` are the reduced axes of `shape`.
    """

    pattern: Pattern
    shape: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    reason: str = ""

    @property
    def row_length(self) -> int:
        """Elements of one row; 1 when elementwise."""
        return math.prod(self.shape[axis] for axis in self.axes)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return math.prod(self.shape) // max(self.row_length, 1)


# Metal has neither: Metal Shading Language Specification, section 2.1.
_NOT_IN_METAL = frozenset({Dtype.FLOAT64, Dtype.COMPLEX64})
_ROW_OPS = frozenset({*REDUCERS, *PLACES, "mean", "softmax", "logsumexp"})
_FUSED_KINDS = frozenset({Kind.ELEMENTWISE, Kind.VIEW, Kind.REDUCTION, Kind.SCAN})
_FUSED_INDEXING = frozenset(
    {"arange", "concatenate", "dequantize", "gather", "gather_axis", "pad", "slice_update"}
)
"""Indexing ops that are arithmetic where they are read: they need no kernel of their own."""
_LANES = 32
"""Of a simdgroup, each of which has as many elements of a row as the others."""
_LONGEST_SIDE_BY_SIDE = 4096
"""Elements of a row up to which a threadgroup or less takes it; our choice."""
UPDATES = frozenset({"slice_update", "scatter_axis"})


def is_index_arithmetic(graph: Graph, node: Node) -> bool:
    """Say whether an indexing op is arithmetic where its result is read.

    A scatter is, where it writes one place of each row, as the gradient of a label's score does:
    an element asks whether it is that place.
    """
    if node.op == "scatter_axis":
        call = Call.of(graph, node)
        return call.inputs[1].shape[call.integer("axis")] == 1
    return node.op in _FUSED_INDEXING


def classify(graph: Graph) -> Family:
    """Say which kernel family computes a region's graph, or why none does.

    Row-wise means: all reductions reduce the same axes of the same shape; what depends on a
    reduction stays within its row; every output holds one element a row or one an element.
    """
    family = _classified(graph)
    if family.pattern is not Pattern.NONE or (other := spelled_out(graph)) is graph:
        return family
    inner = _classified(other)
    return inner if inner.pattern is not Pattern.NONE else family


def served(graph: Graph) -> Graph:
    """Return the form of a graph that a family serves: short reductions may have to be written out.

    A graph that no family serves stays as it is.
    """
    other = spelled_out(graph)
    if other is graph or _classified(graph).pattern is not Pattern.NONE:
        return graph
    return graph if _classified(other).pattern is Pattern.NONE else other


def _classified(graph: Graph) -> Family:
    if empty := [t for t in (*graph.input_types, *graph.output_types) if t.size == 0]:
        return Family(Pattern.NONE, reason=f"an array without elements, {empty[0]}, has no threads")
    if (prologue := prologue_of(graph)) is not None:
        # Every threadgroup makes the products' vector for itself.
        return _classified(prologue.rest.bare())
    if any(node.op in matvec.PRODUCTS for node in graph.nodes):
        return _matvec(graph)
    if top_k.is_ranked(graph):
        return _ranked(graph)
    reductions: list[Node] = []
    if any(node.op == "attention" for node in graph.nodes):
        return _attention(graph)
    if any(node.op in DENSE for node in graph.nodes):
        return _dense(graph)
    for node in graph.nodes:
        if reason := _unfit(graph, node):
            return Family(Pattern.NONE, reason=reason)
        if op_named(node.op).kind is Kind.REDUCTION:
            reductions.append(node)
    if reason := trouble_with_windows(graph):
        return Family(Pattern.NONE, reason=reason)
    if any(op_named(node.op).kind is Kind.SCAN for node in graph.nodes):
        return _scan(graph, reductions)
    if not reductions:
        return _elementwise(graph)
    family = _rowwise(graph, reductions)
    if family.pattern is not Pattern.NONE:
        return family
    return _plane(graph) or _side_by_side(graph) or family


def _attention(graph: Graph) -> Family:
    for node in graph.nodes:
        if node.op != "attention" and (reason := _unfit(graph, node)):
            return Family(Pattern.NONE, reason=reason)
    if reason := trouble_with_attention(graph):
        return Family(Pattern.NONE, reason=reason)
    return Family(Pattern.ATTENTION, graph.output_types[0].shape)


def _dense(graph: Graph) -> Family:
    for node in graph.nodes:
        if node.op not in DENSE and (reason := _unfit(graph, node)):
            return Family(Pattern.NONE, reason=reason)
    if reason := trouble_with_dense(graph):
        return Family(Pattern.NONE, reason=reason)
    return Family(Pattern.DENSE, max((t.shape for t in graph.output_types), key=len))


def _unfit(graph: Graph, node: Node) -> str:
    kind = op_named(node.op).kind
    for value in (*node.inputs, *node.outputs):
        if graph.types[value].dtype in _NOT_IN_METAL:
            return f"Metal has no {graph.types[value].dtype} for {node.op}"
    if kind is Kind.REDUCTION and node.op not in _ROW_OPS:
        return f"{node.op} has no kernel family yet"
    if node.op in UPDATES and _only_copies(graph, node):
        return f"{node.op} alone is done in place by MLX, where a kernel copies what it keeps"
    if kind in _FUSED_KINDS or is_index_arithmetic(graph, node) or is_window(graph, node):
        return ""
    return f"{node.op} is {_article(kind)}"


def _only_copies(graph: Graph, node: Node) -> bool:
    """Say whether all that an update keeps goes from an input to an output as it is."""
    kept, made = node.inputs[0], {node.outputs[0]}
    while (maker := graph.producer_of.get(kept)) is not None and _is_view(graph, maker):
        kept = graph.nodes[maker].inputs[0]
    for index in range(graph.producer_of[node.outputs[0]] + 1, len(graph.nodes)):
        if _is_view(graph, index) and made.intersection(graph.nodes[index].inputs):
            made.update(graph.nodes[index].outputs)
    return kept in graph.inputs and not made.isdisjoint(graph.outputs)


def _is_view(graph: Graph, index: int) -> bool:
    return op_named(graph.nodes[index].op).kind is Kind.VIEW


def _article(kind: Kind) -> str:
    return f"an {kind} op" if kind.value[0] in "aeio" else f"a {kind} op"


def _elementwise(graph: Graph) -> Family:
    sizes = {t.size for t in graph.output_types}
    if len(sizes) != 1:
        rows = plain_rows(graph)
        if rows is not None:
            return Family(Pattern.ROWWISE, *rows)
        if stacked_axis(graph) is not None:
            return Family(Pattern.ELEMENTWISE, max(graph.output_types, key=lambda t: t.size).shape)
        shapes = " and ".join(str(t) for t in graph.output_types)
        return Family(Pattern.NONE, reason=f"its outputs {shapes} differ in size")
    shape = max((t.shape for t in graph.output_types), key=len)
    return Family(Pattern.ELEMENTWISE, shape)


def _matvec(graph: Graph) -> Family:
    foreign = [d for t in graph.types if (d := t.dtype) in _NOT_IN_METAL]
    if reason := f"Metal has no {foreign[0]}" if foreign else matvec.unfit(graph):
        return Family(Pattern.NONE, reason=reason)
    return Family(Pattern.MATVEC, max((t.shape for t in graph.output_types), key=len))


def _ranked(graph: Graph) -> Family:
    """Rows with few ranks taken: row-wise, if all else stays in its row too."""
    for node in graph.nodes:
        if node.op not in top_k.RANKED and (reason := _unfit(graph, node)):
            return Family(Pattern.NONE, reason=reason)
        if op_named(node.op).kind is Kind.SCAN:
            return Family(Pattern.NONE, reason=f"{node.op} and a ranking are not one kernel")
    if reason := top_k.unfit(graph):
        return Family(Pattern.NONE, reason=reason)
    shape = top_k.ranked_shape(graph)
    return Family(Pattern.ROWWISE, shape, (len(shape) - 1,))


def _scan(graph: Graph, reductions: list[Node]) -> Family:
    """Say whether scans along the rows of one shape are all that is not elementwise."""
    if reductions:
        reason = f"{reductions[0].op} and a scan are not one kernel yet"
        return Family(Pattern.NONE, reason=reason)
    shapes: dict[tuple[int, int, int], tuple[tuple[int, ...], int]] = {}
    directions: set[bool] = set()
    dependent: set[ValueId] = set()
    for node in graph.nodes:
        reads = any(v in dependent for v in node.inputs)
        if op_named(node.op).kind is Kind.SCAN:
            call, source = Call.of(graph, node), graph.types[node.inputs[0]]
            axis = call.integer("axis") % len(source.shape)
            if reads or source.dtype.itemsize not in (2, 4):
                return Family(Pattern.NONE, reason=f"{node.op} of {source} has no kernel family")
            outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
            shapes[outer, source.shape[axis], inner] = (source.shape, axis)
            directions.add(call.flag("reverse"))
            dependent.update(node.outputs)
        elif reads and op_named(node.op).kind is not Kind.ELEMENTWISE:
            return Family(Pattern.NONE, reason=f"{node.op} moves what a scan made")
        elif reads:
            dependent.update(node.outputs)
    if len(shapes) != 1 or len(directions) != 1:
        return Family(Pattern.NONE, reason="its scans run along different rows")
    ((shape, axis),) = shapes.values()
    if any(t.size != math.prod(shape) for t in graph.output_types):
        return Family(Pattern.NONE, reason="an output is not what its scan runs along")
    return Family(Pattern.SCAN, shape, (axis,))


def _rowwise(graph: Graph, reductions: list[Node]) -> Family:
    first = Call.of(graph, reductions[0])
    shape, axes = first.inputs[0].shape, reduced_axes(first)
    rows = math.prod(n for i, n in enumerate(shape) if i not in axes)
    length = math.prod(shape) // max(rows, 1)
    if reason := row_independence(graph, shape, axes).reason:
        return Family(Pattern.NONE, reason=reason)
    for node in reductions:
        source = graph.types[node.inputs[0]]
        if source.size != rows * length:
            return Family(Pattern.NONE, reason=f"{node.op} of {source} has other rows")
    for type_ in graph.output_types:
        if type_.size not in (rows, rows * length):
            return Family(Pattern.NONE, reason=f"the output {type_} is neither rows nor elements")
    return Family(Pattern.ROWWISE, shape, axes)


def _side_by_side(graph: Graph) -> Family | None:
    """Return the family of parts with rows of one length, which lanes take along memory.

    Its shape is that of all rows. Other rows may be split or held in tiles, each part in its way.
    """
    parts = row_parts(graph)
    families = [_classified(part.bare()) for part in parts]
    lengths = {family.row_length for family in families}
    if len(lengths) != 1 or any(family.pattern is not Pattern.ROWWISE for family in families):
        return None
    is_along = all(family.axes[-1] == len(family.shape) - 1 for family in families)
    is_along = is_along and not any(_moves_last_axis(part) for part in parts)
    (length,) = lengths
    if not is_along or length % _LANES or length > _LONGEST_SIDE_BY_SIDE:
        return None
    return Family(Pattern.ROWWISE, (sum(family.row_count for family in families), length), (1,))


def _moves_last_axis(part: Region) -> bool:
    calls = [Call.of(part.graph, node) for node in part.nodes if node.op == "transpose"]
    return any(call.integers("axes")[-1] != len(call.inputs[0].shape) - 1 for call in calls)


def _plane(graph: Graph) -> Family | None:
    """Return the family of rows and columns reduced together, where each part of it has one."""
    plane = plane_of(graph)
    if plane is None:
        return None
    walks, rest = (Pattern.ELEMENTWISE, Pattern.ROWWISE), plane.rest()
    bands, joined = plane.bands(), plane.joined(plane.rows)
    if classify(bands.graph).pattern not in walks or _rest_is_other(plane, rest):
        return None
    if classify(joined.graph).pattern is not Pattern.ROWWISE and joined.writes:
        return None
    return Family(Pattern.PLANE, (plane.planes * plane.rows, plane.columns), (1,))


def _rest_is_other(plane: Plane, rest: Part | None) -> bool:
    """Say whether what waits for columns is neither elementwise nor about the same rows."""
    if rest is None:
        return False
    family = classify(rest.graph)
    is_same = (family.row_count, family.row_length) == (plane.planes * plane.rows, plane.columns)
    return not (
        family.pattern is Pattern.ELEMENTWISE or (family.pattern is Pattern.ROWWISE and is_same)
    )
