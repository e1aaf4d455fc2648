"""Caps in place of those that a campaign began with: what it used of them, and which to raise."""

import re
from collections.abc import Mapping, Sequence

from kernelwright.campaign.spec.campaign_spec import CampaignSpec
from kernelwright.errors import UsageError
from kernelwright.metal.diagnostic import Record
from kernelwright.store import Campaign, KernelStore

_SECONDS_PER_HOUR = 3600.0
_CAP = re.compile(r"cap of (.+?) is reached")
_LEAST_HOURS = 0.01
_UNITS = {"$": "dollars", "token": "tokens", "call": "calls", "evaluation": "evaluations"}
"""How a cap that was reached is written, and the option that raises it."""


class LargerCaps(Record):
    """Caps in place of those that a campaign began with; None keeps one."""

    dollars: float | None = None
    tokens: int | None = None
    calls: int | None = None
    evaluations: int | None = None
    hours: float | None = None

    def on(self, spec: CampaignSpec) -> CampaignSpec:
        """Return the settings with these caps."""
        caps = self.model_dump(include={"dollars", "tokens", "calls"}, exclude_none=True)
        changed: dict[str, object] = {"caps": spec.caps.model_copy(update=caps)}
        if self.evaluations is not None:
            changed["evaluations"] = self.evaluations
        if self.hours is not None:
            changed["seconds"] = self.hours * _SECONDS_PER_HOUR
        return spec.model_copy(update=changed)

    def check(self, store: KernelStore, runs: Sequence[Campaign]) -> None:
        """See that each leaves something of what a campaign's runs have used.

        Raises:
            UsageError: one does not.
        """
        ids = [run.id for run in runs]
        spend = store.browse.totals(ids).spend
        used: Mapping[str, float] = {
            "dollars": spend.known_microdollars / 1_000_000,
            "tokens": spend.tokens,
            "calls": spend.calls,
            "evaluations": store.browse.evaluations_begun(ids),
            "hours": sum(run.elapsed_s or 0.0 for run in runs) / _SECONDS_PER_HOUR,
        }
        for name, cap in self.model_dump(exclude_none=True).items():
            if 0 < used[name] >= cap:
                raise UsageError(
                    f"expected --{name} above the {used[name]:.6g} that the campaign has used, "
                    f"found {cap:g}."
                )


def larger_cap(spec: CampaignSpec, reached: str) -> str:
    """Write an option that doubles the cap which `reached` names, or the first that there is."""
    hours = None if spec.seconds is None else spec.seconds / _SECONDS_PER_HOUR
    caps = {
        "evaluations": spec.evaluations,
        "hours": None if hours is None else max(hours, _LEAST_HOURS / 2),
        **spec.caps.model_dump(include={"dollars", "tokens", "calls"}),
    }
    given = {name: cap for name, cap in caps.items() if cap is not None} or {"dollars": 0.5}
    named = _CAP.search(reached)
    told = next((name for unit, name in _UNITS.items() if named and unit in named[1]), "hours")
    name = told if named and told in given else next(iter(given))
    return f"--{name} {2 * given[name]:g}"
