"""Compiled parts carry no node for derivatives, and differentiate all the same."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Thread

import mlx.core as mx

from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.runtime.models.install import optimize_model, restore_model
from kernelwright.runtime.models.nest import arrays_of
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.server import Service
from tests.runtime.models.replaying import Replaying
from tests.runtime.models.test_first_use import CONFIG

TOKENS = mx.array([[1, 2, 3, 4]])


class Opaque(Replaying):
    """Kernels that MLX records once, and through which no gradient flows by itself."""

    def serve(self, graph: Graph) -> Service:
        return replace(super().serve(graph), is_lazy=True)

    def _program(self, task: Graph) -> RunRegion:
        run = super()._program(task)

        def hidden(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
            return [mx.stop_gradient(a) for a in run(arrays)]

        return hidden


def test_gradients_are_those_of_the_model_as_it_was() -> None:
    model = build_model(CONFIG)

    def loss(parameters: dict[str, object]) -> mx.array:
        model.update(parameters)
        return mx.square(model(TOKENS)).mean()

    held = model.parameters()  # type: ignore[no-untyped-call]
    expected = mx.grad(loss)(held)
    model.update(held)
    server = Opaque()
    optimize_model(model, server)
    mx.eval(model(TOKENS), model(TOKENS))
    assert server.runs > 0
    found = mx.grad(loss)(held)
    restore_model(model)
    pairs = zip(arrays_of(expected), arrays_of(found), strict=True)
    assert all(mx.allclose(one, other, rtol=1e-4, atol=1e-6) for one, other in pairs)


def test_a_part_is_recorded_once_and_not_run_again_by_python() -> None:
    model, server = build_model(CONFIG), Opaque()
    optimize_model(model, server)
    for _ in range(2):
        mx.eval(model(TOKENS))
    before = server.runs
    for _ in range(5):
        mx.eval(model(TOKENS))
    assert server.runs == before


def test_other_threads_get_the_same() -> None:
    model = build_model(CONFIG)
    expected = model(TOKENS)
    mx.eval(expected)
    optimize_model(model, Opaque())
    mx.eval(model(TOKENS))
    found: list[mx.array] = []

    def call() -> None:
        with mx.stream(mx.new_stream(mx.cpu)):
            made = model(TOKENS)
            mx.eval(made)
            found.append(made)

    thread = Thread(target=call)
    thread.start()
    thread.join()
    assert len(found) == 1
    assert mx.allclose(found[0], expected, rtol=1e-5, atol=1e-6)
