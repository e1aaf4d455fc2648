"""Steps that may be tried for a task, and what they brought: what a campaign remembers of them."""

from enum import StrEnum

from kernelwright.metal.diagnostic import Record


class Step(StrEnum):
    """What may be tried next for a task."""

    TUNE = "tune"
    """Another schedule of a template, or other values of a program's tunables."""
    IDEA = "idea"
    IMPROVE = "improve"
    COMBINE = "combine"
    """What is good about programs of two islands in one."""
    REPAIR = "repair"


class Credited(Record):
    """What a step cost and gained, as a campaign remembers it."""

    step: Step
    model: str
    gain: float
    lead: float = 0.0
    """The logarithm of how many times faster than MLX the first right program is, which the
    bandit does not weigh: whichever step is the first would be taken again for it."""
    dollars: float
    """What the model charged and the machine took, in one currency."""
    paid: float = 0.0
    """What the model charged."""
    tries: int = 1
    """0 for what was paid after a step, such as for telling its last verdict."""
    weight: float = 1.0
    """How many tries it counts for: what other kinds of tasks taught counts less."""
