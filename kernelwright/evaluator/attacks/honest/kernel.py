"""What an honest kernel is: a program that computes its task."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program


@dataclass(frozen=True)
class HonestKernel:
    """A program that computes its task."""

    name: str
    task: Task
    make: Callable[[], Program] = field(repr=False)

    @cached_property
    def program(self) -> Program:
        """The program, made when it is first asked for: there are hundreds."""
        return self.make()
