"""Kernels for any size are written of a graph in which it is open, whatever decisions see of it."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import Graph, canonicalize, capture, gather_attention
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.lower import lower
from kernelwright.metal.lower.program import opening
from kernelwright.metal.lower.program.opening import Lowered, Opening
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import parse

HALF = mx.zeros((1, 2, 64, 32), mx.float16)
QUERY = HALF[:, :, :1]


def graph_of(queries: mx.array, mask: str | None) -> Graph:
    def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2, mask=mask)

    return gather_attention(canonicalize(capture(attention, queries, HALF, HALF)))


@pytest.mark.parametrize(
    ("queries", "mask", "schedule"),
    [
        (QUERY, None, "attention()"),
        (QUERY, None, "attention(lanes=8, keys=2, chunks=4)"),
        (HALF, "causal", "prefill()"),
        (HALF, None, "prefill()"),
    ],
)
def test_a_program_does_not_hang_on_the_number_that_decisions_see(
    queries: mx.array, mask: str | None, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of(queries, mask)
    program = lower(graph, parse(schedule))
    assert program.is_generic
    others = {"keys": 2000003, "tokens": 3000017}
    monkeypatch.setattr(opening, "_LARGE_PRIMES", others)
    assert lower(graph, parse(schedule)) == program


Text = Callable[[int], str]


def opened(text: Text) -> str | None:
    """Return the line that a kernel has of a size, opened; None where it cannot be."""

    def write(graph: Graph) -> Lowered:
        line = text(graph.input_types[0].shape[0])
        kernel = Kernel(
            name="copy",
            inputs=("x",),
            outputs=("out",),
            source=line,
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
        )
        return Signature.of(graph), (kernel,), ()

    graph = canonicalize(capture(lambda x: x * 2, mx.zeros((8, 4))))
    program = Opening("keys", ((0, 0),)).program(graph, write)
    return None if program is None else program.kernels[0].source.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (lambda n: f"place < {n}u", "place < keys"),
        (lambda n: f"place * {n * 4}ul + 3", "place * keys * 4 + 3"),
        (lambda n: f"place + {n - 1}", "place + keys - 1"),
        (lambda n: f"place * {n - 1}", "place * (keys - 1)"),
        (lambda n: f"place % {n * 2}", "place % (keys * 2)"),
        (lambda n: f"place / {n}", "place / keys"),
        (lambda n: f"{n + 3} / 4", "(keys + 3) / 4"),
    ],
)
def test_the_text_reads_the_size(text: Text, line: str) -> None:
    assert opened(text) == line


@pytest.mark.parametrize(
    "text", [lambda n: f"{n // 3}", lambda n: f"{n % 32}", lambda n: f"{int(n) * 2 + 1}"]
)
def test_a_number_that_follows_in_another_way_keeps_the_size_fixed(text: Text) -> None:
    assert opened(text) is None
