"""What MLX's exporter reports of a function, turned into a graph as it is reported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypedDict

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Attribute, Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import rewrite
from kernelwright.ir.graph.sighting import Sighting
from kernelwright.ir.trace.array import DTYPES
from kernelwright.ir.trace.primitive import translate, translate_bare
from kernelwright.ir.trace.recorder import Recorder

Reported = tuple[str, tuple[int, ...], mx.Dtype]
"""A value as the exporter reports it: name, shape, dtype."""


class Event(TypedDict, total=False):
    """What the exporter reports (`ExportCallbackInput` of mlx/export.h)."""

    type: str
    name: str
    inputs: list[Reported]
    outputs: list[Reported]
    constants: list[tuple[str, mx.array]]
    arguments: list[object]


_VIEWED_BYTES = 65536


@dataclass
class Trace:
    """Turns what the exporter reports into values and nodes, as it reports it."""

    types: list[TensorType] = field(default_factory=list)
    number: dict[str, ValueId] = field(default_factory=dict)
    inputs: tuple[ValueId, ...] = ()
    outputs: list[str] = field(default_factory=list)
    constants: list[tuple[str, mx.array]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: int = 0
    """How many of the outputs are the function's own results, where names were watched."""
    seen: list[tuple[Sighting, ...]] = field(default_factory=list)
    """What each output is called in the user's source, where that was watched."""

    def watched(
        self, call: Callable[..., list[mx.array]], recorder: Recorder, *traced: mx.array
    ) -> list[mx.array]:
        """Call a function and return its results, and behind them every array that has a name."""
        with recorder.watching():
            found = call(*traced)
        recorder.is_done = True
        results = {id(array) for array in found}
        named = [a for key, a in recorder.arrays.items() if key not in results]
        self.results = len(found)
        self.seen = [tuple(recorder.sightings.get(id(a), ())) for a in (*found, *named)]
        return [*found, *named]

    def record(self, event: Event) -> None:
        """Take one report; MLX sends inputs, outputs and constants before the primitives."""
        kind = event["type"]
        if kind == "primitive":
            self._add_node(event)
        elif kind == "inputs":
            self.inputs = self._number(event["inputs"])
        elif kind == "outputs":
            self.outputs = [name for name, _, _ in event["outputs"]]
        elif kind == "constants":
            self.constants = event["constants"]
            self._number([(name, a.shape, a.dtype) for name, a in self.constants])

    def _number(self, values: list[Reported]) -> tuple[ValueId, ...]:
        start = len(self.types)
        for place, (name, shape, dtype) in enumerate(values, start):
            self.number[name] = place
            self.types.append(to_type(shape, dtype))
        return tuple(range(start, len(self.types)))

    def _add_node(self, event: Event) -> None:
        number = self.number
        inputs = tuple([number[name] for name, _, _ in event["inputs"]])
        outputs = self._number(event["outputs"])
        arguments = event["arguments"]
        if arguments:
            frozen = tuple([_attribute(value) for value in arguments])
            op, attributes = translate(event["name"], frozen, self.types[outputs[0]])
        else:
            op, attributes = translate_bare(event["name"])
        self.nodes.append(Node(op, inputs, outputs, attributes))

    @property
    def is_complete(self) -> bool:
        """Whether every result was reported as an input, a constant or a node's output."""
        return all(name in self.number for name in self.outputs[: self.results or None])

    @property
    def made_without_inputs(self) -> frozenset[TensorType]:
        """The types of what operations make of constants alone.

        A constant's broadcast is left out, such as of the 0.5 in `x * 0.5`: whoever made it, it
        has the constant's values.
        """
        dependent, apart = set(self.inputs), set[ValueId]()
        for node in self.nodes:
            if not dependent.isdisjoint(node.inputs):
                dependent.update(node.outputs)
            elif node.op != "broadcast" or not apart.isdisjoint(node.inputs):
                apart.update(node.outputs)
        return frozenset(self.types[v] for v in apart)

    def graph(
        self, keywords: Sequence[str], names: Sequence[str], held: Mapping[str, mx.array]
    ) -> Graph:
        """Return the whole, once the trace has ended, with labels where names were watched.

        `held` are the arrays that the function names besides its arguments.
        """
        graph = self._whole(keywords, names)
        if not self.seen:
            return graph
        passed = set(graph.inputs)
        found = self._named_constants(held)
        for name, seen in zip(self.outputs, self.seen, strict=True):
            value = self.number.get(name)
            if value is not None and value not in passed:
                found[value] = (*found.get(value, ()), *seen)
        labels = tuple((value, seen) for value, seen in found.items() if seen)
        return rewrite(replace(graph, labels=labels), [])

    def _named_constants(self, held: Mapping[str, mx.array]) -> dict[ValueId, tuple[Sighting, ...]]:
        """Label the constants whose memory is that of an array with a name."""
        if not held:
            return {}
        mx.eval(list(held.values()))
        names = {_address(array): name for name, array in reversed(list(held.items()))}
        places = ((self.number[key], names.get(_address(array))) for key, array in self.constants)
        return {value: (Sighting(0, (), name, 0),) for value, name in places if name}

    def _whole(self, keywords: Sequence[str], names: Sequence[str]) -> Graph:
        mx.eval([array for _, array in self.constants])
        return Graph(
            types=tuple(self.types),
            inputs=self.inputs,
            constants=tuple((self.number[name], _frozen(array)) for name, array in self.constants),
            nodes=tuple(self.nodes),
            outputs=tuple(self.number[name] for name in self.outputs[: self.results or None]),
            keywords=tuple(keywords),
            names=tuple(names),
        )


def _seen(array: mx.array) -> NDArray[np.generic]:
    """Return MLX's memory of an array; NumPy has no bfloat16, of which it sees the bits."""
    bits = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    return np.array(bits, copy=False)


def _address(array: mx.array) -> tuple[int, tuple[int, ...]]:
    return int(_seen(array).ctypes.data), tuple(array.shape)


def _frozen(array: mx.array) -> Constant:
    """Keep small arrays by value, and weights as views of MLX's memory, which nobody changes."""
    dtype = DTYPES[array.dtype]
    seen = _seen(array)
    type_ = TensorType(tuple(array.shape), dtype)
    if array.nbytes < _VIEWED_BYTES or not seen.flags.c_contiguous:
        return Constant(type_, seen.tobytes())
    octets = seen.reshape(-1).view(np.uint8)
    octets.flags.writeable = False
    return Constant(type_, octets.data)


@cache
def to_type(shape: tuple[int, ...], dtype: mx.Dtype) -> TensorType:
    """Return the type of an array of MLX's."""
    return TensorType(shape, DTYPES[dtype])


def _attribute(value: object) -> Attribute:
    if isinstance(value, list | tuple):
        # mlx/export.h: lists hold numbers, or tuples of booleans.
        return tuple(value)
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, mx.Dtype):
        return DTYPES[value]
    raise UnsupportedError(f"MLX reports an argument of type {type(value).__name__} ({value!r}).")
