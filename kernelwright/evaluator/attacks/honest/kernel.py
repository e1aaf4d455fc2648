"""What an honest kernel is: a program that computes its task."""

from dataclasses import dataclass

from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program


@dataclass(frozen=True)
class HonestKernel:
    """A program that computes its task."""

    name: str
    task: Task
    program: Program
