"""Online softmax: the maximum of a row and its sum of shifted exponentials in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.metal.kernel_ir.expression import Apply, Expr, ReduceExpr, Store, walk
from kernelwright.metal.kernel_ir.scalar_op import propagates_nan
from kernelwright.metal.lower.emit.accumulator import Team
from kernelwright.metal.lower.emit.layout import Block, Line, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.run_peak import RunPeak
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.rowwise.moment import factor_of, weight_of
from kernelwright.metal.target.msl.precedence import Binding
from kernelwright.metal.target.msl.spelling import function_name

_LARGER = {False: "larger({0}, {1})", True: "metal::max({0}, {1})"}
"""By whether NaN may be dropped."""
Pair = tuple[ReduceExpr, ReduceExpr]
"""A row's maximum, and the sum of its exponentials shifted by it."""


@dataclass(frozen=True, slots=True)
class PairNames:
    """The variables of a pair, and of the moments that are found with it."""

    peak: str
    total: str
    moments: tuple[tuple[ReduceExpr, str], ...]
    seen: str
    """Counts the elements, where a moment is of distances alone; empty otherwise."""
    drops_nan: bool
    """True where nobody asks for the maximum but together with the sum, which is NaN then."""


def declare_online(
    writer: Writer, pair: Pair, moments: Sequence[Pair], stores: Sequence[Store]
) -> PairNames:
    """Write the pair's variables before the loop that finds them for `stores`."""
    peak, total = (writer.fresh(reduced.name) for reduced in pair)
    # A finite start: the difference of two infinities would be NaN.
    writer.line(f"float {peak} = -FLT_MAX;")
    writer.line(f"float {total} = 0.0f;")
    own = [m for found, m in moments if found is pair[0] and weight_of(m) in (None, pair[1].body)]
    named = tuple((moment, writer.fresh(moment.name)) for moment in own)
    seen = writer.fresh("seen") if any(weight_of(moment) is None for moment in own) else ""
    for name in (*(name for _, name in named), *([seen] if seen else [])):
        writer.line(f"float {name} = 0.0f;")
    drops_nan = pair[0].drops_nan or _always_summed(pair, stores)
    return PairNames(peak, total, named, seen, drops_nan)


def update_online(writer: Writer, pair: Pair, names: PairNames) -> None:
    """Write what one element does to the pair."""
    peak = pair[0]
    value = writer.named(peak.body)
    exponential = _exponential(pair)
    # Maxima are rare, so most elements cost one exponential; a NaN counts as one.
    with writer.block(f"if ({_not_below(value, names)})"):
        raised = writer.fresh("raised")
        larger = _LARGER[names.drops_nan].format(names.peak, value)
        writer.line(f"float {raised} = {larger};")
        _raise(writer, pair, names, raised)
    _add(writer, names, value, exponential)


def _add(writer: Writer, names: PairNames, value: str, exponential: str) -> None:
    """Write what an element adds to the total and to the moments."""
    text, distance = f"{exponential}({value} - {names.peak})", f"{value} - {names.peak}"
    if names.moments:
        weight = writer.fresh("weight")
        writer.line(f"float {weight} = {text};")
        text = weight
    writer.line(f"{names.total} += {text};")
    for moment, name in names.moments:
        factor = factor_of(moment)
        if weight_of(moment) is None:
            added = distance
        elif factor is None:
            added = f"{text} * ({distance})"
        else:
            added = f"{text} * {writer.expression(factor).inside(Binding.MULTIPLY)}"
        writer.line(f"{name} += {added};")
    if names.seen:
        writer.line(f"{names.seen} += 1.0f;")


def look_online(writer: Writer, found: RunPeak, names: PairNames) -> None:
    """Write what one element does to the largest of its run."""
    found.look(writer, _LARGER[names.drops_nan])


def raise_online(
    writer: Writer,
    pair: Pair,
    names: PairNames,
    found: RunPeak,
    around: Sequence[Line | Block],
    span: Span,
) -> None:
    """Write what a run does to the pair, its largest element being found."""
    question = f"{found.name} > {names.peak}"
    with writer.block(f"if ({question if names.drops_nan else _not_below(found.name, names)})"):
        _raise(writer, pair, names, found.name)
    factors = [f for m, _ in names.moments if (f := factor_of(m)) is not None]

    def body(inner: Writer) -> list[Run]:
        inner.bind(found.body, found.value)
        runs = span.bind(inner, factors, ())
        inner.prepare(factors)
        _add(inner, names, found.value, _exponential(pair))
        return runs

    surround(writer, around, body)


def _not_below(value: str, names: PairNames) -> str:
    return f"!({value} <= {names.peak})"


def _raise(writer: Writer, pair: Pair, names: PairNames, raised: str) -> None:
    _shift(writer, pair, names, raised)
    writer.line(f"{names.peak} = {raised};")


def _shift(writer: Writer, pair: Pair, names: PairNames, raised: str) -> None:
    """Write how the total and the moments change with the number that exponents are shifted by."""
    text = f"{_exponential(pair)}({names.peak} - {raised})"
    if names.moments:
        scale = writer.fresh("scale")
        writer.line(f"float {scale} = {text};")
        text = scale
    apart = f"({names.peak} - {raised})"
    for moment, name in names.moments:
        if factor_of(moment) is not None:
            writer.line(f"{name} *= {text};")
            continue
        # Where nothing was added, the finite start is no distance away.
        if weight_of(moment) is None:
            count, moved = names.seen, f"{name} + {names.seen} * {apart}"
        else:
            count, moved = names.total, f"({name} + {names.total} * {apart}) * {text}"
        writer.line(f"{name} = {count} == 0.0f ? {name} : {moved};")
    writer.line(f"{names.total} *= {text};")


def _always_summed(pair: Pair, stores: Sequence[Store]) -> bool:
    """Say whether every output that depends on the maximum is NaN where the sum is.

    The sum of a row with a NaN is NaN, so that the maximum of the row need not be.
    """
    return all(_carries_nan(store.value, pair) for store in stores)


def _carries_nan(root: Expr, pair: Pair) -> bool:
    peak, total = pair
    carriers, depends = {total.number}, False
    for term in walk([root], {peak.number, total.number}):
        depends |= term is peak
        if not isinstance(term, Apply) or not term.dtype.is_float:
            continue
        if propagates_nan(term.op) and carriers & {a.number for a in term.arguments}:
            carriers.add(term.number)
    return root.number in carriers or not depends


def finish_online(writer: Writer, pair: Pair, names: PairNames, team: Team) -> None:
    """Write how the lanes agree on the pair, and bind it."""
    peak, total = pair
    writer.bind(peak, names.peak)
    writer.bind(total, names.total)
    shared = names.peak
    if team.lanes > 1:
        shared = writer.fresh(f"row_{names.peak}")
        word = "max" if names.drops_nan else "maximum"
        text = team.combine(writer, word, names.peak, "float")
        writer.line(f"float {shared} = {text};")
        _shift(writer, pair, names, shared)
        for name in (names.total, *(name for _, name in names.moments)):
            text = team.combine(writer, "sum", name, "float")
            writer.line(f"{name} = {text};")
        writer.bind(peak, shared)
    for moment, name in names.moments:
        writer.bind(moment, name)
    if not names.drops_nan:
        # Nothing has risen above the finite start.
        writer.line(f"{shared} = {names.total} == 0.0f ? -INFINITY : {shared};")


def _exponential(pair: Pair) -> str:
    """Return the function whose results are added up."""
    body = pair[1].body
    assert isinstance(body, Apply)
    return function_name(body.op, is_fast=body.is_fast)
