"""Which schedules to try next: those expected to be fast, by a cost model and then a sampler."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import ChipProfile, find_profile
from kernelwright.metal.perf.floor import floor_us
from kernelwright.metal.perf.schedule_cost import expected_us
from kernelwright.metal.schedule import Schedule

_HOPELESS = 8.0
"""Times the least time of any schedule beyond which another's own least time rules it out."""
_GRID = 8
"""Schedules up to which all of them are tried, without a sampler."""
_ALIKE = 1.05
"""Expected times that differ by less are the same: the model is no better than that."""
_AS_FAST = 1.3
"""Times the least expected time up to which the sampler chooses: of 4 candidates, drawn from 12
that an H200 had timed, the best was then within 2 % of the best of all for 98 % of 50 tasks."""
_ASKED = 64
"""How often the sampler is asked for a batch; it may name schedules that do not exist."""

Decisions = Mapping[str, int]


def promising(graph: Graph, space: Sequence[Schedule], device: DeviceInfo) -> tuple[Schedule, ...]:
    """Return the schedules that are not ruled out by what they cannot go below."""
    profile = _profile(device)
    least = [floor_us(graph, schedule, profile) for schedule in space]
    limit = _HOPELESS * min(least, default=0.0)
    return tuple(s for s, floor in zip(space, least, strict=True) if floor <= limit)


def expectations(
    graph: Graph, space: Iterable[Schedule], device: DeviceInfo
) -> dict[Schedule, float]:
    """Return what schedules are expected to take, in microseconds, where their family is modelled.

    Nothing is lowered or compiled for it.
    """
    return expected_us(graph, space, _profile(device))


def ordered(
    left: Sequence[Schedule],
    costs: Mapping[Schedule, float],
    count: int,
    expected: Mapping[Schedule, float] | None = None,
) -> Sequence[Schedule]:
    """Return what is left to try, those first that may be quicker than the quickest so far.

    Before a verdict that is what the cost model says; then a sampler chooses among those that are
    `expected` to be about as fast as any. `costs` are those of the schedules that proved correct.
    The same schedules and costs, the same order: the sampler is seeded, and takes every cost in
    anew.
    """
    expected = expected or {}
    ranked = _ranked(left, expected)
    if not costs:
        return ranked
    best = min(costs, key=lambda schedule: costs[schedule])
    kin = [schedule for schedule in ranked if type(schedule) is type(best)]
    limit = _AS_FAST * min((expected[s] for s in kin if s in expected), default=math.inf)
    likely = [s for s in kin if expected.get(s, limit) <= limit]
    if len(likely) <= max(_GRID, count):
        return [*likely, *(s for s in ranked if s not in likely)]
    sampled = _sampled(likely, {s: c for s, c in costs.items() if type(s) is type(best)}, count)
    first = [*sampled, *(s for s in likely if s not in sampled)]
    return [*first, *(s for s in kin if s not in first), *(s for s in ranked if s not in kin)]


def _ranked(left: Sequence[Schedule], expected: Mapping[Schedule, float]) -> list[Schedule]:
    """Order schedules by what they are expected to take; others keep their places among them.

    Times that hardly differ are left in the order in which an engineer would try them.
    """
    known = sorted(
        (s for s in left if s in expected),
        key=lambda s: round(math.log(expected[s]) / math.log(_ALIKE)),
    )
    fast = iter(known)
    return [next(fast) if s in expected else s for s in left]


def _sampled(
    left: Sequence[Schedule], costs: Mapping[Schedule, float], count: int
) -> list[Schedule]:
    """Return up to `count` schedules of one family that Optuna's TPE sampler asks for."""
    # Of tqdm, which Optuna imports and which misses a notebook's widgets; no bar is shown.
    warnings.filterwarnings("ignore", "IProgress not found")
    # A second of imports, which planning and export do without.
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    decisions = {schedule: decisions_of(schedule) for schedule in (*left, *costs)}
    spaces: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(
            sorted({known[name] for known in decisions.values()})
        )
        for name in next(iter(decisions.values()), {})
    }
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=0, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    for schedule, cost in costs.items():
        study.add_trial(
            optuna.trial.create_trial(
                params=dict(decisions[schedule]), distributions=spaces, value=cost
            )
        )
    named = {tuple(decisions[schedule].items()): schedule for schedule in left}
    found: dict[Schedule, None] = {}
    for _ in range(_ASKED):
        trial = study.ask(spaces)
        asked = named.get(tuple((name, trial.params[name]) for name in spaces))
        if asked is None or asked in found:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        found[asked] = None
        if len(found) == count:
            break
    return list(found)


def decisions_of(schedule: Schedule) -> Decisions:
    """Return a schedule's decisions by name, as numbers."""
    return {f.name: int(getattr(schedule, f.name)) for f in fields(schedule)}


def _profile(device: DeviceInfo) -> ChipProfile:
    """Return the profile of a device's chip, or of the one whose times are predicted."""
    try:
        return find_profile(device.bare_chip)
    except InputError:
        return find_profile(EvaluatorConfig().chip_for(device))
