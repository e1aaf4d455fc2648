"""The kernels of a matrix's rows and columns, and the arrays between them."""

import math
from dataclasses import replace

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, TensorType, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.family.plane import JOINED, Part, Plane, plane_of
from kernelwright.metal.family.row_value import merged
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Load, OrderStat, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, unflatten
from kernelwright.metal.lower.banded.band import BandRows, Matrix
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.pointwise.kernel import lower_elementwise
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.kernel import lower_rowwise
from kernelwright.metal.lower.rowwise.passes import kept_between, loops, per_lane
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Banded, Columnwise, Elementwise, Rowwise

_MOST_STRIPS = 32


def lower_banded(
    graph: Graph, signature: Signature, schedule: Banded
) -> tuple[tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernels of the bands, of what joins them, and of what waits for that.

    Raises:
        UnsupportedError: the graph reduces other things than rows and columns of one matrix.
    """
    plane, signature = _plane(graph, signature)
    if schedule.lanes != 32 and schedule.teams > 1:
        raise UnsupportedError(
            f"{schedule.lanes} lanes share a row, so a threadgroup takes one row at a time; use "
            "teams=1."
        )
    arrays = _Arrays(plane, signature, -(-plane.rows // (schedule.teams * schedule.depth)))
    kernels = [_bands(plane, arrays, schedule)]
    joined, rest = plane.joined(arrays.bands), plane.rest()
    if joined.writes:
        inner = arrays.of(joined, "column")
        strips = min(_MOST_STRIPS, max(1 << (arrays.bands.bit_length() - 1), 2))
        kernels.append(lower_rowwise(joined.graph, inner, Columnwise(strips)))
    if rest is not None:
        kernels += _rest(rest, arrays.of(rest, ""), schedule)
    name = kernel_name(graph)
    named = (k.model_copy(update={"name": f"{name}_{i}"}) for i, k in enumerate(kernels))
    return tuple(named), tuple(arrays.between.values())


def banded_footprint(graph: Graph, schedule: Banded) -> tuple[int, int]:
    """Return the registers that a lane keeps, and the bytes that a threadgroup shares."""
    plane, signature = _plane(graph, Signature.of(graph))
    part = plane.bands()
    arrays = _Arrays(plane, signature, 1)
    stores = _stores(plane, part, arrays.of(part, "row"))
    sequence = loops(stores, online=False)
    columns = Axis(REDUCED_AXIS, plane.columns)
    elements = per_lane(columns, schedule.lanes, schedule.vector)
    terms = sum(len(kept) for kept in kept_between(sequence).values())
    count = len(plane.of_columns)
    shared = 4 * count * schedule.teams * plane.columns if schedule.teams > 1 else 0
    places = schedule.lanes // 32 if schedule.lanes > 32 else 0
    reduced = sum(len(loop.reduced) for loop in sequence)
    return elements * (terms + count), shared + 4 * places * reduced


def _plane(graph: Graph, signature: Signature) -> tuple[Plane, Signature]:
    """Return the plane of a graph whose quotients by what a row shares are products."""
    whole = merged(graph)
    plane = plane_of(whole)
    if plane is None:
        raise UnsupportedError(
            "bands are of one matrix whose rows and columns are reduced; use another schedule."
        )
    names = [signature.arrays[value] for value in graph.inputs]
    arrays = dict(zip(whole.inputs, names, strict=True))
    return plane, replace(signature, arrays=arrays)


class _Arrays:
    """Names what the kernels read and write."""

    def __init__(self, plane: Plane, signature: Signature, bands: int) -> None:
        self.bands = bands
        self.between: dict[str, Tensor] = {}
        self._plane, self._signature = plane, signature
        self._outputs = dict(
            zip(plane.graph.outputs, (n for n, _ in signature.outputs), strict=True)
        )
        self._left: dict[ValueId, str] = {}

    def of(self, part: Part, kind: str) -> Signature:
        """Return the signature of a part; what it leaves for others is called by its `kind`."""
        reads = [self._read(value) for value in part.reads]
        inputs = tuple(zip(reads, part.graph.input_types, strict=True))
        names: list[str] = []
        for place, (value, type_) in enumerate(
            zip(part.writes, part.graph.output_types, strict=True)
        ):
            if place < part.outputs:
                names.append(self._outputs[value])
                continue
            is_joined = kind == "row" and value in self._plane.of_columns
            shape = self._plane.part_type(value, self.bands) if is_joined else type_
            names.append(self._fresh("band" if is_joined else kind, shape))
            self._left[value] = names[-1]
        outputs = tuple(zip(names, part.graph.output_types, strict=True))
        spelled = {name: str(type_) for name, type_ in (*inputs, *outputs)}
        arrays = dict(zip(part.graph.inputs, reads, strict=True))
        return Signature(inputs, outputs, arrays, spelled)

    def _read(self, value: ValueId) -> str:
        return self._left.get(value) or self._signature.arrays[value]

    def _fresh(self, kind: str, type_: TensorType) -> str:
        taken = {*self._signature.arrays.values(), *self._outputs.values(), *self.between}
        names = (f"{kind}_result_{number}" for number in range(len(taken) + 1))
        name = next(n for n in names if n not in taken)
        self.between[name] = Tensor(name=name, dtype=type_.dtype, shape=type_.shape)
        return name


def _bands(plane: Plane, arrays: _Arrays, schedule: Banded) -> Kernel:
    part = plane.bands()
    signature = arrays.of(part, "row")
    stores = _stores(plane, part, signature)
    if any(isinstance(t, OrderStat) for t in walk([s.value for s in stores])):
        raise UnsupportedError("bands of rows find no ranks; use another schedule.")
    joins, types = {}, {}
    for value in plane.of_columns:
        name = arrays._left[value]
        node = plane.graph.nodes[plane.graph.producer_of[value]]
        joins[name] = JOINED[node.op]
        types[name] = plane.part_type(value, arrays.bands).dtype
    writer = Writer(signature.scalars, taken=signature.taken)
    rows = Rowwise(schedule.lanes, schedule.teams, schedule.vector, cached=True)
    body = BandRows(writer, stores, rows, signature.spelled, joins=joins)
    matrix = Matrix(plane.planes, plane.rows, plane.columns)
    source = body.write_bands(matrix, schedule, types)
    used = {t.array for t in walk([s.value for s in stores]) if isinstance(t, Load)}
    return Kernel(
        name="bands",
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(dict.fromkeys(s.array for s in stores)),
        source=source,
        header=header_for(source),
        grid=(schedule.lanes, plane.planes * arrays.bands * schedule.teams, 1),
        threadgroup=(schedule.lanes, schedule.teams, 1),
    )


def _stores(plane: Plane, part: Part, signature: Signature) -> list[Store]:
    """Return what each element is that a row writes, or joins with those above and below."""
    builder, stores = Builder(part.graph, signature.arrays), list[Store]()
    count = plane.planes * plane.rows
    row, column = Index.of(Axis("row", count)), Index.of(Axis(REDUCED_AXIS, plane.columns))
    for value, (name, type_) in zip(part.graph.outputs, signature.outputs, strict=True):
        place = row if type_.size == count else row * plane.columns + column
        if type_.size not in (count, count * plane.columns):
            raise UnsupportedError(f"{name} {type_} holds neither rows nor elements of a matrix.")
        term = builder.element(value, unflatten(place, type_.shape))
        stores.append(Store(name, place, term, type_.dtype))
    return stores


def _rest(part: Part, signature: Signature, schedule: Banded) -> list[Kernel]:
    """Write what waits for columns: row by row where it reduces rows, else by elements."""
    if any(op_named(n.op).kind is Kind.REDUCTION for n in part.graph.nodes):
        rows = Rowwise(schedule.lanes, min(schedule.teams, 4), schedule.vector, cached=True)
        return [lower_rowwise(part.graph, signature, rows)]
    sizes = dict.fromkeys(t.size for t in part.graph.output_types)
    kernels = []
    for size in sizes:
        group = [i for i, t in enumerate(part.graph.output_types) if t.size == size]
        width = math.gcd(schedule.vector, size)
        kernels.append(lower_elementwise(part.graph, signature, group, Elementwise(width, 256)))
    return kernels
