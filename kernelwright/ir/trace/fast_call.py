"""Graphs that are one call of a function of `mx.fast`, which a trace on the CPU takes apart."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations, product

import mlx.core as mx

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.naming.idioms import idioms
from kernelwright.ir.passes import canonicalize, standardize
from kernelwright.ir.trace.capture import capture
from kernelwright.ir.trace.replay import to_mlx_dtype

Shape = tuple[int, ...]
Call = Callable[..., mx.array | Sequence[mx.array]]

WITH_IDIOM = frozenset({"rms_norm", "layer_norm", "scaled_dot_product_attention", "cross_entropy"})
"""Functions that `ir.idioms` recognises as parts of any graph."""
KERNEL_MAKERS = frozenset({"metal_kernel", "cuda_kernel", "precompiled_cuda_kernel"})
"""Names in `mx.fast` that compute nothing themselves."""


@dataclass(frozen=True)
class FastCall:
    """A function of `mx.fast` and how it is called with a graph's inputs."""

    name: str
    call: Call

    def __call__(self, *arrays: mx.array) -> list[mx.array]:
        """Return the graph's outputs."""
        result = self.call(*arrays)
        return [result] if isinstance(result, mx.array) else list(result)


@lru_cache(maxsize=256)
def find_fast_call(graph: Graph) -> FastCall | None:
    """Return the call that a graph is, in its standard form; None where it is more, or less.

    A proposal is proved by its own trace: it computes what the graph computes, or is dropped.
    """
    wanted: str | None = None
    for name, propose in WHOLE_CALLS.items():
        for call in propose(graph):
            wanted = wanted or standardize(graph).fingerprint
            if _traced(call, graph.input_types) == wanted:
                return FastCall(name, call)
    return None


def _traced(call: Call, types: Sequence[TensorType]) -> str | None:
    with mx.stream(mx.cpu):
        arrays = [mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in types]
        try:
            graph = capture(call, *arrays)
        except (InputError, UnsupportedError):
            # MLX refuses these shapes or dtypes.
            return None
    return standardize(canonicalize(graph)).fingerprint


def _gated_delta_updates(graph: Graph) -> Iterator[Call]:
    """Propose calls by the shapes of the inputs, in the order of MLX's parameters first."""
    sizes = _gated_delta_sizes(graph)
    if sizes is None:
        return
    roles = [sizes["query"], sizes["query"], sizes["value"], sizes["gate"], sizes["gate"]]
    shapes = [t.shape for t in graph.input_types]
    for extra in ((), ("state",), ("mask",), ("state", "mask")):
        if len(shapes) != len(roles) + len(extra):
            continue
        wanted = [*roles, *(sizes[name] for name in extra)]
        for places in permutations(range(len(shapes))):
            if [shapes[i] for i in places] == wanted:
                yield _gated_delta_update(places, extra, len(graph.outputs))


def _gated_delta_sizes(graph: Graph) -> dict[str, Shape] | None:
    outputs, inputs = [t.shape for t in graph.output_types], [t.shape for t in graph.input_types]
    if [len(shape) for shape in outputs] not in ([4, 4], [4]) or not 5 <= len(inputs) <= 7:
        return None
    batch, tokens, heads, width = outputs[0]
    queries = [s for s in inputs if len(s) == 4 and s[:2] == (batch, tokens) and s != outputs[0]]
    query = queries[0] if queries else outputs[0]
    return {
        "query": query,
        "value": (batch, tokens, heads, width),
        "gate": (batch, tokens, heads),
        "state": (batch, heads, width, query[-1]),
        "mask": (batch, tokens),
    }


def _gated_delta_update(places: Sequence[int], extra: Sequence[str], outputs: int) -> Call:
    def call(*arrays: mx.array) -> list[mx.array]:
        q, k, v, gamma, beta, *others = (arrays[i] for i in places)
        named = dict(zip(extra, others, strict=True))
        found = mx.fast.gated_delta_update(
            q, k, v, gamma, beta, named.get("state"), named.get("mask")
        )
        return list(found)[:outputs]

    return call


def _ropes(graph: Graph) -> Iterator[Call]:
    """Propose bases, scales and offsets that the constants of a graph may have come from.

    An offset may be an array instead, the one input beside the rows.
    """
    found = [idiom for idiom in idioms(graph) if idiom.name == "rope"]
    is_float = [t.dtype.is_float for t in graph.input_types]
    others = [place for place, shows in enumerate(is_float) if not shows]
    if sum(is_float) != 1 or len(others) > 1 or len(found) != 1 or len(graph.outputs) != 1:
        return
    (idiom,) = found
    pairs = graph.types[dict(idiom.operands)["cos"]].shape[-1]
    constants = (constant for _, constant in graph.constants)
    real = (c for c in constants if c.type.size == 1 and not c.type.dtype.is_complex)
    numbers = [float(constant.array.reshape(-1)[0]) for constant in real]
    bases = [_rounded(math.exp(n * pairs)) for n in numbers if 0 < n * pairs < 40]
    scales = dict.fromkeys([1.0, *(n for n in numbers if n > 0)])
    offsets = dict.fromkeys([0, *(int(n) for n in numbers if n == int(n))])
    traditional = idiom.parameter("layout") != "halves"
    for base, scale in product(dict.fromkeys(bases), scales):
        rope = partial(
            mx.fast.rope, dims=2 * pairs, traditional=traditional, base=base, scale=scale
        )
        if others:
            yield _turned_from(rope, is_float.index(True), others[0])
        else:
            yield from (partial(rope, offset=offset) for offset in offsets)


def _turned_from(rope: Call, rows: int, offset: int) -> Call:
    return lambda *arrays: rope(arrays[rows], offset=arrays[offset])


def _rounded(number: float) -> float:
    """Drop the digits that a logarithm in float32 does not keep."""
    return float(f"{number:.5g}")


WHOLE_CALLS: Mapping[str, Callable[[Graph], Iterator[Call]]] = {
    "gated_delta_update": _gated_delta_updates,
    "rope": _ropes,
}
"""Functions that are recognised where a graph is nothing but a call of them."""
