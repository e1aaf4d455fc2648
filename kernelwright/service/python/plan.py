"""`kernelwright.plan`: how functions would be cut into kernels, as records, text and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kernelwright.campaign import offline_team
from kernelwright.campaign.event import FunctionRefused
from kernelwright.campaign.planning.capturing import FunctionPlan, plan_function
from kernelwright.campaign.planning.launch_graph import Flow
from kernelwright.campaign.planning.plan_summary import (
    KnownGains,
    PlanOutline,
    RegionOutline,
    outline,
)
from kernelwright.campaign.report.known_champions import known_gains
from kernelwright.campaign.spec.input_value import Inputs
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo
from kernelwright.metal.device.registry import open_device
from kernelwright.plural import counted
from kernelwright.public_call import one_sentence
from kernelwright.service.python.html import BAD, as_text, line_html, page
from kernelwright.service.python.picture import Picture
from kernelwright.service.python.request import (
    DeviceChoice,
    chip_of,
    device_of,
    store_of,
    threadgroup_bytes_of,
)
from kernelwright.service.python.speedup import Speedup
from kernelwright.service.python.target import Target, captured
from kernelwright.service.view.plan import print_plan
from kernelwright.service.view.plan_svg import draw_plan
from kernelwright.store import KernelStore, has_store


@dataclass(frozen=True)
class PlanResult:
    """How functions are cut; a table in terminals, a drawing in notebooks."""

    outlines: tuple[PlanOutline, ...]
    """One for each function and example of its inputs: regions, steps, reasons, bytes, limits."""
    pictures: tuple[Picture, ...]
    """The same, drawn."""
    remarks: tuple[str, ...] = ()
    """Sentences on what graphs do not keep."""
    refused: tuple[FunctionRefused, ...] = ()
    """Functions that cannot be planned, and why."""

    @property
    def regions(self) -> tuple[RegionOutline, ...]:
        """The kernels of all functions."""
        return tuple(region for outlined in self.outlines for region in outlined.regions)

    @property
    def limit(self) -> Speedup:
        """What the first function as a whole would gain with perfect kernels, predicted."""
        return Speedup.of(self.outlines[0].limit)

    @property
    def picture(self) -> Picture:
        """The first function's drawing: SVG text that a notebook shows and `save` writes."""
        return self.pictures[0]

    def save(self, path: str | Path) -> Path:
        """Write the first function's drawing, an SVG, and return its path.

        Raises:
            InputError: it cannot be written there.
        """
        return self.picture.save(path)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for outlined in self.outlines:
            yield page(lambda inner, o=outlined: print_plan(inner, o), options.max_width)  # type: ignore[misc]
        for sentence in self._sentences():
            yield Text(sentence, style="yellow")

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        drawn = "".join(f"<div>{picture._repr_html_()}</div>" for picture in self.pictures)
        return drawn + "".join(line_html(sentence, BAD) for sentence in self._sentences())

    def _sentences(self) -> list[str]:
        return [*self.remarks, *(f"{r.function}: {r.reason}" for r in self.refused)]


@one_sentence
def plan(
    target: Target | Sequence[Target],
    *,
    inputs: Inputs | None = None,
    device: DeviceChoice = "auto",
    chip: str | None = None,
    threadgroup_memory: int | str = METAL_THREADGROUP_BYTES,
    store: str | Path | None = None,
) -> PlanResult:
    """Show how functions would be cut into kernels and what these gain; nothing is compiled.

    Args:
        target: a function, a method or an object that is called, or `"FILE.py:function"`,
            `"FILE.py"`, `"package.module:function"` or `"catalog:NAME"`; or several of them.
        inputs: arrays, types such as `"f16[8,512]"` and plain values in the order of the
            parameters, or a mapping by their names; by default those of `@kernelwright.example`,
            or of earlier searches.
        device: whose limits kernels keep: `auto`, `metal`, `cuda` or `simulator`.
        chip: whose times are predicted, such as `m4-pro`.
        threadgroup_memory: what a threadgroup may take, in bytes or such as `"96K"`.
        store: whose champions are shown where there are some; the default store otherwise.

    Raises:
        InputError: there is no such target, its inputs are missing or MLX cannot trace it.
        UnsupportedError: it computes what no graph can hold.
        DeviceError: this machine has no such device.
    """
    url, of = store_of(store), chip_of(chip)
    name, nbytes = device_of(device), threadgroup_bytes_of(threadgroup_memory)
    found = captured(target, inputs, url)
    info, planner = open_device(name, nbytes).info, offline_team().planner
    plans = [plan_function(function, planner, info) for function in found.functions]
    known = _known(url, plans, info, of)
    remarks = tuple(r for function in found.functions for r in function.remarks)
    return plan_result(plans, known, of, remarks=remarks, refused=found.refused)


def plan_result(
    plans: Sequence[FunctionPlan],
    known: KnownGains,
    chip: str | None,
    *,
    remarks: tuple[str, ...] = (),
    refused: tuple[FunctionRefused, ...] = (),
) -> PlanResult:
    """Describe and draw plans."""
    outlines = tuple(outline(planned, known, chip) for planned in plans)
    pictures = tuple(
        Picture(
            draw_plan(Flow(planned.graph, planned.regions), outlined),
            f"the plan of {outlined.function}: {counted(len(outlined.regions), 'kernel')}",
        )
        for planned, outlined in zip(plans, outlines, strict=True)
    )
    return PlanResult(outlines, pictures, remarks, refused)


def _known(
    url: str | None, plans: Sequence[FunctionPlan], info: DeviceInfo, chip: str | None
) -> KnownGains:
    """Return what the store's champions gain; nothing where there is no store yet."""
    if not has_store(url):
        return KnownGains()
    tasks = {planned.task.fingerprint for found in plans for planned in found.tasks}
    with KernelStore(url, must_exist=True) as opened:
        return known_gains(opened, tasks, info, chip)
