"""Every mutation operator, and the mutants that they make of a program."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate import launching
from kernelwright.evaluator.attacks.mutate.operators import (
    accumulate,
    arithmetic,
    bound,
    condition,
    index,
    statement,
    thread,
)
from kernelwright.evaluator.attacks.mutate.record import Group, Mutant, TextOperator
from kernelwright.evaluator.attacks.mutate.text import MetalText
from kernelwright.metal.kernel import Kernel, Program

TEXT_OPERATORS: tuple[TextOperator, ...] = (
    *bound.OPERATORS,
    *index.OPERATORS,
    *arithmetic.OPERATORS,
    *accumulate.OPERATORS,
    *condition.OPERATORS,
    *thread.OPERATORS,
    *statement.OPERATORS,
)
LAUNCH_OPERATORS = launching.OPERATORS
GROUPS: dict[str, Group] = {
    **{o.name: o.group for o in TEXT_OPERATORS},
    **dict.fromkeys((o.name for o in LAUNCH_OPERATORS), "launch"),
}
"""The group of each operator, by name."""
CHOICES = frozenset(
    (
        *(operator.name for operator in TEXT_OPERATORS if operator.is_choice),
        *(operator.name for operator in LAUNCH_OPERATORS if operator.is_choice),
    )
)
"""Operators whose mutants the evaluator may rightly accept."""


def mutants_of(program: Program) -> Iterator[Mutant]:
    """Yield every mutant of a program, operator by operator for each of its kernels."""
    for place, kernel in enumerate(program.kernels):
        for text in _texts(program, kernel):
            yield from _text_mutants(program, place, text)
        for operator in LAUNCH_OPERATORS:
            for found in operator.mutants(kernel):
                yield Mutant(
                    operator.name,
                    place,
                    "launch",
                    0,
                    found.before,
                    found.after,
                    _with_kernel(program, place, found.kernel),
                    shows_in_code=operator.shows_in_code,
                )


def _texts(program: Program, kernel: Kernel) -> Iterator[MetalText]:
    arrays = (*program.inputs, *program.temporaries, *program.outputs)
    types = {t.name: f"{t.dtype.short}{t.shape}" for t in arrays}
    inputs = tuple((name, types[name]) for name in kernel.inputs)
    yield MetalText(kernel.source, inputs, kernel.outputs)
    if kernel.header:
        yield MetalText(kernel.header, is_body=False)


def _text_mutants(program: Program, place: int, text: MetalText) -> Iterator[Mutant]:
    field = "source" if text.is_body else "header"
    for operator in TEXT_OPERATORS:
        for found in operator.mutants(text):
            kernel = program.kernels[place].model_copy(update={field: found.source})
            yield Mutant(
                operator.name,
                place,
                "source" if text.is_body else "header",
                found.line,
                found.before,
                found.after,
                _with_kernel(program, place, kernel),
                shows_in_code=operator.shows_in_code,
            )


def _with_kernel(program: Program, place: int, kernel: Kernel) -> Program:
    kernels = (*program.kernels[:place], kernel, *program.kernels[place + 1 :])
    return program.model_copy(update={"kernels": kernels})
