"""Graphs and the functions between them as one compiled function, where only arrays join them.

A layer of Mamba is a graph, the update of its state, and a graph. Called one by one, Python takes
longer for the three than the GPU does.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import mlx.core as mx

from kernelwright.ir.graph import ValueId
from kernelwright.ir.trace.replay import to_mlx_dtype
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.derivative import Flat, have_values, with_derivatives_of
from kernelwright.runtime.models.nest import Ref, leaves
from kernelwright.runtime.models.recorded import OpaqueCall, Trace
from kernelwright.runtime.models.segment import Segment
from kernelwright.runtime.models.straight_line import StraightLine, place_name
from kernelwright.runtime.models.translated import FunctionTrial
from kernelwright.runtime.server import Service

Unit = Segment | OpaqueCall


def is_joined(trace: Trace, call: OpaqueCall) -> bool:
    """Say whether a call is of a function that is tried, and is given and returns arrays alone."""
    places = (leaf.place for leaf in leaves((call.args, call.kwargs)) if type(leaf) is Ref)
    return type(call.target) is FunctionTrial and all(p < len(trace.graph.types) for p in places)


@dataclass(frozen=True)
class Block:
    """Segments and calls that run one behind the other, without a look at state in between."""

    trace: Trace
    units: tuple[Unit, ...]
    services: tuple[Service, ...]
    """Of the segments, in order."""
    others: tuple[Unit, ...]
    """What else the plan runs."""

    @cached_property
    def reads(self) -> tuple[ValueId, ...]:
        """Values that the block is given."""
        made = {value for unit in self.units for value in _made(unit)}
        read = [value for unit in self.units for value in _read(unit)]
        return tuple(dict.fromkeys(value for value in read if value not in made))

    @cached_property
    def makes(self) -> tuple[ValueId, ...]:
        """Values that are read behind the block."""
        made = [value for unit in self.units for value in _made(unit)]
        needed = {value for unit in self.others for value in _read(unit)}
        needed |= {leaf.place for leaf in leaves(self.trace.result) if type(leaf) is Ref}
        return tuple(value for value in made if value in needed)

    def line(
        self, run: Callable[[Service], Flat], function: Callable[[FunctionTrial], object]
    ) -> Flat:
        """Return the block as a function of arrays, each segment and each call by what is given."""
        line = StraightLine()
        line.take(tuple(Ref(value) for value in self.reads), "args")
        services = iter(self.services)
        for unit in self.units:
            if isinstance(unit, Segment):
                reads = ", ".join(map(place_name, unit.reads))
                makes = ", ".join(map(place_name, unit.makes))
                line.say(f"{makes}, = {line.name(run(next(services)))}({reads})")
            else:
                assert type(unit.target) is FunctionTrial
                given = line.arguments(unit.args, unit.kwargs)
                line.keep(unit.result, f"{line.name(function(unit.target))}({given})")
        line.say(f"return [{', '.join(map(place_name, self.makes))}]")
        answer = line.function()
        return lambda *arrays: cast("list[mx.array]", answer(arrays, {}))


class Joined:
    """Runs a block: part by part until its functions are tried, and compiled from then on.

    A function that needs the values of arrays cannot be recorded: such a block stays in parts.
    """

    def __init__(self, block: Block, runs: Sequence[Flat]) -> None:
        """Run the segments by `runs` at first; each was compiled by itself."""
        self._block = block
        self._compiled: Flat | None = None
        targets = [unit.target for unit in block.units if isinstance(unit, OpaqueCall)]
        self._is_recordable = all(type(t) is FunctionTrial and t.is_lazy for t in targets)
        left = iter(runs)
        apart = block.line(lambda service: next(left), lambda trial: trial)
        plain = block.line(lambda service: stitch(service.graph, {}), lambda trial: trial.original)
        self._derived = with_derivatives_of(plain, apart)

    def __call__(self, *arrays: mx.array) -> list[mx.array]:
        """Return what the block makes."""
        if self._compiled is not None:
            return self._compiled(*arrays)
        made = self._derived(*arrays)
        if self._is_recordable and have_values(made):
            try:
                self._compiled = self._whole()
            except Exception:
                # Whatever a recording cannot do, the parts do one by one.
                self._is_recordable = False
        return made

    def _whole(self) -> Flat:
        whole = self._block.line(
            lambda service: stitch(service.graph, service.replacements),
            lambda trial: trial.as_tried,
        )
        recording = threading.local()

        def run(*arrays: mx.array) -> list[mx.array]:
            # MLX comes here again for other shapes, and where it differentiates.
            return (whole if getattr(recording, "is_on", False) else self._derived)(*arrays)

        compiled = cast("Flat", mx.compile(run))
        types = [self._block.trace.graph.types[value] for value in self._block.reads]
        recording.is_on = True
        try:
            compiled(*[mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in types])
        finally:
            recording.is_on = False
        return compiled


def _read(unit: Unit) -> list[ValueId]:
    if isinstance(unit, Segment):
        return list(unit.reads)
    return [leaf.place for leaf in leaves((unit.args, unit.kwargs)) if type(leaf) is Ref]


def _made(unit: Unit) -> list[ValueId]:
    if isinstance(unit, Segment):
        return list(unit.makes)
    return [leaf.place for leaf in leaves(unit.result) if type(leaf) is Ref]
