"""How one call of a module is answered: kernels, MLX, and state in the order of the trace."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.trace.interpret import constant_array
from kernelwright.ir.trace.replay import to_mlx_dtype
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.derivative import Flat, with_derivatives_of
from kernelwright.runtime.fast import put_back
from kernelwright.runtime.models.cached_attention import (
    AttentionKernels,
    append,
    cached_attentions,
    fetched_from,
)
from kernelwright.runtime.models.first_use import FirstUse
from kernelwright.runtime.models.joined import Block, Joined, Unit, is_joined
from kernelwright.runtime.models.nest import Ref, leaves
from kernelwright.runtime.models.recorded import OpaqueCall, Trace
from kernelwright.runtime.models.rotary import StaleError
from kernelwright.runtime.models.segment import Segment, segments_of
from kernelwright.runtime.models.straight_line import Run, StraightLine, place_name
from kernelwright.runtime.models.translated import FunctionTrial
from kernelwright.runtime.models.tree import at
from kernelwright.runtime.server import KernelServer, Service

ROPE = "rotary embeddings"
"""The part of a plan that computes them in its graphs."""


@dataclass(frozen=True, eq=False)
class _Step:
    """A segment ready to run."""

    segment: Segment
    run: Flat
    service: Service


@dataclass(frozen=True)
class Plan:
    """A trace with kernels for some of its segments; modules of one structure share it."""

    trace: Trace
    services: tuple[tuple[Segment, Service], ...]
    steps: tuple[_Step, ...]
    attentions: tuple[tuple[AttentionKernels, int], ...] = ()
    """Those that kernels answer, with the length of the buffers that was asked for."""
    joined: dict[tuple[ValueId, ...], Joined] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What runs as one function, by what it makes; recorded once for all modules."""
    otherwise: "Plan | None" = field(default=None, compare=False, repr=False)
    """The plan that leaves rotary embeddings to MLX's own kernel, where this one computes them."""

    @property
    def covered_bytes(self) -> int:
        """What kernels read of the module's parameters: most of a decode step's time is bytes."""
        graph = self.trace.graph
        count = _returned(self.trace)
        given = len(graph.inputs) - len(self.trace.parameters) - count
        parameters = set(graph.inputs[given : len(graph.inputs) - count])
        read = sum(
            graph.types[segment.reads[place]].nbytes
            for segment, service in self.services
            for region in (*service.programs, *(offer.region for offer in service.offers))
            for place, v in enumerate(service.graph.inputs)
            if v in region.inputs and segment.reads[place] in parameters
        )
        return read + sum(kernels.attention.nbytes(length) for kernels, length in self.attentions)

    @property
    def parts(self) -> frozenset[str]:
        """Name what may be left to MLX by itself: the kernels between two calls, an attention."""
        names = {
            f"graph {number}"
            for number, (_, service) in enumerate(self.services)
            if service.programs
        }
        names |= {f"attention {number}" for number, _ in enumerate(self.attentions)}
        names |= {ROPE} if self.otherwise is not None else set()
        return frozenset(names or {"functions"})

    @property
    def is_untried(self) -> bool:
        """Say whether kernels from elsewhere are still to be tried."""
        return any(service.offers for _, service in self.services) or any(
            kernels.has_offers for kernels, _ in self.attentions
        )

    def modules_apart(self, module: Module) -> list[Module]:
        """Return the modules inside that are called as they are."""
        paths = [call.target for call in self.trace.calls if call.kind == "module"]
        return [cast("Module", at(module, path)) for path in paths]  # type: ignore[arg-type]


def make_plan(trace: Trace, server: KernelServer, lengths: Sequence[int] = ()) -> Plan | None:
    """Look a trace's segments up in the store; None where no kernel serves any.

    Attention over caches is looked up for buffers of these `lengths`.
    """
    services = tuple((segment, server.serve(segment.graph)) for segment in segments_of(trace))
    attentions = _attentions(trace, server, lengths)
    is_translated = any(type(call.target) is FunctionTrial for call in trace.calls)
    is_served = any(s.programs or s.offers for _, s in services)
    if not attentions and not is_served and not is_translated:
        return None
    is_lazy = all(service.is_lazy for _, service in services if service.programs)
    completed = [_completed(service, is_lazy=is_lazy) for _, service in services]
    if any(service is None for service in completed):
        return None
    pairs = zip(services, completed, strict=True)
    services = tuple((segment, service) for (segment, _), service in pairs if service is not None)
    steps = tuple(
        _Step(segment, _answering(service, server), service) for segment, service in services
    )
    return Plan(trace, services, steps, attentions)


def restricted(plan: Plan, server: KernelServer, parts: frozenset[str]) -> Plan | None:
    """Return a plan with some of its parts alone; None where MLX cannot take the others' place.

    Where rotary embeddings are left to MLX they are so by the plan that was made without them.
    """
    other = plan.otherwise
    if other is not None and ROPE not in parts:
        known = parts & other.parts
        return other if known == other.parts else restricted(other, server, known)
    is_lazy = all(service.is_lazy for _, service in plan.services if service.programs)
    services: list[tuple[Segment, Service]] = []
    for number, (segment, service) in enumerate(plan.services):
        found: Service | None = service
        if service.programs and f"graph {number}" not in parts:
            bare = replace(service, programs={}, regions=(), kept={}, offers=())
            found = _completed(bare, is_lazy=is_lazy)
        if found is None:
            return None if other is None else restricted(plan, server, parts - {ROPE})
        services.append((segment, found))
    steps = tuple(
        _Step(segment, _answering(service, server), service) for segment, service in services
    )
    attentions = tuple(
        attention
        for number, attention in enumerate(plan.attentions)
        if f"attention {number}" in parts
    )
    return Plan(plan.trace, tuple(services), steps, attentions)


def _attentions(
    trace: Trace, server: KernelServer, lengths: Sequence[int]
) -> tuple[tuple[AttentionKernels, int], ...]:
    found = []
    for attention in cached_attentions(trace) if lengths else ():
        kernels = AttentionKernels(attention, server)
        served = next((length for length in lengths if kernels.is_known(length)), None)
        if served is not None:
            found.append((kernels, served))
    return tuple(found)


def _completed(service: Service, *, is_lazy: bool) -> Service | None:
    """Return a segment that no program serves with MLX's own kernels; None where it has others."""
    if service.programs:
        return service
    # What is still to be tried is computed op by op in the call that tries it.
    offered = frozenset(i for offer in service.offers for i in offer.region.indices)
    kept, left = put_back(service.graph, offered)
    return None if left else replace(service, kept=kept, is_lazy=is_lazy)


def _answering(service: Service, server: KernelServer) -> Flat:
    run = _function(service)
    return FirstUse(service, server, run) if service.offers else run


def _function(service: Service) -> Flat:
    graph = service.graph
    expected = tuple((type_.shape, to_mlx_dtype(type_.dtype)) for type_ in graph.input_types)
    run = stitch(graph, service.replacements)
    derived = run
    if service.programs:
        derived = with_derivatives_of(stitch(graph, {}), run, is_lazy=service.is_lazy)
    recording = threading.local()

    def checked(*arrays: mx.array) -> list[mx.array]:
        # Asked when MLX records the call, or when it has other shapes than were recorded.
        if tuple((a.shape, a.dtype) for a in arrays) != expected:
            raise StaleError("a parameter has another shape or dtype than when it was traced.")
        return run(*arrays) if getattr(recording, "is_on", False) else derived(*arrays)

    if not service.is_lazy:
        return checked
    compiled = cast("Flat", mx.compile(checked))
    # MLX calls the function itself where it differentiates; what is recorded here need not be
    # differentiated, and a node for that costs as much host time as two launches.
    recording.is_on = True
    compiled(*[mx.zeros(shape, dtype) for shape, dtype in expected])
    recording.is_on = False
    return compiled


def bind(plan: Plan, module: Module) -> Run:
    """Return a plan as an answer for the calls of one module."""
    trace = plan.trace
    first = len(trace.graph.inputs) - len(trace.parameters) - _returned(trace)
    graph = trace.graph
    held = [
        (at(module, path[:-1]), path[-1], graph.inputs[first + i])
        for i, path in enumerate(trace.parameters)
    ]
    read = {v for step in plan.steps for v in step.segment.reads}
    used = {leaf.place for leaf in leaves((trace.result, *_arguments(trace))) if type(leaf) is Ref}
    held = [(holder, key, place) for holder, key, place in held if place in read | used]
    if not trace.calls and len(plan.steps) == 1 and type(trace.result) is Ref:
        return _single(plan, held)
    return _general(plan, module, held)


def _returned(trace: Trace) -> int:
    count = len(trace.graph.types)
    found = leaves([call.result for call in trace.calls])
    return sum(type(leaf) is Ref and leaf.place < count for leaf in found)


def _arguments(trace: Trace) -> list[object]:
    return [(call.args, call.kwargs) for call in trace.calls]


def _given_places(trace: Trace) -> list[ValueId | None]:
    return [leaf.place if type(leaf) is Ref else None for leaf in leaves(trace.call)]


def _constants(graph: Graph) -> dict[ValueId, mx.array]:
    return {value: constant_array(constant) for value, constant in graph.constants}


Held = Sequence[tuple[object, object, ValueId]]


def _single(plan: Plan, held: Held) -> Run:
    """Answer a call of arrays alone by one compiled function."""
    (step,) = plan.steps
    places = {place: i for i, place in enumerate(_given_places(plan.trace)) if place is not None}
    constants = _constants(plan.trace.graph)
    fixed = {place: (holder, key) for holder, key, place in held}
    is_given = [place in places for place in step.segment.reads]
    sources: list[object] = [
        places.get(p, fixed.get(p, constants.get(p))) for p in step.segment.reads
    ]
    assert isinstance(plan.trace.result, Ref)
    out = step.segment.makes.index(plan.trace.result.place)
    run = step.run
    reads = list(zip(is_given, sources, strict=True))

    def answer(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        flat = args if not kwargs else leaves((args, dict(kwargs)))
        arrays = [
            flat[source]  # type: ignore[call-overload]
            if given
            else (source[0][source[1]] if type(source) is tuple else source)
            for given, source in reads
        ]
        return run(*arrays)[out]

    def nested(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        return answer(tuple(leaves((args, dict(kwargs)))), {})

    is_flat = all(not isinstance(leaf, tuple | list | dict) for leaf in plan.trace.call[0])
    return answer if is_flat else nested


def _general(plan: Plan, module: Module, held: Held) -> Run:
    trace = plan.trace
    line = StraightLine()
    for value, array in _constants(trace.graph).items():
        line.say(f"{place_name(value)} = {line.name(array)}")
    line.take(trace.call[0], "args")
    line.take(trace.call[1], "kwargs")
    for holder, key, place in held:
        line.say(f"{place_name(place)} = {line.name(holder)}[{line.expression(key)}]")
    attending = {kernels.attention.number: kernels for kernels, _ in plan.attentions}
    appended = {kernels.attention.taken: n for n, kernels in attending.items()}
    appended = {n: at for n, at in appended.items() if _feeds_alone(trace, n, at)}
    for units in _blocks(plan):
        if len(units) > 1:
            _run_block(line, plan, units)
            continue
        (unit,) = units
        if isinstance(unit, _Step):
            _run_step(line, unit)
            continue
        number = unit
        if number in appended:
            _append(line, trace.calls[number])
        elif number in attending:
            taken = attending[number].attention.taken
            fetch = trace.calls[taken] if taken in appended else None
            _attend(line, attending[number], trace.calls[number], fetch, module)
        else:
            _call(line, trace.calls[number], module)
    line.say(f"return {line.expression(trace.result)}")
    return line.function()


def _blocks(plan: Plan) -> list[list[_Step | int]]:
    """Return steps and numbers of calls in order; those that run as one function together."""
    trace = plan.trace
    units: list[_Step | int] = []
    for number in range(len(trace.calls) + 1):
        units += [step for step in plan.steps if step.segment.before == number]
        units += [number] if number < len(trace.calls) else []
    is_lazy = all(step.service.is_lazy for step in plan.steps)
    blocks: list[list[_Step | int]] = []
    for unit in units:
        if blocks and is_lazy and all(_may_join(trace, u) for u in (*blocks[-1], unit)):
            blocks[-1].append(unit)
        else:
            blocks.append([unit])
    return [part for block in blocks for part in _kept_together(block)]


def _may_join(trace: Trace, unit: _Step | int) -> bool:
    if isinstance(unit, _Step):
        return not isinstance(unit.run, FirstUse)
    return is_joined(trace, trace.calls[unit])


def _kept_together(block: list[_Step | int]) -> list[list[_Step | int]]:
    """Return a block as it is where it has a function, and its steps one by one elsewhere."""
    return [block] if any(isinstance(u, int) for u in block) else [[unit] for unit in block]


def _run_block(line: StraightLine, plan: Plan, units: Sequence[_Step | int]) -> None:
    def part(unit: _Step | int) -> Unit:
        return plan.trace.calls[unit] if isinstance(unit, int) else unit.segment

    everything = [*plan.steps, *range(len(plan.trace.calls))]
    steps = [unit for unit in units if isinstance(unit, _Step)]
    block = Block(
        trace=plan.trace,
        units=tuple(map(part, units)),
        services=tuple(step.service for step in steps),
        others=tuple(part(unit) for unit in everything if unit not in units),
    )
    reads = ", ".join(map(place_name, block.reads))
    makes = ", ".join(map(place_name, block.makes))
    if block.makes not in plan.joined:
        plan.joined[block.makes] = Joined(block, [step.run for step in steps])
    line.say(f"{makes}, = {line.name(plan.joined[block.makes])}({reads})")


def _feeds_alone(trace: Trace, taking: int, attending: int) -> bool:
    """Say whether what a cache fetched is read by one attention, and by nothing else."""
    fetched = {leaf.place for leaf in leaves(trace.calls[taking].result) if type(leaf) is Ref}
    others = [(c.target, c.args, c.kwargs) for n, c in enumerate(trace.calls) if n != attending]
    read = {leaf.place for leaf in leaves([*others, trace.result]) if type(leaf) is Ref}
    return not fetched & read


def _run_step(line: StraightLine, step: _Step) -> None:
    reads = ", ".join(map(place_name, step.segment.reads))
    makes = ", ".join(map(place_name, step.segment.makes))
    line.say(f"{makes}, = {line.name(step.run)}({reads})")


def _append(line: StraightLine, call: OpaqueCall) -> None:
    """Let a cache take keys and values in; views of what it holds are made where they are read."""
    given = line.arguments((call.target, *call.args), call.kwargs)
    line.say(f"fetched = {line.name(append)}({given})")


def _attend(
    line: StraightLine,
    kernels: AttentionKernels,
    call: OpaqueCall,
    fetch: OpaqueCall | None,
    module: Module,
) -> None:
    """Attend by a kernel, or as mlx-lm does where none serves the cache as it is now."""
    attention = kernels.attention
    query, state, made = map(
        place_name, (attention.query_place, attention.state_place, attention.made_place)
    )
    line.say(f"{made} = {line.name(kernels.answer)}({query}, {state})")
    line.say(f"if {made} is None:")
    if fetch is not None:
        line.keep(fetch.result, f"{line.name(fetched_from)}({state}, fetched)", depth=1)
    _call(line, call, module, depth=1)


def _call(line: StraightLine, call: OpaqueCall, module: Module, depth: int = 0) -> None:
    """Call what was called, as it was."""
    target = line.expression(call.target) if type(call.target) is Ref else ""
    if call.kind == "item":
        line.keep(call.result, f"{target}[{int(call.name)}]", depth=depth)
    elif call.kind == "set_item":
        line.say(f"{target}[{int(call.name)}] = {line.expression(call.args[0])}", depth=depth)
    elif call.kind == "attribute":
        line.keep(call.result, f"{target}.{call.name}", depth=depth)
    else:
        if call.kind == "module":
            function = line.name(at(module, call.target))  # type: ignore[arg-type]
        elif call.kind == "function":
            function = line.name(call.target)
        else:
            function = f"{target}.{call.name}"
        given = line.arguments(call.args, call.kwargs)
        line.keep(call.result, f"{function}({given})", depth=depth)
