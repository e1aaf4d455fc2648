"""Tracing leaves a program's random numbers alone, and never draws the same ones twice."""

import mlx.core as mx

from kernelwright.ir.trace.random_state import kept_random_state


def test_a_program_draws_what_it_would_have_drawn() -> None:
    mx.random.seed(7)
    wanted = mx.random.uniform(shape=(3,)).tolist()
    mx.random.seed(7)
    with kept_random_state():
        mx.random.uniform(shape=(3,))
    assert mx.random.uniform(shape=(3,)).tolist() == wanted


def test_two_traces_draw_other_numbers() -> None:
    drawn = []
    for _ in range(2):
        mx.random.seed(7)
        with kept_random_state():
            drawn.append(mx.random.uniform(shape=(3,)).tolist())
    assert drawn[0] != drawn[1]
