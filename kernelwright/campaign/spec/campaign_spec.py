"""One device's search of a night, as the store keeps it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field

from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.search.spec import SearchSpec

WANTED = "wanted:"
"""Before the fingerprint of a call that an optimized function made in vain."""


class CampaignFunction(Record):
    """Something to make faster, as `search` takes it."""

    target: str
    inputs: tuple[str, ...] = ()
    priority: float = Field(default=1.0, gt=0, allow_inf_nan=False, strict=True)


class CampaignWanted(Record):
    """How much of the store's wanted list a night takes up."""

    most: int = Field(default=10, ge=1, strict=True)
    """The most frequent calls, those that have kernels by now left out."""
    priority: float = Field(default=1.0, gt=0, allow_inf_nan=False, strict=True)


class CampaignExport(Record):
    """Where champions go in the morning."""

    folder: str


class CampaignSpec(SearchSpec):
    """One device's search of a night; the store keeps all that it takes to run it again."""

    functions: tuple[CampaignFunction, ...]
    wanted: CampaignWanted | None = None
    """None once the wanted calls are among the functions."""
    devices: tuple[DeviceName, ...] = ()
    """All of the night's, in the order in which they take turns."""
    chips: tuple[str, ...] = ()
    """All that the one device is searched on, in that order; empty where none is named."""
    folder: str
    """From where targets and exports are found."""
    file: str = ""
    """The night's own file; empty where tables at hand say what it is."""
    minimum_effect: float = 0.02
    export: CampaignExport | None = None

    def of(self, graphs: Sequence[str]) -> Self:
        """Return this spec: a campaign is its file's, whatever its functions compute today."""
        return self

    def to_the_end(self) -> "tuple[CampaignSpec, ...]":
        """Return this search and those of the devices, or of the chips, after it."""
        if self.chips:
            place = self.chips.index(self.chip)
            return tuple(self.model_copy(update={"chip": c}) for c in self.chips[place:])
        place = self.devices.index(self.device)
        return tuple(self.model_copy(update={"device": d}) for d in self.devices[place:])

    @property
    def export_folder(self) -> Path | None:
        """Where champions are exported to."""
        return None if self.export is None else Path(self.folder) / self.export.folder
