"""What the op table records about one operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph import Attribute, Graph, Node, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops.behaviour import PLAIN, Behaviour
from kernelwright.ir.ops.box import Box

if TYPE_CHECKING:
    from kernelwright.ir.ops.index_range import Ranges
    from kernelwright.ir.ops.relation import Sizing

Array = NDArray[np.float64]
"""What the oracle computes with. Exact integers and complex numbers pass through the same
code, so the element type is nominal."""
Shape = tuple[int, ...]


class Kind(StrEnum):
    """How an op touches its data, which decides what it can be fused with."""

    ELEMENTWISE = "elementwise"
    """Output element i depends on element i of every input; all shapes are equal."""
    REDUCTION = "reduction"
    """Combines whole axes; the reduced axes stay with size 1, or are mapped back over."""
    SCAN = "scan"
    CONTRACTION = "contraction"
    VIEW = "view"
    """Moves no value: only index arithmetic stands between output and input."""
    INDEXING = "indexing"
    """Copies or makes values by position: gather, scatter, concatenate, pad, arange."""
    SORT = "sort"
    RANDOM = "random"
    BARRIER = "barrier"
    """Nothing is fused with it; also the kind of every op that the table does not know."""


@dataclass(frozen=True, slots=True)
class Call:
    """One use of an op: attributes by name, and the types that it reads and writes."""

    attributes: Mapping[str, Attribute]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    @classmethod
    def of(cls, graph: Graph, node: Node) -> "Call":
        """Look the types of a node up in its graph."""
        types = graph.types
        return cls(
            dict(node.attributes),
            tuple(types[v] for v in node.inputs),
            tuple(types[v] for v in node.outputs),
        )

    def integer(self, name: str) -> int:
        """Return an integer attribute."""
        value = self.attributes[name]
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        """Return a numeric attribute."""
        value = self.attributes[name]
        assert isinstance(value, int | float)
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a tuple of integers, such as axes or a shape."""
        value = self.attributes[name]
        assert isinstance(value, tuple)
        return tuple(item for item in value if isinstance(item, int))

    def text(self, name: str) -> str:
        """Return an attribute that is one of a few words."""
        value = self.attributes[name]
        assert isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean attribute."""
        return bool(self.attributes[name])

    def dtype(self, name: str) -> Dtype:
        """Return a dtype attribute."""
        value = self.attributes[name]
        assert isinstance(value, Dtype)
        return value


@dataclass(frozen=True, slots=True)
class MlxCall:
    """How MLX's own function is called for an op: operands in order, then keywords."""

    function: str
    """Its path below `mlx.core`."""
    attributes: tuple[tuple[str, str], ...] = ()
    """MLX's keywords with the attributes that they take."""
    constants: tuple[tuple[str, int], ...] = ()
    """Keywords that are the same in every call."""

    def keywords(self, call: Call) -> dict[str, Attribute]:
        """Return the keywords of one call."""
        taken: dict[str, Attribute] = {k: call.attributes[a] for k, a in self.attributes}
        return taken | dict(self.constants)


Meaning = Callable[..., Array | tuple[Array, ...]]
"""`(call, *arrays)` in float64 or exact integers -> output, or outputs."""
Relation = Callable[["Sizing", Node, Call], None]
"""Ties the dimensions of what a node reads and makes to each other."""
LeastRead = Callable[[Graph, Node, int, int], int]
"""`(graph, node, place, wanted)` -> the least elements of an operand that `wanted` of the first
output hang on, whatever the indices are; parts of an element are rounded down."""
Resize = Callable[[Call, tuple[TensorType, ...], TensorType], Mapping[str, Attribute]]
"""`(call, inputs, output)` at new sizes -> the attributes that spell sizes out, written anew."""
BoxShown = Callable[[Call, int, Box], Box]
"""`(call, number of a result, box of it)` -> the places of the operand that the box shows."""
InferShapes = Callable[[Call], tuple[Shape, ...]]
Axes = frozenset[int]
Batching = Callable[[Call, int, Axes], Axes]
"""`(call, place of an operand, its axes)` -> axes of the results; see `batching.batch_axes`."""


def _same_as_first(call: Call) -> tuple[Shape, ...]:
    return (call.inputs[0].shape,)


@cache
def _arrays_of(meaning: Meaning) -> tuple[int, int | None]:
    """Return how many arrays a meaning takes behind its call."""
    kinds = [parameter.kind for parameter in signature(meaning).parameters.values()]
    count = sum(kind is Parameter.POSITIONAL_OR_KEYWORD for kind in kinds) - 1
    return count, None if Parameter.VAR_POSITIONAL in kinds else count


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: what class it is in, what it means, what it costs.

    `attributes` are named in the order in which MLX lists a primitive's arguments. `meaning`
    is None where the oracle has none.
    """

    name: str
    kind: Kind
    meaning: Meaning | None
    attributes: tuple[str, ...] = ()
    shapes: InferShapes = _same_as_first
    mlx: MlxCall | None = None
    """None where replaying takes more than one call; `ir/trace/replay.py` has those."""
    primitive: str = ""
    """MLX's name of its primitive, where that is not the op's own in camel case."""
    variant: int | None = None
    """Which of a primitive's ops it is, by the primitive's first argument."""
    behaviour: Behaviour = PLAIN
    relation: Relation | None = None
    """None where what holds for its kind holds for it."""
    batching: Batching | None = None
    """None where what holds for its kind holds for it."""
    resized: Resize | None = None
    """None where no attribute spells out a size."""
    box_shown: BoxShown | None = None
    """Of a view that moves places; None where a box shows none, or the same places."""
    skipped: Callable[..., Array] | None = None
    """`(call, *arrays)` -> mask of results that are not finite only because of what the op may
    skip, as it is multiplied by zero."""
    flops_per_element: int = 1
    """Per output element of an elementwise op, per input element of a reduction."""
    is_commutative: bool = False
    is_exact: bool = False
    """Every IEEE implementation gives the same bits, so constants may be folded."""
    flops_of: Callable[[Call], int] | None = None
    held_of: Callable[[Call], int] | None = None
    """Elements of what its steps hold on the way; None where it has none but its results."""
    least_read: LeastRead | None = None
    """None where all of every operand is read, or what its index is of tells."""
    joined_by: str = ""
    """Of a reduction: the op that joins two numbers as it does; none where that takes more."""
    index_ranges: Callable[[Call], "Ranges"] | None = None
    """`(call)` -> the indices that are in range, by the operand that holds them; None where none
    does."""
    multiplies_all: Callable[[Call], bool] | None = None
    """Of a contraction: say whether no mask, index or step leaves an operand's element out; None
    where its operands' domains tell."""
    operands: int | None = None
    """How many it takes; None where the parameters of its meaning tell."""

    @property
    def operand_bounds(self) -> tuple[int, int | None]:
        """The least and the greatest number of operands; no greatest where any number may be."""
        if self.operands is not None:
            return self.operands, self.operands
        return _arrays_of(self.meaning) if self.meaning is not None else (0, None)

    @property
    def joins_at_indices(self) -> bool:
        """True where it joins updates with what stands at the places that indices name."""
        return self.index_ranges is not None and "reduce" in self.attributes

    def flops(self, call: Call) -> int:
        """Count floating-point operations; a transcendental function counts as eight."""
        if self.flops_of is not None:
            return self.flops_of(call)
        counted = call.inputs if self.kind in (Kind.REDUCTION, Kind.SCAN) else call.outputs
        return self.flops_per_element * max((t.size for t in counted), default=0)
