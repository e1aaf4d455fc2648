"""Finds what `kernelwright export` is asked for: functions with their calls, and their kernels."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import cast

import mlx.core as mx

from kernelwright.campaign import Subject, capture_subjects, load_subjects
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator import Status
from kernelwright.ir import Graph, TensorType
from kernelwright.ir.trace.arguments import rebuild
from kernelwright.ir.trace.array import is_array, to_mlx
from kernelwright.ir.trace.example_call import input_leaves
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.runtime.export import ExampleCall
from kernelwright.service.searched_input import planned_in, searched_as, types_of
from kernelwright.store import CandidateDetail, KernelStore

Warn = Callable[[str], None]
"""Takes a sentence about a function or a call that is left out, while others are exported."""


@dataclass(frozen=True)
class FunctionTarget:
    """A function of a user's file and the calls that may have kernels."""

    function: Callable[..., object]
    name: str
    identity: str
    """What tells it from another of the same name in a folder of exports."""
    origin: str
    """Where searches find it."""
    owner: str
    """The object whose method it is, or the function itself."""
    calls: tuple[ExampleCall, ...] = field(repr=False)
    called: str = ""
    """How people call it, such as `Ops.mish`."""


def function_targets(
    target: str, inputs: Sequence[str], store: KernelStore, warn: Warn
) -> tuple[FunctionTarget, ...]:
    """Return the functions of a target, each with every call that was ever searched.

    A warning tells of each call that computes on an empty array, for which there is no kernel.

    Raises:
        InputError: the file, the function or the inputs are not there or do not parse.
    """
    subjects: dict[str, list[Subject]] = {}
    for subject in load_subjects(
        target, inputs, recall=partial(searched_as, store), recalls_all=True
    ):
        subjects.setdefault(subject.name, []).append(subject)
        if any(
            not to_mlx(leaf.array).size for leaf in input_leaves(subject.inputs, subject.keywords)
        ):
            _warn_of_empty(subject, warn)
    return tuple(
        target_of(name, found, () if inputs else searched_inputs(store, name))
        for name, found in subjects.items()
    )


def _warn_of_empty(subject: Subject, warn: Warn) -> None:
    try:
        capture_subjects([subject])
    except KernelwrightError as e:
        warn(f"{subject.name}: {e}")


def campaign_places(store: KernelStore, prefix: str) -> tuple[str, ...]:
    """Return where the functions of a campaign are, each once; those of older logs are left out.

    Raises:
        InputError: no campaign, or several, begin like this.
    """
    return tuple(dict.fromkeys(p.place for p in planned_in(store, prefix) if p.place))


def campaign_tasks(store: KernelStore, prefix: str) -> frozenset[str]:
    """Return the tasks of a campaign."""
    return frozenset(task.id for planned in planned_in(store, prefix) for task in planned.tasks)


def lookup_in(
    store: KernelStore,
) -> Callable[[Sequence[Graph]], Mapping[str, list[CandidateDetail]]]:
    """Return what finds the champions of tasks, on every chip, the fresh ones first."""

    def lookup(tasks: Sequence[Graph]) -> Mapping[str, list[CandidateDetail]]:
        wanted = {task.fingerprint for task in tasks}
        found: dict[str, list[CandidateDetail]] = {}
        champions = [s.champion for s in store.standings() if s.champion.task.id in wanted]
        for champion in sorted(champions, key=lambda c: c.freshness != "fresh"):
            found.setdefault(champion.task.id, []).append(store.show(champion.candidate_id))
        return found

    return lookup


def tried_in(store: KernelStore, origin: str) -> Callable[[Sequence[Graph]], str]:
    """Return what says why a function's tasks have no champion: what was refused, or left."""

    def tried(tasks: Sequence[Graph]) -> str:
        for task in tasks:
            if not store.tried(task.fingerprint):
                continue
            entries = store.history(task=task.fingerprint, limit=1000)
            refused = [e for e in entries if e.status not in (None, Status.CORRECT)]
            if not refused:
                continue
            last, count = refused[0], len(refused)
            return (
                f"{count} candidate{'s were' if count > 1 else ' was'} judged and refused, the "
                f"last as {last.status} ({last.summary.rstrip('.')}); see "
                f"`kernelwright history --task {task.fingerprint[:12]}` and "
                f"`kernelwright show {last.candidate_id[:12]}`."
            )
        return _left_in(store, origin)

    return tried


def _left_in(store: KernelStore, origin: str) -> str:
    """Say that the last search of a function found no task; nothing where it found some."""
    for campaign in store.campaigns(limit=200):
        with suppress(KernelwrightError):
            planned = [p for p in planned_in(store, campaign.id) if p.place == origin]
            if not planned:
                continue
            if any(p.tasks for p in planned):
                return ""
            if any(p.left for p in planned):
                return "MLX keeps every op of it, and `kernelwright plan` says why."
            return "it computes nothing and returns what it was given."
    return ""


def searched_inputs(store: KernelStore, name: str) -> tuple[str, ...]:
    """Return the inputs that functions of a name were searched for."""
    found: dict[str, None] = {}
    for campaign in store.campaigns(limit=200):
        with suppress(KernelwrightError):
            found |= {p.inputs: None for p in planned_in(store, campaign.id) if p.function == name}
    return tuple(found)


def target_of(
    name: str, subjects: Sequence[Subject], searched: Sequence[str], identity: str = ""
) -> FunctionTarget:
    """Return a function with the calls of its subjects, and those that it was searched for.

    Its place is its `identity`, unless another is given.
    """
    first = subjects[0]
    calls = [ExampleCall(s.inputs, s.keywords) for s in subjects]
    # A function of the same name elsewhere has other tasks, whose kernels are not found here.
    calls += [call for inputs in searched if (call := _resized(first, inputs)) is not None]
    function = first.function
    is_method = isinstance(function, MethodType) and not isinstance(function.__self__, type)
    owner = _module_name(name.rpartition(".")[0] if is_method else name)
    module = _module_name(name.removesuffix(".__call__"))
    return FunctionTarget(
        first.function,
        module,
        identity or first.origin,
        first.origin,
        owner,
        tuple(calls),
        re.sub(r"\.(\d+)", r"[\1]", name.removesuffix(".__call__")),
    )


def _module_name(name: str) -> str:
    """Return a name such as `blocks.0` or `value_and_grad(loss)` as one of Python's."""
    return re.sub(r"\W+", "_", name.rstrip(")"))


def _resized(subject: Subject, inputs: str) -> ExampleCall | None:
    """Return a call with arrays of other types in the places of the example's."""
    keywords = {name: subject.keywords[name] for name in sorted(subject.keywords)}
    types = [TensorType.parse(text) for text in types_of(inputs)]
    if len(types) != len(input_leaves(subject.inputs, keywords)):
        return None
    arrays = [mx.zeros(t.shape, mlx_dtype(t.dtype), stream=mx.cpu) for t in types]
    made = rebuild((subject.inputs, keywords), arrays, is_array)
    args, kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", made)
    return ExampleCall(args, kwargs)
