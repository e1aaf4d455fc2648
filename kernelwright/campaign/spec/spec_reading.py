"""Reads the settings of a run, whichever version wrote them, and tells one search from another."""

import json

from pydantic import ValidationError

from kernelwright.campaign.spec.campaign_spec import CampaignSpec
from kernelwright.search.spec import SearchSpec
from kernelwright.store import Campaign

_CAPS = ("evaluations", "seconds", "caps", "task_caps")
"""How far a search may go does not make it another one."""
_MARK = "candidates_per_task"
"""A setting that every search records; a red team and a check of champions have none like it."""


def search_spec_of(campaign: Campaign) -> SearchSpec | None:
    """Read what a run was asked to do; None for what is no search."""
    return campaign_spec_of(campaign) or _read(SearchSpec, campaign.spec)


def campaign_spec_of(campaign: Campaign) -> CampaignSpec | None:
    """Read what a run of a campaign's file was asked to do; None for a plain search."""
    spec = _read(CampaignSpec, campaign.spec)
    return spec if isinstance(spec, CampaignSpec) else None


def is_same_search(spec: SearchSpec, other: Campaign) -> bool:
    """Say whether a run was asked for what `spec` asks, whatever it searched and its caps were.

    Settings are compared by what they mean: one that a later version added has its default in
    what an earlier one wrote, and one that is gone is passed over.
    """
    found = search_spec_of(other)
    if found is None or type(found) is not type(spec):
        return False
    return _asked(found) == _asked(spec)


def goes_on_with(spec: SearchSpec, other: Campaign) -> bool:
    """Say whether `spec` is the search of a run: of the same functions at the same inputs, too."""
    found = search_spec_of(other)
    return found is not None and found.graphs in ((), spec.graphs) and is_same_search(spec, other)


def _asked(spec: SearchSpec) -> dict[str, object]:
    return spec.model_dump(exclude={*_CAPS, "graphs"})


def _read(kind: type[SearchSpec], text: str) -> SearchSpec | None:
    """Validate, without the keys that this version does not know."""
    try:
        settings = json.loads(text)
        if not isinstance(settings, dict) or _MARK not in settings:
            return None
        return kind.model_validate_json(json.dumps(settings))
    except ValueError as e:
        if not isinstance(e, ValidationError):
            return None
        unknown = [error["loc"] for error in e.errors() if error["type"] == "extra_forbidden"]
        if not unknown:
            return None
    for place in unknown:
        _drop(settings, place)
    try:
        return kind.model_validate_json(json.dumps(settings))
    except ValidationError:
        return None


def _drop(settings: object, place: tuple[int | str, ...]) -> None:
    """Take out the key at a place within nested tables and lists."""
    holder = settings
    for step in place[:-1]:
        holder = holder[step]  # type: ignore[index]
    assert isinstance(holder, dict)
    del holder[place[-1]]
