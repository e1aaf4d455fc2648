"""Bounds of every option that takes a number: each is finite, and none overflows what it counts."""

from typing import get_args

from typer.core import TyperArgument, TyperCommand, TyperOption

from kernelwright.validation import LARGEST


def bound_numbers(command: TyperCommand) -> None:
    """Give each number of a command the largest bounds that there are, where it has none.

    Help pages go on to show the command's own bounds alone.
    """
    for parameter in command.params:
        if not isinstance(parameter, TyperOption | TyperArgument):
            continue
        described = parameter.type_descriptor
        kinds = {described.annotation, *get_args(described.annotation)}
        number = next((kind for kind in (int, float) if kind in kinds), None)
        if number is None:
            continue
        info = described.parameter_info
        info.min = number(-LARGEST) if info.min is None else info.min
        info.max = number(LARGEST) if info.max is None else info.max
