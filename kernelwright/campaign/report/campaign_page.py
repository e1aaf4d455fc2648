"""The morning's report as one self-contained file, for people and for their tools."""

from collections.abc import Callable, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.foreign_text import as_code, in_html, in_markdown
from kernelwright.campaign.report.gain_bars import gain_bars
from kernelwright.campaign.report.progress_plot import best_for_money, best_so_far, is_against_mlx
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.metal.perf import caveat_of
from kernelwright.plural import counted


def _templates(finalize: Callable[[object], object], *, autoescape: bool) -> Environment:
    """Return the pages; all that they are told passes `finalize`."""
    made = Environment(
        loader=PackageLoader("kernelwright.campaign.report", "pages"),
        undefined=StrictUndefined,
        autoescape=autoescape,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = as_code
    return made


_HTML = _templates(in_html, autoescape=True)
_MARKDOWN = _templates(in_markdown, autoescape=False)
_MOST_NAMED = 3
_AGAINST = {
    True: "Each task's best candidate so far; 1× is MLX at its best.",
    False: "Each task's best candidate so far, as a multiple of its first right one.",
}


def as_html(report: CampaignReport) -> str:
    """Render a page that opens anywhere, light or dark, without network or script."""
    return _rendered(_HTML.get_template("report.html"), report)


def as_markdown(report: CampaignReport) -> str:
    """Render the same without the plot."""
    return _rendered(_MARKDOWN.get_template("report.md"), report)


def _rendered(template: Template, report: CampaignReport) -> str:
    return template.render(
        m=report,
        bars=gain_bars(report.won),
        plots=[
            plot
            for plot in (
                best_so_far(report.ranked, report.seconds),
                best_for_money(report.ranked, report.dollars),
            )
            if plot
        ],
        against=_AGAINST[is_against_mlx(report.tasks)],
        duration=in_seconds(report.seconds),
        counted=counted,
        headline=_headline(report),
        kinds=_kinds(report),
        became=_became(report),
        stayed=_stayed(report),
        advice=advice(report),
        commands=_commands(report),
    )


def _headline(report: CampaignReport) -> str:
    if not report.won:
        return f"Nothing {_became(report)} faster yet; candidates tried: {report.tried}."
    best = report.won[0]
    assert best.gain is not None
    return (
        f"{len(report.won)} of {counted(len(report.tasks), 'task')} {_became(report)} faster; "
        f"the most: {best.task.name}, {best.gain.words}."
    )


def _became(report: CampaignReport) -> str:
    return "got" if report.environment.device.measures_time else "should get"


def _kinds(report: CampaignReport) -> str:
    words = _kind_words(report)
    chips = ", ".join(dict.fromkeys(t.gain.chip for t in report.tasks if t.gain))
    if not chips:
        return words
    fastest = "MLX's are of the fastest of eager, mx.compile and mx.fast"
    caveat = caveat_of(t.gain.chip for t in report.tasks if t.gain and t.gain.kind == "predicted")
    rests = f" Predictions are by {caveat}." if caveat else ""
    return f"{words} Times are of {chips}; {fastest}.{rests}"


def _kind_words(report: CampaignReport) -> str:
    if all(t.gain.kind == "measured" for t in report.tasks if t.gain) and (
        report.environment.device.measures_time
    ):
        return "Times were measured on the device; intervals are of paired runs."
    if report.environment.device.measures_time:
        return "Times with ~ are predicted from counted work, the others were measured."
    return (
        "Nothing was timed: this device runs kernels on the CPU and counts their work. Every time "
        "and every ratio here is a prediction from those counts; measure on a Mac before you rely "
        "on it."
    )


def _stayed(report: CampaignReport) -> str:
    return "did not get" if report.environment.device.measures_time else "cannot get"


def advice(report: CampaignReport) -> str:
    """Say in a sentence what is most worth doing next."""
    hopeless = [t.task.name for t in report.tasks if t.tried and not t.right]
    even = [t.task.name for t in report.even]
    if report.state in ("running", "paused"):
        return "Wait: the night goes on."
    if report.state != "finished":
        why = report.reason or report.state
        cap = " with a larger cap" if report.state == "capped" else ""
        how = f"; type the same search again{cap}" if report.kind == "search" else ""
        return f"Go on: it ended early ({why}), and nothing is lost{how}."
    if hopeless:
        return f"Read the failures of {_listed(hopeless)}: not one candidate was right."
    if report.won and not report.environment.device.measures_time:
        champions = "champion" if len(report.won) == 1 else f"{len(report.won)} champions"
        return f"Measure the {champions} on a Mac: copy the store, run kernelwright store verify."
    if report.won:
        return "Export the champions and measure the whole program with them."
    if even:
        return (
            f"Leave {_listed(even)} to MLX, or let a model propose what the templates do not: "
            "no candidate gains anything."
        )
    return "Search again with more candidates: nothing survived its confirmation."


def _listed(names: Sequence[str]) -> str:
    """Name a few, and count the rest."""
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _commands(report: CampaignReport) -> tuple[tuple[str, str], ...]:
    short = report.campaign_id[:8]
    commands = []
    if report.state in ("running", "paused"):
        commands.append((f"kernelwright campaign watch {short}", "follow it: this is no end yet"))
    elif report.state != "finished" and report.kind == "campaign":
        is_capped = report.state == "capped"
        larger = "; give a larger --dollars, --tokens, --calls, --evaluations or --hours"
        words = f"go on where it ended{larger if is_capped else ''}"
        commands.append((f"kernelwright campaign resume {short}", words))
    if any(f.gain and f.gain.beats_mlx for f in report.functions):
        words = "take the functions that gain into a project"
        commands.append((f"kernelwright export --campaign {short} -o vendored/", words))
    if report.won and (champion := report.won[0].champion):
        id_ = champion.candidate_id[:8]
        commands += [
            (f"kernelwright show {id_}", "look at the best one: source, lineage, errors"),
            (f"kernelwright export {id_} -o vendored/", "take that kernel alone"),
        ]
    if report.failures:
        example = report.failures[0].example_id[:8]
        commands.append((f"kernelwright show {example}", "look at the most frequent failure"))
    commands.append((f"kernelwright history --campaign {short}", "everything that was tried"))
    return tuple(commands)
