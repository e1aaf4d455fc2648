"""What a trace of a module's call consists of: a graph, and the calls that are left to state."""

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from kernelwright.ir.graph import Graph
from kernelwright.runtime.models.nest import Key, Ref, is_array, is_fixed, leaves, map_leaves
from kernelwright.runtime.models.rotary import position
from kernelwright.runtime.models.tree import Path


@dataclass(frozen=True)
class ArrayType:
    """The shape and dtype of an array that a module returned."""

    shape: tuple[int, ...]
    dtype: mx.Dtype

    def zeros(self) -> mx.array:
        """Return an array of the type that nothing computes."""
        return mx.zeros(self.shape, self.dtype, stream=mx.cpu)


Call = tuple[tuple[object, ...], dict[str, object]]
CallKind = Literal["module", "method", "attribute", "function", "item", "set_item"]
Results = dict[tuple[int, str, Key], object]
"""By module, method and the arrays given: the nest of a result, types in the place of arrays."""


@dataclass(frozen=True)
class OpaqueCall:
    """A step that is called as it was: a module, a method or an attribute of state, a function."""

    kind: CallKind
    target: object
    """The module's path, the state's place, or the function."""
    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    result: object

    @property
    def only_reads(self) -> bool:
        """True where state is read and nothing computed: what it keeps, or how far it is."""
        return self.kind in ("item", "attribute") or self.target is position


@dataclass(frozen=True)
class Trace:
    """What a call computes; nests hold a `Ref` where an array or state stands.

    Places below `len(graph.types)` are values of the graph, those behind it are state.
    """

    graph: Graph
    call: Call
    parameters: tuple[Path, ...]
    """Where the inputs behind the call's own arrays come from."""
    calls: tuple[OpaqueCall, ...]
    result: object
    places: int
    rotates: bool = False
    """Whether the graph holds rotary embeddings that MLX has a kernel for."""

    @property
    def passed(self) -> frozenset[object]:
        """The call's arguments, by place or name, that are arrays whose shapes do not count.

        No node reads them, and whatever they are handed to is given an array beside that the
        trace computes, as attention is beside its mask: that one decides what comes back.
        """
        read = {v for node in self.graph.nodes for v in node.inputs}
        args, kwargs = self.call
        arrays = {
            name: leaf.place
            for name, leaf in [*enumerate(args), *kwargs.items()]
            if type(leaf) is Ref and leaf.place < len(self.graph.types) and leaf.place not in read
        }
        returned = {leaf.place for leaf in leaves(self.result) if type(leaf) is Ref}
        alone = {v for call in self.calls for v in self._alone(call, set(arrays.values()))}
        return frozenset(name for name, v in arrays.items() if v not in alone | returned)

    def _alone(self, call: OpaqueCall, candidates: set[int]) -> set[int]:
        places = {leaf.place for leaf in leaves((call.args, call.kwargs)) if type(leaf) is Ref}
        arrays = {place for place in places if place < len(self.graph.types)}
        return set() if arrays - candidates else arrays

    @property
    def is_shared(self) -> bool:
        """True where any module of the same structure has the same trace."""
        return all(constant.type.size == 1 for _, constant in self.graph.constants)


def type_of(array: mx.array) -> ArrayType:
    """Return the shape and dtype of an array."""
    return ArrayType(tuple(array.shape), array.dtype)


def result_types(value: object) -> object:
    """Return a nest with types in the place of arrays, and kinds in the place of state."""

    def described(leaf: object) -> object:
        if is_array(leaf):
            return type_of(leaf)
        return leaf if is_fixed(leaf) else type(leaf)

    return map_leaves(value, described)
