"""Online softmax: the maximum of a row and its sum of shifted exponentials in one pass."""

from dataclasses import dataclass

from kernelwright.metal.lower.accumulator import Team
from kernelwright.metal.lower.term import Apply, Reduced
from kernelwright.metal.lower.writer import Writer

Pair = tuple[Reduced, Reduced]
"""A row's maximum, and the sum of its exponentials shifted by it."""


@dataclass(frozen=True, slots=True)
class PairNames:
    """The variables of a pair."""

    peak: str
    total: str


def declare_online(writer: Writer, pair: Pair) -> PairNames:
    """Write the pair's variables before its loop."""
    peak, total = (writer.fresh(reduced.name) for reduced in pair)
    # A finite start: the difference of two infinities would be NaN.
    writer.line(f"float {peak} = -FLT_MAX;")
    writer.line(f"float {total} = 0.0f;")
    return PairNames(peak, total)


def update_online(writer: Writer, pair: Pair, names: PairNames) -> None:
    """Write what one element does to the pair."""
    peak = pair[0]
    value = writer.named(peak.body)
    larger = "metal::max" if peak.drops_nan else "larger"
    exponential = _exponential(pair)
    # Maxima are rare, so most elements cost one exponential; a NaN counts as one.
    with writer.block(f"if (!({value} <= {names.peak}))"):
        raised = writer.fresh("raised")
        writer.line(f"float {raised} = {larger}({names.peak}, {value});")
        writer.line(f"{names.total} *= {exponential}({names.peak} - {raised});")
        writer.line(f"{names.peak} = {raised};")
    writer.line(f"{names.total} += {exponential}({value} - {names.peak});")


def finish_online(writer: Writer, pair: Pair, names: PairNames, team: Team) -> None:
    """Write how the lanes agree on the pair, and bind it."""
    peak, total = pair
    writer.bind(peak, names.peak)
    writer.bind(total, names.total)
    if team.lanes == 1:
        return
    exponential = _exponential(pair)
    shared = writer.fresh(f"row_{names.peak}")
    word = "max" if peak.drops_nan else "maximum"
    text = team.combine(writer, word, names.peak, "float")
    writer.line(f"float {shared} = {text};")
    writer.line(f"{names.total} *= {exponential}({names.peak} - {shared});")
    text = team.combine(writer, "sum", names.total, "float")
    writer.line(f"{names.total} = {text};")
    writer.bind(peak, shared)


def _exponential(pair: Pair) -> str:
    """Return the function whose results are added up."""
    body = pair[1].body
    assert isinstance(body, Apply)
    return body.template.partition("(")[0]
