"""Reductions as text: identities, updates, and how lanes combine what each of them found."""

from collections.abc import Collection
from dataclasses import dataclass

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Apply, ReduceExpr, Reducer
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.rowwise.moment import is_moment, peak_of, weight_of
from kernelwright.metal.target.msl.precedence import Binding
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_UPDATES = {
    Reducer.SUM: "{0} += {1};",
    Reducer.PRODUCT: "{0} *= {1};",
    Reducer.MAXIMUM: "{0} = metal::max({0}, {1});",
    Reducer.MINIMUM: "{0} = metal::min({0}, {1});",
    Reducer.ALL: "{0} = {0} && {1};",
    Reducer.ANY: "{0} = {0} || {1};",
}
_KEEPING_NAN = {
    Reducer.MAXIMUM: "{0} = larger({0}, {1});",
    Reducer.MINIMUM: "{0} = smaller({0}, {1});",
}
_WORDS = {
    Reducer.SUM: "sum",
    Reducer.PRODUCT: "product",
    Reducer.MAXIMUM: "max",
    Reducer.MINIMUM: "min",
    Reducer.ALL: "all",
    Reducer.ANY: "any",
}
_WORDS_KEEPING_NAN = {Reducer.MAXIMUM: "maximum", Reducer.MINIMUM: "minimum"}
_SHUFFLED = (Dtype.FLOAT32, Dtype.INT32, Dtype.UINT32)
_IN_PART = (Reducer.SUM, Reducer.MAXIMUM, Reducer.MINIMUM)
_PLACES = {Reducer.MAXIMUM: Reducer.ARGMAX, Reducer.MINIMUM: Reducer.ARGMIN}
_ARGUMENTS = {Reducer.ARGMAX: ("{0} > {1}", "max"), Reducer.ARGMIN: ("{0} < {1}", "min")}
_ARGUMENTS_KEEPING_NAN = {
    Reducer.ARGMAX: ("exceeds({0}, {1})", "maximum"),
    Reducer.ARGMIN: ("undercuts({0}, {1})", "minimum"),
}


@dataclass(frozen=True, slots=True)
class Team:
    """The lanes that share a row."""

    lanes: int
    is_strips: bool = False
    """True where the lanes of a row stand in different simdgroups, one in each."""

    @property
    def simdgroups(self) -> int:
        """Simdgroups per row; 0 where a thread works alone."""
        return self.lanes // 32

    def combine(self, writer: Writer, word: str, name: str, kind: str) -> str:
        """Return the text that combines a variable over the team, the same for every lane."""
        if self.lanes == 1:
            return name
        if self.is_strips:
            partial = writer.fresh(f"partial_{name}")
            writer.line(f"threadgroup {kind} {partial}[{self.lanes}][32];")
            return f"strips_{word}({name}, {partial}[0], lane, {self.lanes}, simd_lane)"
        if self.lanes < 32:
            return f"lanes_{word}<{self.lanes}>({name})"
        if self.simdgroups == 1:
            prefix = "simd_" if word in ("maximum", "minimum") else "metal::simd_"
            return f"{prefix}{word}({name})"
        partial = writer.fresh(f"partial_{name}")
        writer.line(f"threadgroup {kind} {partial}[{self.simdgroups}];")
        return f"threadgroup_{word}({name}, {partial}, simdgroup, {self.simdgroups}, simd_lane)"


def identity(reduced: ReduceExpr) -> str:
    """Return what changes nothing, as MSL."""
    dtype = reduced.dtype
    match reduced.reducer:
        case Reducer.SUM:
            return "0.0f" if dtype.is_float else "0"
        case Reducer.PRODUCT:
            return "1.0f" if dtype.is_float else "1"
        case Reducer.ALL:
            return "true"
        case Reducer.ANY:
            return "false"
        case Reducer.MAXIMUM | Reducer.ARGMAX:
            return lowest(reduced.body.dtype)
    return highest(reduced.body.dtype)


def lowest(dtype: Dtype) -> str:
    """Return the smallest value of a computed dtype."""
    if dtype.is_float:
        return "-INFINITY"
    return (
        f"metal::numeric_limits<{MSL_TYPE[dtype]}>::min()" if dtype is not Dtype.BOOL else "false"
    )


def highest(dtype: Dtype) -> str:
    """Return the largest value of a computed dtype."""
    if dtype.is_float:
        return "INFINITY"
    return f"metal::numeric_limits<{MSL_TYPE[dtype]}>::max()" if dtype is not Dtype.BOOL else "true"


def joins_in_part(reduced: ReduceExpr) -> bool:
    """Say whether lanes that are a part of a simdgroup can join what each of them found."""
    return reduced.dtype in _SHUFFLED and reduced.reducer in _IN_PART


def is_compensated(reduced: ReduceExpr) -> bool:
    """Say whether a reduction has a rounding error to carry along."""
    return reduced.reducer is Reducer.SUM and reduced.dtype.is_float


def compensate(writer: Writer, reduced: ReduceExpr, name: str) -> None:
    """Add one element by Kahan's method: what the sum lost to rounding is added next time."""
    value = writer.expression(reduced.body).inside(Binding.ADD)
    corrected, raised = writer.fresh("corrected"), writer.fresh("raised")
    writer.line(f"float {corrected} = {value} - {lost_of(name)};")
    writer.line(f"float {raised} = {name} + {corrected};")
    # An infinite sum lost nothing; the difference of infinities would make it NaN.
    lost = f"({raised} - {name}) - {corrected}"
    writer.line(f"{lost_of(name)} = metal::isfinite({raised}) ? {lost} : 0.0f;")
    writer.line(f"{name} = {raised};")


def declare(writer: Writer, reduced: ReduceExpr, *, kahan: bool = False) -> str:
    """Write a reduction's variables before its loop; return the accumulator's name."""
    kind = MSL_TYPE[reduced.dtype]
    if is_position(reduced):
        name = writer.fresh(reduced.name, best_of)
        writer.line(f"{MSL_TYPE[reduced.body.dtype]} {best_of(name)} = {identity(reduced)};")
        writer.line(f"uint {name} = 0;")
        return name
    name = writer.fresh(reduced.name, lost_of)
    writer.line(f"{kind} {name} = {identity(reduced)};")
    if kahan and is_compensated(reduced):
        writer.line(f"float {lost_of(name)} = 0.0f;")
    return name


def update(writer: Writer, reduced: ReduceExpr, name: str) -> None:
    """Write what one element does to the accumulator."""
    if is_position(reduced):
        beats, _ = _argument(reduced)
        candidate = writer.named(reduced.body)
        with writer.block(f"if ({beats.format(candidate, best_of(name))})"):
            writer.line(f"{best_of(name)} = {candidate};")
            writer.line(f"{name} = {reduced.axis.name};")
        return
    value = writer.expression(reduced.body)
    logical = reduced.reducer in (Reducer.ALL, Reducer.ANY)
    writer.line(step(reduced, name, value.inside(Binding.EQUAL) if logical else value.text))


def step(reduced: ReduceExpr, name: str, value: str) -> str:
    """Return the statement that takes one more value into an accumulator that is no position."""
    template = _UPDATES[reduced.reducer]
    if _keeps_nan(reduced):
        template = _KEEPING_NAN[reduced.reducer]
    return template.format(name, value)


def is_position(reduced: ReduceExpr) -> bool:
    """Say whether a reduction looks for the place of its largest or smallest element."""
    return reduced.reducer in _ARGUMENTS


def is_smallest(reduced: ReduceExpr) -> bool:
    """Say whether a position is that of the smallest element."""
    return reduced.reducer is Reducer.ARGMIN


def _argument(reduced: ReduceExpr) -> tuple[str, str]:
    """Return how a value beats the best so far, and the word for the best of all lanes."""
    table = _ARGUMENTS_KEEPING_NAN if reduced.body.dtype.is_float else _ARGUMENTS
    return table[reduced.reducer]


def best_of(position: str) -> str:
    """Name the value that stands at a position."""
    return position.replace("position", "best")


def lost_of(name: str) -> str:
    """Name what rounding took from a sum."""
    return f"{name}_lost"


def peaks_at(found: Collection[ReduceExpr]) -> dict[ReduceExpr, ReduceExpr]:
    """Return the maxima and minima that are found with their places, by those."""
    places = {(r.reducer, r.body, r.axis): r for r in found if is_position(r)}
    asked = {peak: (_PLACES.get(peak.reducer), peak.body, peak.axis) for peak in found}
    return {places[place]: peak for peak, place in asked.items() if place in places}


def finish(
    writer: Writer, reduced: ReduceExpr, name: str, team: Team, value: ReduceExpr | None = None
) -> None:
    """Write how the lanes agree on the result, and bind it; `value` is what stands at a place."""
    writer.bind(reduced, name)
    if value is not None:
        writer.bind(value, best_of(name))
    if team.lanes == 1:
        return
    if is_position(reduced):
        _, word = _argument(reduced)
        peak = writer.fresh(f"row_{best_of(name)}")
        kind = MSL_TYPE[reduced.body.dtype]
        text = team.combine(writer, word, best_of(name), kind)
        writer.line(f"{kind} {peak} = {text};")
        if value is not None:
            writer.bind(value, peak)
        # Of equal values the first counts.
        last = writer.factors.get(reduced.axis.extent, str(reduced.axis.extent))
        is_float = reduced.body.dtype.is_float
        same = f"same({best_of(name)}, {peak})" if is_float else f"{best_of(name)} == {peak}"
        writer.line(f"{name} = {same} ? {name} : {last};")
        text = team.combine(writer, "min", name, "uint")
        writer.line(f"{name} = {text};")
        return
    words = _WORDS_KEEPING_NAN if _keeps_nan(reduced) else _WORDS
    word = words[reduced.reducer]
    text = team.combine(writer, word, name, MSL_TYPE[reduced.dtype])
    writer.line(f"{name} = {text};")


def _keeps_nan(reduced: ReduceExpr) -> bool:
    is_float = reduced.body.dtype.is_float
    return is_float and not reduced.drops_nan and reduced.reducer in _KEEPING_NAN


def is_shifted_sum(total: ReduceExpr, peak: ReduceExpr) -> bool:
    """Say whether `total` sums exp(x - peak) over the axis over which `peak` is x's maximum."""
    if total.reducer is not Reducer.SUM or peak.reducer is not Reducer.MAXIMUM:
        return False
    match total.body:
        case Apply(op=ScalarOp.EXP, arguments=(Apply(op=ScalarOp.SUBTRACT, arguments=shifted),)):
            return shifted == (peak.body, peak) and total.axis == peak.axis
    return False


def online_moments(found: list[ReduceExpr]) -> list[tuple[ReduceExpr, ReduceExpr]]:
    """Return (maximum, moment) pairs of which one pass can find the moment with the maximum."""
    totals = online_pairs(found)
    return [
        (peak, moment)
        for moment in filter(is_moment, found)
        for peak, total in totals
        if weight_of(moment) in (None, total.body) and peak_of(moment) is peak
    ]


def online_pairs(found: list[ReduceExpr]) -> list[tuple[ReduceExpr, ReduceExpr]]:
    """Return (maximum, sum of shifted exponentials) pairs that one pass can find together."""
    return [(p, t) for t in found for p in found if is_shifted_sum(t, p)]
