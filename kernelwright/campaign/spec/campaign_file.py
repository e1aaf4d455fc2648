"""A night's work as a TOML file, and the searches that it stands for."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from kernelwright.agents.budget import Caps
from kernelwright.campaign.spec.campaign_spec import CampaignSpec, CampaignWanted
from kernelwright.campaign.spec.campaign_table import CampaignFile, CampaignOptions
from kernelwright.campaign.spec.toml_line import line_of
from kernelwright.errors import InputError
from kernelwright.metal.device.threadgroup_memory import read_size
from kernelwright.search.spec import TeamSpec
from kernelwright.validation import LARGEST, reason_of, shown

_SECONDS_PER_HOUR = 3600.0


def template(path: Path = Path("nightly.toml")) -> str:
    """Return the commented file to start from, as it stands at a path."""
    text = files("kernelwright.campaign.spec").joinpath("nightly.toml").read_text()
    named = text.replace('name = "nightly" ', f"name = {json.dumps(path.stem)} ")
    return named.replace("nightly.toml", str(path))


def spec_of_wanted() -> CampaignSpec:
    """Return the night that needs no file: what is wanted, with every default."""
    night = CampaignFile(campaign=CampaignOptions(name="wanted"), wanted=CampaignWanted())
    return _spec(night, Path("wanted.toml"))


class _NoPathError(ValueError):
    """A name that no file can have, such as one with a NUL."""


def _text_of(path: Path) -> str:
    if "\0" in str(path):
        raise _NoPathError(str(path))
    # TOML is UTF-8; some editors of Windows put a mark before it.
    return path.read_text(encoding="utf-8-sig")


def read_campaign_file(path: Path) -> tuple[CampaignSpec, ...]:
    """Read a night's file; return one search for each device.

    Raises:
        InputError: the file is not there, is no TOML, or a key is wrong; one sentence says which.
    """
    text = ""
    try:
        text = _text_of(path)
        tables = tomllib.loads(text)
        _check_numbers(tables, path, text)
        parsed = CampaignFile.model_validate(tables)
    except (OSError, _NoPathError) as e:
        raise InputError(
            f"expected a campaign's TOML file, found nothing readable at {str(path)!r}; "
            f"write one with: kernelwright campaign init {path}"
        ) from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise InputError(f"{path} is no TOML: {e}.") from e
    except RecursionError:
        raise InputError(f"{path} holds lists or tables that are nested too deeply.") from None
    except ValidationError as e:
        raise InputError(_sentence(path, text, e)) from e
    return _spec(parsed, path).model_copy(update={"file": str(path)}).to_the_end()


def spec_of(settings: Mapping[str, object], folder: Path = Path()) -> CampaignSpec:
    """Read what a file would hold from tables at hand; return the first device's search.

    Raises:
        InputError: a key is wrong; one sentence says which.
    """
    place = folder / "campaign"
    _check_numbers(settings, Path("campaign"), "")
    try:
        return _spec(CampaignFile.model_validate(settings), place)
    except ValidationError as e:
        raise InputError(_sentence(Path("campaign"), "", e)) from e


def _spec(night: CampaignFile, path: Path) -> CampaignSpec:
    """Return the first device's search."""
    devices = tuple(dict.fromkeys(night.campaign.devices))
    chips = tuple(dict.fromkeys(night.campaign.chips))
    # Devices take turns and share the caps evenly, so that none can exceed them.
    share = len(chips or devices)
    caps, each, settings = night.caps, night.task_caps, night.campaign
    return CampaignSpec(
        name=settings.name,
        device=devices[0],
        devices=devices,
        chip=chips[0] if chips else "",
        chips=chips,
        threadgroup_bytes=read_size(settings.threadgroup_memory),
        candidates_per_task=settings.candidates,
        repairs=settings.repairs,
        patience=settings.plateau,
        evaluations=_shared(caps.evaluations, share, path, "[caps] evaluations"),
        seconds=caps.hours * _SECONDS_PER_HOUR / share if caps.hours else None,
        jobs=settings.jobs,
        models=night.models.ask,
        base_url=night.models.base_url,
        caps=Caps(
            dollars=None if caps.dollars is None else caps.dollars / share,
            tokens=_shared(caps.tokens, share, path, "[caps] tokens"),
            calls=_shared(caps.calls, share, path, "[caps] calls"),
        ),
        task_caps=Caps(
            dollars=None if each.dollars is None else each.dollars / share,
            tokens=_shared(each.tokens, share, path, "[task_caps] tokens"),
            calls=_shared(each.calls, share, path, "[task_caps] calls"),
            seconds=None if each.minutes is None else each.minutes * 60 / share,
        ),
        prices=night.prices,
        team=TeamSpec(tool_caps=night.tools),
        functions=night.functions,
        wanted=night.wanted,
        folder=str(path.resolve().parent),
        minimum_effect=settings.minimum_effect,
        export=night.export,
    )


def _shared(cap: int | None, share: int, path: Path, key: str) -> int | None:
    if cap is not None and cap < share:
        raise InputError(
            f"{path}: {key} = {cap} is less than one for each of {share} devices or chips."
        )
    return None if cap is None else cap // share


def _check_numbers(tables: Mapping[str, object], path: Path, text: str) -> None:
    """See that every number is one that can be counted with.

    Raises:
        InputError: one is no number, infinite, or larger than anything that a night takes.
    """
    # What no price is, prices say themselves, with the model's name.
    counted = {key: table for key, table in tables.items() if key != "prices"}
    for steps, number in _numbers(counted, []):
        if not abs(number) <= LARGEST:
            raise InputError(
                f"{_where(path, text, steps)}: {_named(steps)} should be a number up to "
                f"{LARGEST:g}, found {shown(number)}."
            )


def _numbers(
    value: object, steps: list[str | int]
) -> Iterator[tuple[list[str | int], int | float]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, [*steps, str(key)])
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _numbers(inner, [*steps, place])
    elif isinstance(value, int | float):
        yield steps, value


def _where(path: Path, text: str, steps: Sequence[str | int]) -> str:
    line = line_of(text, steps)
    return f"{path}, line {line}" if line else str(path)


def _named(steps: Sequence[str | int]) -> str:
    """Name a table and a key in it."""
    table, *rest = steps or ("functions",)
    head = f"[{table}]" if rest else ""
    if rest and isinstance(place := rest[0], int):
        head, rest = f"[[{table}]] number {place + 1}", rest[1:]
    key = str(rest[0]) if rest else f"[{table}]" if steps else "[[functions]]"
    return f"{head} {key}".strip()


def _sentence(path: Path, text: str, error: ValidationError) -> str:
    """Name the line, the table and the key of the first fault, what was found, what is allowed."""
    first = error.errors()[0]
    steps = list(first["loc"])
    where, place = _where(path, text, steps), _named(steps)
    if first["type"] == "extra_forbidden":
        return f"{where}: {place} is no key of a campaign; see: kernelwright campaign init"
    if first["type"] == "missing":
        return f"{where}: {place} is missing; see: kernelwright campaign init"
    if not steps:
        return f"{where}: {place} is missing, and so is [wanted]; see: kernelwright campaign init"
    if first["type"] == "value_error":
        # Our own words, most of which say what was found.
        told = first["msg"].removeprefix("Value error, ")
        if not isinstance(first["input"], Mapping) and ", found " not in told:
            told += f", found {shown(first['input'])}"
        return f"{where}: {place}: {told}."
    return f"{where}: {place} should be {reason_of(first)}, found {shown(first['input'])}."
