"""A plan of faults as a TOML file: what shall go wrong in a rehearsal, and when."""

import random
import tomllib
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

FaultKind = Literal[
    "kill",
    "interrupt",
    "worker_dies",
    "worker_hangs",
    "driver_silent",
    "disk_full",
    "store_away",
    "clock_jumps",
    "model_busy",
    "model_overloaded",
    "model_reset",
    "model_stalls",
    "model_garbled",
    "reply_lost",
    "network_down",
]
Moment = Literal["write", "commit", "evaluation", "call", "second"]
"""Before a write to the store, after it, before an evaluation or a model's call; a second."""
_ALWAYS: tuple[Moment, ...] = get_args(Moment)
_MOMENTS: dict[FaultKind, tuple[Moment, ...]] = {
    "kill": _ALWAYS,
    "interrupt": _ALWAYS,
    "clock_jumps": _ALWAYS,
    "disk_full": ("write",),
    "store_away": ("write",),
    "worker_dies": ("evaluation",),
    "worker_hangs": ("evaluation",),
    "driver_silent": ("evaluation",),
}
_MODEL: tuple[Moment, ...] = ("call",)


def moments_of(kind: FaultKind) -> tuple[Moment, ...]:
    """Return when a fault of a kind can be injected, the usual moment first."""
    return _MOMENTS.get(kind, _MODEL)


class Fault(Record):
    """One thing that goes wrong, once."""

    kind: FaultKind
    at: Moment
    number: int = Field(ge=1)
    """Which such moment of a process, from 1."""
    lasts: int = Field(default=1, ge=1)
    """How many such moments in a row it goes on for."""
    hours: float = -3.0
    """How far a clock jumps."""

    @model_validator(mode="before")
    @classmethod
    def _usual_moment(cls, given: object) -> object:
        if (
            isinstance(given, dict)
            and "at" not in given
            and given.get("kind") in get_args(FaultKind)
        ):
            return {**given, "at": moments_of(given["kind"])[0]}
        return given

    @model_validator(mode="after")
    def _can_happen_then(self) -> Self:
        allowed = moments_of(self.kind)
        if self.at not in allowed:
            raise ValueError(f"{self.kind} happens at {' or '.join(allowed)}, not at {self.at}")
        return self

    def is_in_force(self, moment: Moment, number: int) -> bool:
        """Say whether it goes wrong at the n-th such moment."""
        return self.at == moment and self.number <= number < self.number + self.lasts


class Draw(Record):
    """Faults drawn at random, the same ones for the same seed."""

    seed: int = 0
    count: int = Field(default=20, ge=1)
    kinds: tuple[FaultKind, ...] = Field(default=get_args(FaultKind), min_length=1)
    within: int = Field(default=40, ge=1)
    """The latest moment of its kind at which a fault happens."""


class FaultPlan(Record):
    """Everything that goes wrong."""

    faults: tuple[Fault, ...] = ()
    draw: Draw | None = None

    @property
    def all(self) -> tuple[Fault, ...]:
        """The faults that are written down, then those that are drawn."""
        return (*self.faults, *(drawn(self.draw) if self.draw else ()))


def drawn(draw: Draw) -> tuple[Fault, ...]:
    """Draw faults."""
    chance = random.Random(draw.seed)
    kinds = [chance.choice(draw.kinds) for _ in range(draw.count)]
    return tuple(
        Fault(
            kind=kind,
            at=chance.choice(moments_of(kind)),
            number=chance.randint(1, draw.within),
            hours=chance.choice((-48.0, -3.0, 3.0, 48.0)),
        )
        for kind in kinds
    )


def read_plan(path: Path) -> FaultPlan:
    """Read a plan's file.

    Raises:
        InputError: the file is not there, is no TOML, or a key is wrong.
    """
    try:
        return FaultPlan.model_validate(tomllib.loads(path.read_text()))
    except OSError as e:
        raise InputError(f"expected a plan of faults at {str(path)!r}: {e.strerror}.") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise InputError(f"{path} is no TOML: {e}.") from e
    except ValidationError as e:
        first = e.errors()[0]
        place = " ".join(str(step + 1 if isinstance(step, int) else step) for step in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        found = f", found {first['input']!r}" if first["type"] != "value_error" else ""
        raise InputError(f"{path}: {place}: {words[0].lower()}{words[1:]}{found}.") from e
