"""`kernelwright.campaign`: a night over many functions, from a program or a notebook."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kernelwright.campaign import Captured, Subject, capture_subjects
from kernelwright.campaign.execution.power_monitor import power_monitor_here, staying_awake
from kernelwright.campaign.execution.retry_policy import DeviceCare
from kernelwright.campaign.planning.unserved_calls import resolve_wanted
from kernelwright.campaign.planning.wanted_calls import capture_campaign, joined
from kernelwright.campaign.report.known_champions import known_gains
from kernelwright.campaign.spec.campaign_file import read_campaign_file, spec_of
from kernelwright.campaign.spec.campaign_spec import WANTED, CampaignFunction, CampaignSpec
from kernelwright.errors import DeviceError, InputError
from kernelwright.public_call import one_sentence
from kernelwright.service.campaign_command import export_champions
from kernelwright.service.python.champion import Champion
from kernelwright.service.python.html import BAD, as_text, line_html
from kernelwright.service.python.plan import plan_result
from kernelwright.service.python.progress import Progress, follow
from kernelwright.service.python.request import store_of
from kernelwright.service.python.result import SearchResult
from kernelwright.service.python.search import remark, run_search
from kernelwright.service.python.target import subjects
from kernelwright.service.view.progress import ProgressView
from kernelwright.store import KernelStore

CampaignSettings = str | Path | Mapping[str, object] | Sequence[object]
"""A file of `kernelwright campaign init`, its tables as a dict, or functions."""
_Given = dict[tuple[str, tuple[str, ...]], tuple[Subject, ...]]
"""Functions at hand with their inputs, by the target and the inputs that a file would have."""


@dataclass(frozen=True)
class CampaignResult(Sequence[SearchResult]):
    """What a campaign found, device after device."""

    results: tuple[SearchResult, ...]
    remarks: tuple[str, ...] = ()
    """Devices that were left out, and what became of exports."""

    @property
    def interrupted(self) -> bool:
        """True where it was ended with work left, which the same campaign takes up."""
        return any(result.interrupted for result in self.results)

    @property
    def champions(self) -> tuple[Champion, ...]:
        """The kernels that beat MLX, of all devices."""
        return tuple(champion for result in self.results for champion in result.champions)

    def __getitem__(self, index: int) -> SearchResult:  # type: ignore[override]
        """Return what one device found."""
        return self.results[index]

    def __len__(self) -> int:
        """Return how many devices searched."""
        return len(self.results)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.results
        for sentence in self.remarks:
            yield Text(sentence, style="yellow")

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        told = "".join(result._repr_html_() for result in self.results)
        return told + "".join(line_html(sentence, BAD) for sentence in self.remarks)


@one_sentence
def campaign(
    settings: CampaignSettings,
    *,
    store: str | Path | None = None,
    progress: Progress | bool = "auto",
) -> CampaignResult:
    """Search many functions under one budget, device after device; see `docs/night.md`.

    The store keeps every step: the same campaign called again goes on where it was, and
    `kernelwright campaign status`, `watch`, `pause` and `stop` know it. Ctrl-C ends it in order.

    Args:
        settings: a TOML file's path; its tables as a dict, such as `{"functions": [f, "x.py:g"],
            "campaign": {"candidates": 4}, "caps": {"hours": 1}}`; or a list of functions, each
            with `@kernelwright.example`, and of targets such as `"x.py:g"`. What `kw.search` takes
            as inputs stands beside a function: `{"target": f, "inputs": ["f16[8,512]"]}`.
        store: a path or SQLAlchemy URL; the default store otherwise.
        progress: `auto`, `live`, `lines`, `notebook`, or `none` and `False` for silence.

    Raises:
        InputError: the settings are wrong, or not one function can be traced.
        DeviceError: the only device does not open; of several it is left out.
        StoreError: the store cannot be opened or written.
    """
    url = store_of(store)
    night, given = _night(settings)
    if night.wanted is not None:
        with KernelStore(url, must_exist=True) as opened:
            night = resolve_wanted(night, opened)
    results: list[SearchResult] = []
    remarks: list[str] = []
    specs = night.to_the_end()
    for spec in specs:
        view = follow(progress, spec.candidates_per_task)
        try:
            results.append(_searched(spec, given, url, view, remarks.append))
        except DeviceError as e:
            if len(specs) == 1:
                raise
            remarks.append(f"{spec.device} is left out: {e}")
        else:
            if results[-1].interrupted and not results[-1].report.ended.parked:
                break
    return CampaignResult(tuple(results), tuple(remarks))


def _searched(
    spec: CampaignSpec,
    given: _Given,
    url: str | None,
    view: ProgressView,
    say: Callable[[str], None],
) -> SearchResult:
    """Search on one device, and export what the settings ask for."""
    found = dict(_captured(spec, given, url))
    functions = joined(tuple(found.values()))
    priorities = {f.subject.name: n.priority for n, c in found.items() for f in c.functions}
    with staying_awake(), KernelStore(url) as opened, view:
        remark(functions, spec, view)
        searched = run_search(
            opened,
            functions,
            spec,
            view,
            priorities=priorities,
            care=DeviceCare(power_monitor=power_monitor_here()),
        )
        known = known_gains(opened, searched.task_ids, searched.report.device, None)
        if not searched.report.ended.interrupted:
            export_champions(opened, spec, searched.report, lambda text: say(text.plain))
    plan = plan_result(searched.plans, known, None, refused=functions.refused)
    return SearchResult(searched.report, plan, url)


def _captured(
    spec: CampaignSpec, given: _Given, url: str | None
) -> Iterator[tuple[CampaignFunction, Captured]]:
    """Yield what each entry's functions were traced to."""
    listed: list[CampaignFunction] = []
    for entry in spec.functions:
        at_hand = given.get((entry.target, entry.inputs))
        if at_hand is None:
            listed.append(entry)
        else:
            yield entry, capture_subjects(at_hand)
    if not listed:
        return
    needs_store = any(entry.target.startswith(WANTED) for entry in listed)
    with KernelStore(url, must_exist=True) if needs_store else nullcontext() as opened:
        found = capture_campaign(spec.model_copy(update={"functions": tuple(listed)}), opened)
    yield from found.items()


def _night(settings: CampaignSettings) -> tuple[CampaignSpec, _Given]:
    """Return the first device's search, and the functions that are at hand."""
    if isinstance(settings, str | Path):
        return read_campaign_file(Path(settings))[0], {}
    if isinstance(settings, Mapping):
        tables = dict(settings)
    elif isinstance(settings, list | tuple):
        tables = {"functions": settings}
    else:
        raise InputError(
            "expected a campaign's file, its tables as a dict, or a list of functions, found "
            f"{type(settings).__name__}."
        )
    given: _Given = {}
    listed = tables.get("functions", ())
    if not isinstance(listed, list | tuple):
        raise InputError(f"expected a list of functions, found {type(listed).__name__}.")
    entries = [_entry(value, given) for value in listed]
    if entries or "functions" in tables:
        tables["functions"] = entries
    return spec_of(tables), given


def _entry(value: object, given: _Given) -> object:
    """Return a function as the file names it; one at hand is put among those `given`."""
    if isinstance(value, str):
        return {"target": value}
    table = value if isinstance(value, Mapping) else {"target": value}
    function, inputs = table.get("target"), table.get("inputs")
    if not callable(function):
        return value
    found = subjects(function, inputs)
    written = () if inputs is None else found[0].written
    given[found[0].origin, written] = found
    return {**table, "target": found[0].origin, "inputs": written}
