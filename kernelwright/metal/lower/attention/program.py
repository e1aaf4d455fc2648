"""The program of an attention: for any number of keys where its text says so, else for one."""

from dataclasses import replace

from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.resize import Axis, free_dimensions, resize
from kernelwright.metal.family.contraction import trouble_with_attention
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.attention.kernel import lower_attention
from kernelwright.metal.lower.attention.terms import Sizes
from kernelwright.metal.lower.prefill.kernel import lower_prefill
from kernelwright.metal.lower.program.opening import Opening, open_size, program_of
from kernelwright.metal.schedule import Attention, Prefill


def attention_program(graph: Graph, schedule: Attention | Prefill) -> Program:
    """Write the program of an attention, for any number of keys where that is possible.

    One for a prompt serves any number of tokens.

    Raises:
        UnsupportedError: the graph is no attention, or the schedule does not divide it.
    """
    if isinstance(schedule, Prefill):
        opening = Opening("tokens", () if schedule.fixed else token_axes(graph))
        opened = opening.program(graph, lambda other: lower_prefill(other, schedule, is_open=True))
        return opened or program_of(lower_prefill(graph, schedule))
    opening = Opening("keys", () if schedule.fixed else _key_axes(graph))
    opened = opening.program(graph, lambda other: lower_attention(other, schedule, is_open=True))
    return opened or program_of(lower_attention(graph, schedule))


def token_axes(graph: Graph) -> tuple[Axis, ...]:
    """Return the axes of the inputs that count tokens, where as many are queries as keys."""
    before, tokens = _sizes(graph), open_size("tokens")
    if before.queries != before.keys:
        return ()
    axes: list[Axis] = []
    for free in free_dimensions(graph):
        after = _resized(graph, free.axes, tokens) if free.is_alone else None
        if after is not None and tokens in (after.queries, after.keys):
            axes += free.axes
    wanted = replace(before, queries=tokens, keys=tokens)
    return tuple(axes) if axes and _resized(graph, tuple(axes), tokens) == wanted else ()


def _key_axes(graph: Graph) -> tuple[Axis, ...]:
    """Return the axes of the inputs along which keys are counted, if nothing else hangs on them."""
    before, keys = _sizes(graph), open_size("keys")
    wanted = replace(before, keys=keys)
    for free in free_dimensions(graph):
        is_count = free.is_alone and free.size == before.keys
        if is_count and _resized(graph, free.axes, keys) == wanted:
            return free.axes if _is_open(graph, before) else ()
    return ()


def _resized(graph: Graph, axes: tuple[Axis, ...], size: OpenSize) -> Sizes | None:
    """Return the sizes of an attention some of whose inputs' axes are open; None if none may be."""
    try:
        return _sizes(resize(graph, dict.fromkeys(axes, size)))
    except KernelwrightError:
        return None


def _is_open(graph: Graph, size: Sizes) -> bool:
    """Say whether any number of keys makes sense: several causal queries need as many."""
    is_causal = _attention(graph).flag("is_causal")
    return not trouble_with_attention(graph) and (size.queries == 1 or not is_causal)


def _sizes(graph: Graph) -> Sizes:
    return Sizes.of(_attention(graph))


def _attention(graph: Graph) -> Call:
    found = next((node for node in graph.nodes if node.op == "attention"), None)
    if found is None:
        raise UnsupportedError("it holds no attention; take a schedule of another family.")
    return Call.of(graph, found)
