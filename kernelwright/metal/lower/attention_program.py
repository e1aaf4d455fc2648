"""The program of an attention: for any number of keys where its text says so, else for one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.errors import KernelwrightError
from kernelwright.ir.contraction import trouble_with_attention
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call
from kernelwright.ir.resize import Axis, free_dimensions, resize
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.metal.lower.attended import Sizes
from kernelwright.metal.lower.attention import lower_attention
from kernelwright.metal.lower.signature import Signature
from kernelwright.metal.schedule import Attention

_PRIMES = (1000003, 1000033)
"""Numbers of keys at which no other size of a kernel could hide."""
_APART = 4096
"""How far a number of a kernel may be from a multiple of the number of keys."""
_NUMBER = re.compile(r"(?P<before>[/%] )?(?<![\w.])(?P<digits>\d{6,})u?(?![\w.])")


@dataclass(frozen=True)
class _Open:
    """Kernels that read the number of keys from an array's shape."""

    signature: Signature
    kernels: tuple[Kernel, ...]
    temporaries: tuple[Tensor, ...]
    axes: tuple[Axis, ...]
    """The axes of the inputs that have this size."""


def attention_program(graph: Graph, schedule: Attention) -> Program:
    """Write the program of an attention, for any number of keys where that is possible.

    Raises:
        UnsupportedError: the graph is no attention, or the schedule does not divide it.
    """
    signature, kernels, temporaries = lower_attention(graph, schedule)
    opened = None if schedule.fixed else _opened(graph, schedule)
    named: Mapping[Axis, str] = {}
    if opened is not None:
        signature, kernels, temporaries = opened.signature, opened.kernels, opened.temporaries
        named = dict.fromkeys(opened.axes, "keys")
    inputs = tuple(
        Tensor(
            name=name,
            dtype=type_.dtype,
            shape=tuple(named.get((i, axis), n) for axis, n in enumerate(type_.shape)),
        )
        for i, (name, type_) in enumerate(
            zip((n for n, _ in signature.inputs), graph.input_types, strict=True)
        )
    )
    outputs = tuple(Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in signature.outputs)
    return Program(inputs=inputs, outputs=outputs, temporaries=temporaries, kernels=kernels)


def _opened(graph: Graph, schedule: Attention) -> _Open | None:
    """Write the kernels for two large numbers of keys; what they share serves every other."""
    axes = _key_axes(graph)
    if not axes:
        return None
    try:
        found = [_at(graph, schedule, axes, prime) for prime in _PRIMES]
    except (KernelwrightError, _EntangledError):
        return None
    return found[0] if found[0].kernels == found[1].kernels else None


def _key_axes(graph: Graph) -> tuple[Axis, ...]:
    """Return the axes of the inputs along which keys are counted, if nothing else hangs on them."""
    before = _sizes(graph)
    for free in free_dimensions(graph):
        if set(free.multiples) != {1} or free.size != before.keys:
            continue
        try:
            other = resize(graph, {free.axes[0]: _PRIMES[0]})
        except KernelwrightError:
            continue
        after = _sizes(other)
        if after.keys == _PRIMES[0] and after.queries == before.queries:
            return free.axes if _is_open(graph, before) else ()
    return ()


def _is_open(graph: Graph, size: Sizes) -> bool:
    """Say whether any number of keys makes sense: several causal queries need as many."""
    node = next(node for node in graph.nodes if node.op == "attention")
    is_causal = Call.of(graph, node).flag("is_causal")
    return not trouble_with_attention(graph) and (size.queries == 1 or not is_causal)


def _sizes(graph: Graph) -> Sizes:
    return Sizes.of(Call.of(graph, next(n for n in graph.nodes if n.op == "attention")))


class _EntangledError(Exception):
    """A number of the text is made of the number of keys in a way that text cannot say."""


def _at(graph: Graph, schedule: Attention, axes: tuple[Axis, ...], keys: int) -> _Open:
    resized = resize(graph, {axes[0]: keys})
    signature, kernels, temporaries = lower_attention(resized, schedule, is_open=True)
    position, axis = axes[0]
    array = signature.inputs[position][0]
    named = tuple(_named(k, array, axis, keys) for k in kernels)
    return _Open(signature, named, temporaries, axes)


def _named(kernel: Kernel, array: str, axis: int, keys: int) -> Kernel:
    """Return a kernel whose text reads the number of keys instead of having it."""

    def replace(match: re.Match[str]) -> str:
        number = int(match["digits"])
        times = round(number / keys)
        apart = number - times * keys
        if times == 0:
            return match[0]
        before = match["before"] or ""
        if abs(apart) > _APART or (before and (times > 1 or apart)):
            raise _EntangledError
        text = "keys" if times == 1 else f"keys * {times}"
        return before + text + (f" {'+' if apart > 0 else '-'} {abs(apart)}" if apart else "")

    source = _NUMBER.sub(replace, kernel.source)
    if re.search(r"\bkeys\b", re.sub(r"//.*", "", source)):
        if array not in kernel.inputs:
            raise _EntangledError
        source = f"uint keys = {array}_shape[{axis}];\n{source}"
    return kernel.model_copy(update={"source": source})
