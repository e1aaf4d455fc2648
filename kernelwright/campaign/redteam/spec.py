"""What a red team is asked to do."""

from kernelwright.agents.budget import Caps
from kernelwright.metal.diagnostic import Record


class RedTeamSpec(Record):
    """What a red team may do."""

    attacks: int = 12
    """The most for each target."""
    batch: int = 4
    """Attacks that a model is asked for at once."""
    seed: int = 1
    """Draws mutants, and the inputs on which accepted programs are tried again."""
    secrets: int = 6
    """Draws of all inputs on which an accepted program is tried again."""
    battery_s: float = 120.0
    """The most time for that, for each accepted program."""
    seconds: float | None = None
    models: tuple[str, ...] = ()
    base_url: str | None = None
    caps: Caps = Caps()
