"""The tables of a campaign's file, each with what its keys may hold."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Self

from pydantic import Field, Strict, ValidationInfo, field_validator, model_validator

from kernelwright.agents.providers.price import Price, prices_in
from kernelwright.agents.session.spec import ModelSpec
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.campaign.spec.campaign_spec import (
    CampaignExport,
    CampaignFunction,
    CampaignWanted,
)
from kernelwright.errors import KernelwrightError
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.device.threadgroup_memory import check_threadgroup_bytes, read_size
from kernelwright.metal.diagnostic import Record
from kernelwright.validation import MOST_JOBS

_Count = Annotated[int, Strict()]
"""Texts and truth values are no numbers."""
_Number = Annotated[float, Strict()]


def _check(read: Callable[[], object]) -> None:
    """Let pydantic say what a text should be."""
    try:
        read()
    except KernelwrightError as e:
        raise ValueError(str(e).rstrip(".")) from e


class CampaignOptions(Record):
    """How the night's searches go about it."""

    name: str = Field(default="nightly", min_length=1, max_length=200)
    devices: tuple[DeviceName, ...] = Field(default=("simulator",), min_length=1)
    threadgroup_memory: str = "32K"
    """What a threadgroup may take on each of the devices."""
    chips: tuple[str, ...] = ()
    """Of a fleet, for one device, each with a search of its own; none is what most workers have."""
    jobs: _Count = Field(default=2, ge=1, le=MOST_JOBS)
    candidates: _Count = Field(default=12, ge=1)
    repairs: _Count = Field(default=2, ge=0)
    plateau: _Count = Field(default=8, ge=1)
    minimum_effect: _Number = Field(default=0.02, ge=0, lt=1)

    @field_validator("chips")
    @classmethod
    def _are_of_one_device(cls, chips: tuple[str, ...], known: ValidationInfo) -> tuple[str, ...]:
        devices = known.data.get("devices", ())
        if chips and len(devices) > 1:
            raise ValueError(f"chips belong to one device, and there are {len(devices)}")
        if any(not chip.strip() for chip in chips):
            raise ValueError("expected names of chips, such as 'Apple M4 Pro'")
        return chips

    @field_validator("threadgroup_memory", mode="before")
    @classmethod
    def _is_text(cls, size: object) -> object:
        return str(size) if type(size) is int else size

    @field_validator("threadgroup_memory")
    @classmethod
    def _suits_the_devices(cls, text: str, known: ValidationInfo) -> str:
        try:
            for device in known.data.get("devices", ()):
                check_threadgroup_bytes(device, read_size(text))
        except KernelwrightError as e:
            raise ValueError(str(e).rstrip(".")) from e
        return text


class CampaignModels(Record):
    """Whom to ask."""

    ask: tuple[str, ...] = ()
    base_url: str | None = None

    @field_validator("ask")
    @classmethod
    def _are_models(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        for model in models:
            _check(partial(ModelSpec.parse, model))
        return models

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is not None:
            _check(partial(ModelSpec.parse, "none", url))
        return url


class CampaignCaps(Record):
    """What the whole night may take; None leaves a kind unlimited."""

    dollars: _Number | None = Field(default=None, ge=0)
    tokens: _Count | None = Field(default=None, ge=1)
    calls: _Count | None = Field(default=None, ge=1)
    hours: _Number | None = Field(default=None, gt=0)
    evaluations: _Count | None = Field(default=None, ge=1)


class CampaignTaskCaps(Record):
    """What the model calls for one task may take."""

    dollars: _Number | None = Field(default=None, ge=0)
    tokens: _Count | None = Field(default=None, ge=1)
    calls: _Count | None = Field(default=None, ge=1)
    minutes: _Number | None = Field(default=None, gt=0)


class CampaignFile(Record):
    """The whole file."""

    campaign: CampaignOptions = CampaignOptions()
    functions: tuple[CampaignFunction, ...] = ()
    wanted: CampaignWanted | None = None
    models: CampaignModels = CampaignModels()
    caps: CampaignCaps = CampaignCaps()
    task_caps: CampaignTaskCaps = CampaignTaskCaps()
    tools: ToolCaps = ToolCaps()
    """What one conversation with a model may have its tools do."""
    prices: dict[str, Price] = Field(default_factory=dict)
    export: CampaignExport | None = None

    @field_validator("prices", mode="before")
    @classmethod
    def _are_prices(cls, rows: object) -> object:
        return prices_in(rows) if isinstance(rows, Mapping) else rows

    @model_validator(mode="after")
    def _has_work(self) -> Self:
        if not self.functions and self.wanted is None:
            raise ValueError("expected at least one [[functions]], or [wanted]")
        return self
