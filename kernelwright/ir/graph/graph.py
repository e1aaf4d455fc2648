"""A captured MLX computation: nodes in SSA form over typed values."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.errors import InputError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.nest import Tree, from_data, to_data
from kernelwright.ir.graph.sighting import Labels
from kernelwright.ir.graph.wiring import check_wiring
from kernelwright.validation import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Attribute = bool | int | float | str | Dtype | tuple["Attribute", ...]
"""What an op's attribute may hold; everything is hashable and survives JSON."""

_TYPE = re.compile(r"(?P<dtype>\w+)\s*\[(?P<shape>[\d,\s]*)\]")
ValueId = int
"""A value's place in `Graph.types`."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The shape and dtype of a value."""

    shape: tuple[int, ...]
    dtype: Dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense array."""
        return self.size * self.dtype.itemsize

    @classmethod
    def parse(cls, text: str) -> "TensorType":
        """Read what `str` writes, such as `bf16[2048,4096]`; spaces and full names are fine.

        Raises:
            InputError: it is no such type.
        """
        match = _TYPE.fullmatch(text.strip())
        if match is None:
            raise InputError(f"expected a type such as 'bf16[2048,4096]', found {text!r}.")
        extents = [extent.strip() for extent in match["shape"].split(",") if extent.strip()]
        return cls(tuple(map(int, extents)), Dtype.parse(match["dtype"]))

    def __str__(self) -> str:
        """Render as on the command line, such as `bf16[2048,4096]`."""
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known at capture, kept as the exact bytes of a dense row-major array.

    Large captured weights are read-only views of the memory that MLX holds them in.
    """

    type: TensorType
    data: bytes | memoryview

    @classmethod
    def of(cls, array: "NDArray[np.generic]", dtype: Dtype) -> "Constant":
        """Freeze a NumPy array, converting it to `dtype`."""
        import numpy as np

        dense = np.ascontiguousarray(array, dtype=dtype.numpy)
        return cls(TensorType(np.shape(array), dtype), dense.tobytes())

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes by value: a view of memory cannot."""
        return Constant, (self.type, bytes(self.data))

    @property
    def array(self) -> "NDArray[np.generic]":
        """The constant as a read-only NumPy array."""
        import numpy as np

        flat = np.frombuffer(self.data, dtype=self.type.dtype.numpy)
        return flat.reshape(self.type.shape)

    @property
    def number(self) -> float | None:
        """The real number that it holds; None where it holds several, or a complex one."""
        if self.type.size != 1:
            return None
        number = self.array.reshape(-1)[0]
        if self.type.dtype.is_complex:
            return float(number.real) if number.imag == 0 else None
        return float(number)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation; `op` is a key of the op table, attributes are named by it."""

    op: str
    inputs: tuple[ValueId, ...]
    outputs: tuple[ValueId, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def attribute(self, name: str) -> Attribute:
        """Return one attribute's value; KeyError when the op has none of that name."""
        return dict(self.attributes)[name]

    def has(self, name: str) -> bool:
        """Say whether the attribute is present."""
        return any(key == name for key, _ in self.attributes)


@dataclass(frozen=True)
class Graph:
    """A pure function of arrays in SSA form.

    `types[v]` is the type of value `v`. Every value is exactly one of: an input, a constant,
    an output of one node. `nodes` are in topological order. `inputs` holds positional inputs
    first, then keyword inputs; `keywords` names the latter, in the same order.
    """

    types: tuple[TensorType, ...]
    inputs: tuple[ValueId, ...]
    constants: tuple[tuple[ValueId, Constant], ...]
    nodes: tuple[Node, ...]
    outputs: tuple[ValueId, ...]
    keywords: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Names of `inputs` for people; they identify nothing."""
    turns: tuple[int, ...] = ()
    """For each input its place among a caller's arguments, if it is another one than here; these
    identify nothing either."""
    labels: Labels = field(default=(), compare=False, repr=False)
    """What values are called in the user's source, where a trace saw it."""
    results: Tree = field(default=None, compare=False)
    """What its function makes of `outputs`, where that is known; it identifies nothing."""

    def __hash__(self) -> int:
        """Hash the structure, once; reading every captured weight would take seconds."""
        return self._structure_hash

    def __getstate__(self) -> dict[str, object]:
        """Leave caches behind: Python's hashes differ between processes."""
        return {f.name: self.__dict__[f.name] for f in fields(self)}

    @cached_property
    def _structure_hash(self) -> int:
        return hash((self.types, self.inputs, self.nodes, self.outputs))

    @cached_property
    def answers(self) -> dict[object, object]:
        """What functions have found out about this very graph, by function."""
        return {}

    @property
    def element_count(self) -> int:
        """Elements of all inputs and outputs together."""
        return sum(type_.size for type_ in (*self.input_types, *self.output_types))

    @cached_property
    def constant_of(self) -> Mapping[ValueId, Constant]:
        """Constants by value."""
        return dict(self.constants)

    @cached_property
    def producer_of(self) -> Mapping[ValueId, int]:
        """Index in `nodes` of the node that makes each value."""
        return {v: i for i, node in enumerate(self.nodes) for v in node.outputs}

    @cached_property
    def consumers_of(self) -> Mapping[ValueId, tuple[int, ...]]:
        """Indices in `nodes` of the nodes that read each value."""
        readers: dict[ValueId, list[int]] = {v: [] for v in range(len(self.types))}
        for index, node in enumerate(self.nodes):
            for value in dict.fromkeys(node.inputs):
                readers[value].append(index)
        return {value: tuple(indices) for value, indices in readers.items()}

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """Types of the inputs, in call order."""
        return tuple(self.types[v] for v in self.inputs)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Types of the outputs, in order."""
        return tuple(self.types[v] for v in self.outputs)

    @cached_property
    def fingerprint(self) -> str:
        """64 hex digits over ops, attributes, constants, wiring, shapes and dtypes only.

        Values are renumbered from the outputs backwards, so neither dead values nor the order
        in which a tracer happened to list independent nodes can change it.
        """
        text = json.dumps(_canonical(self), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, `x0`, `x1`, … where none were given."""
        if self.names:
            return self.names
        return tuple(f"x{i}" for i in range(len(self.inputs)))

    def as_called(self) -> tuple[int, ...]:
        """Return the positions of the inputs in the order in which a caller passes them."""
        every = range(len(self.inputs))
        return tuple(sorted(every, key=lambda i: self.turns[i])) if self.turns else tuple(every)

    def to_json(self) -> str:
        """Serialise without loss; `from_json` reads it back."""
        return json.dumps(
            {
                "types": [[list(t.shape), t.dtype.value] for t in self.types],
                "inputs": self.inputs,
                "keywords": self.keywords,
                "names": self.names,
                **({"turns": self.turns} if self.turns else {}),
                **({} if self.results is None else {"results": to_data(self.results)}),
                "constants": [
                    [value, base64.b64encode(constant.data).decode()]
                    for value, constant in self.constants
                ],
                "nodes": [
                    [n.op, n.inputs, n.outputs, {k: _encode(v) for k, v in n.attributes}]
                    for n in self.nodes
                ],
                "outputs": self.outputs,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> "Graph":
        """Read what `to_json` wrote.

        Raises:
            InputError: the text is not a graph, or its values do not hang together.
        """
        try:
            graph = _parse(json.loads(text))
        except _UNREADABLE as e:
            raise InputError(f"expected the JSON of a graph, found {text[:60]!r} ({e}).") from e
        check_wiring(graph)
        return graph


_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises where a text has another form than `to_json` writes."""


def _parse(data: dict[str, list[list[object]]]) -> Graph:
    raw: dict[str, list] = data  # type: ignore[type-arg]
    types = tuple(TensorType(_integers(shape), Dtype(dtype)) for shape, dtype in raw["types"])
    return Graph(
        types=types,
        inputs=_integers(raw["inputs"]),
        keywords=_texts(raw["keywords"]),
        names=_texts(raw["names"]),
        turns=_integers(raw.get("turns", [])),
        results=from_data(raw.get("results")),
        constants=tuple(
            (value, Constant(types[value], base64.b64decode(encoded)))
            for value, encoded in raw["constants"]
        ),
        nodes=tuple(
            Node(op, _integers(ins), _integers(outs), tuple((k, _decode(v)) for k, v in a.items()))
            for (op,), ins, outs, a in ((_texts([op]), *rest) for op, *rest in raw["nodes"])
        ),
        outputs=_integers(raw["outputs"]),
    )


def _integers(items: list[object]) -> tuple[int, ...]:
    found = tuple(item for item in items if type(item) is int)
    if len(found) != len(items):
        raise TypeError(f"expected whole numbers, found {shown(items)}")
    return found


def _texts(items: list[object]) -> tuple[str, ...]:
    found = tuple(item for item in items if isinstance(item, str))
    if len(found) != len(items):
        raise TypeError(f"expected texts, found {shown(items)}")
    return found


def _encode(value: Attribute) -> object:
    # Dtypes and floats are tagged: JSON would turn the first into text and has no inf or nan.
    if isinstance(value, Dtype):
        return {"dtype": value.value}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _decode(value: object) -> Attribute:
    if isinstance(value, dict):
        return Dtype(value["dtype"]) if "dtype" in value else float.fromhex(value["float"])
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, bool | int | str):
        raise TypeError(f"expected an attribute of an op, found {shown(value)}")
    return value


def _canonical(graph: Graph) -> dict[str, object]:
    number: dict[ValueId, int] = {}
    nodes: list[object] = []
    constants: list[object] = []
    for value in graph.inputs:
        number[value] = len(number)
    for node in _from_outputs(graph):
        for value in node.inputs:
            if value in graph.constant_of and value not in number:
                number[value] = len(number)
                digest = hashlib.sha256(graph.constant_of[value].data).hexdigest()
                constants.append([number[value], str(graph.types[value]), digest])
        for value in node.outputs:
            number[value] = len(number)
        nodes.append(
            [
                node.op,
                [number[v] for v in node.inputs],
                [[number[v], str(graph.types[v])] for v in node.outputs],
                sorted([k, _encode(v)] for k, v in node.attributes),
            ]
        )
    for value in graph.outputs:
        if value not in number:
            number[value] = len(number)
            digest = hashlib.sha256(graph.constant_of[value].data).hexdigest()
            constants.append([number[value], str(graph.types[value]), digest])
    return {
        "inputs": [str(t) for t in graph.input_types],
        "constants": constants,
        "nodes": nodes,
        "outputs": [number[v] for v in graph.outputs],
    }


def _from_outputs(graph: Graph) -> Iterator[Node]:
    """Live nodes in the depth-first order of the outputs, producers before consumers."""
    done: set[int] = set()
    stack = [(v, False) for v in reversed(graph.outputs)]
    while stack:
        value, expanded = stack.pop()
        index = graph.producer_of.get(value)
        if index is None or index in done:
            continue
        if expanded:
            done.add(index)
            yield graph.nodes[index]
            continue
        stack.append((value, True))
        stack.extend((v, False) for v in reversed(graph.nodes[index].inputs))
