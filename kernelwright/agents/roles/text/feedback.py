"""A verdict in words that help: the diagnosis, and nothing of what gates promotion."""

import re
from collections.abc import Iterable, Iterator

from kernelwright.evaluator.evaluation import AT_SHAPE, Evaluation, Mismatch, Speedup, Status
from kernelwright.metal.device.base import Counters
from kernelwright.metal.diagnostic import SanitizerReport
from kernelwright.metal.kernel import Program

LONGEST = 6000
_MOST = 6
_HASH = re.compile(r"_[0-9a-f]{16}$")
_BASELINES = {"eager": "plain MLX", "compile": "mx.compile", "fast": "mx.fast"}
_SECTOR_BYTES = 32
_WHOLE = 2.0**53
_WASTEFUL = 1.25
"""From so many times the sectors that its bytes fill, an access is worth a remark."""
_UNPROVEN = (
    "Correct in every open check, and not confirmed by the closed ones. Something depends on "
    "what the open checks happen to show: sizes, alignment, a bound, an assumption about values."
)


def diagnosis(evaluation: Evaluation, program: Program) -> str:
    """Say what a repairer needs: where it is wrong, how, and at which shapes.

    A verdict that fell at a closed gate is named, and nothing of it is told.
    """
    if is_gated(evaluation):
        return _UNPROVEN
    # The summary of a sanitizer's verdict is its first report, which follows in full.
    is_told = any(str(report) in evaluation.summary for report in evaluation.reports)
    _, at, shapes = evaluation.summary.partition(AT_SHAPE)
    told = f"{at}{shapes.rstrip('.')}:" if is_told else f": {evaluation.summary}"
    lines = [f"{evaluation.status.value}{told}"]
    # What is wrong with a launch has no line, and the summary has it.
    placed = [
        d for d in evaluation.diagnostics if d.line > 0 or d.message not in evaluation.summary
    ]
    lines += _bounded([str(d) for d in placed], "diagnostics")
    lines += _bounded([_report(r, program) for r in evaluation.reports], "reports")
    lines += _bounded([_mismatch(m, program) for m in evaluation.mismatches], "differences")
    lines += _accuracy(evaluation)
    return "\n".join(lines)[:LONGEST]


def outcome(evaluation: Evaluation) -> str:
    """Say in a few words what became of an attempt."""
    if is_gated(evaluation):
        return "Correct in the open checks only."
    if not evaluation.is_correct:
        return f"{evaluation.status.value.capitalize()}: {evaluation.summary.rstrip('.')}."
    if speed := speed_of(evaluation, only_strongest=True):
        return f"Correct, {speed}."
    return "Correct."


def profile(evaluation: Evaluation) -> str:
    """Say what a correct program costs and what bounds it."""
    speed = speed_of(evaluation)
    lines = [f"It is {speed}." if speed else "It is correct."]
    if evaluation.bound:
        lines.append(f"Bound by {evaluation.bound}.")
    lines += [line for counters in evaluation.counters for line in _counts(counters)]
    return "\n".join(lines)[:LONGEST]


def speed_of(evaluation: Evaluation, *, only_strongest: bool = False) -> str:
    """Say how fast a program is, and against what; empty where nobody knows."""
    parts = []
    if evaluation.predicted_us is not None:
        parts.append(f"predicted at {evaluation.predicted_us:.3g} us")
    speedups = sorted(evaluation.speedups, key=lambda s: s.ratio)
    parts += [
        f"{s.ratio:.2f} times as fast as {_BASELINES.get(s.baseline, s.baseline)} ({_sureness(s)})"
        for s in (speedups[:1] if only_strongest else speedups)
    ]
    return ", ".join(parts)


def _sureness(speedup: Speedup) -> str:
    if speedup.kind == "predicted":
        return "predicted"
    lower, upper = speedup.bounds
    return f"measured, {lower:.2f} to {upper:.2f}"


def error_signature(evaluation: Evaluation) -> str:
    """Return what makes an error the same error again: its kinds and words, not its places."""
    if is_gated(evaluation):
        return "gated"
    kinds = sorted({d.message for d in evaluation.diagnostics})
    kinds += sorted({f"{r.kind} {r.variable}" for r in evaluation.reports})
    kinds += sorted({f"{m.output} {m.words}" for m in evaluation.mismatches})
    return "\n".join([evaluation.status.value, *(kinds or [evaluation.summary])])


def is_gated(evaluation: Evaluation) -> bool:
    """Say whether a closed stage decided: its reasons must reach no prompt."""
    if evaluation.status is Status.UNPROVEN:
        return True
    return any(s.stage.is_closed and not s.passed for s in evaluation.stages)


def _bounded(texts: list[str], what: str) -> Iterator[str]:
    yield from texts[:_MOST]
    if len(texts) > _MOST:
        yield f"… and {len(texts) - _MOST} more {what}."


def _report(report: SanitizerReport, program: Program) -> str:
    parts = [str(report)]
    if report.variable and report.variable not in report.message:
        at = f", byte {report.offset}" if report.offset is not None else ""
        parts.append(f"in {report.variable}{at}")
    if report.thread is not None and str(report.thread) not in report.message:
        parts.append(f"by thread {report.thread}")
    if report.other_thread is not None and str(report.other_thread) not in report.message:
        at = f" at line {report.other_line}" if report.other_line else ""
        parts.append(f"against thread {report.other_thread}{at}")
    if report.count > 1:
        parts.append(f"{report.count} times")
    line = _line(program, report.file, report.line)
    return ", ".join(parts) + (f"\n    {line}" if line else "")


def _line(program: Program, file: str, number: int) -> str:
    """Return the line that a report points at, where only one kernel can be meant."""
    if len(program.kernels) != 1 or number < 1:
        return ""
    kernel = program.kernels[0]
    lines = (kernel.header if file == "header" else kernel.source).splitlines()
    return lines[number - 1].strip() if number <= len(lines) else ""


def _mismatch(mismatch: Mismatch, program: Program) -> str:
    name = program.outputs[mismatch.output].name
    words = f"{name} is wrong at {mismatch.words}, for inputs {', '.join(mismatch.shapes)}"
    if mismatch.expected is not None and mismatch.found is not None:
        index = ", ".join(map(str, mismatch.index))
        right, wrong = told_apart(mismatch.expected, mismatch.found)
        words += f": {name}[{index}] should be {right}, found {wrong}"
    given = ", ".join(
        f"{program.inputs[i.input].name}[{', '.join(map(str, i.index))}] is {_number(i.value)}"
        for i in mismatch.inputs[:_MOST]
        if i.input < len(program.inputs)
    )
    if given:
        words += f", where {given}"
    return f"{words}."


def _number(value: float, digits: int = 6) -> str:
    """Write a whole number whole, and others with some digits."""
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else f"{value:.{digits}g}"


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Write two numbers with as many digits as tell them apart."""
    for digits in (6, 9, 17):
        texts = _number(one, digits), _number(other, digits)
        if texts[0] != texts[1]:
            break
    return texts


def _accuracy(evaluation: Evaluation) -> Iterator[str]:
    for accuracy in evaluation.accuracy:
        if accuracy.row_relative > accuracy.bound:
            yield (
                f"Row-wise error of output {accuracy.output}: {accuracy.row_relative:.2g}, MLX's "
                f"own {accuracy.reference_row_relative:.2g}, allowed {accuracy.bound:.2g}."
            )


def _moved(count: int, verb: str, sectors: int) -> str:
    if not count:
        return ""
    share = sectors * _SECTOR_BYTES / count
    waste = f", {share:.1f} times what they fill" if share >= _WASTEFUL else ""
    return f"{count} bytes {verb} in {sectors} sectors of {_SECTOR_BYTES}{waste}"


def name_of(counters: Counters) -> str:
    """Return a kernel's own name: MLX adds a hash to it."""
    return _HASH.sub("", counters.kernel)


def _counts(counters: Counters) -> Iterable[str]:
    yield f"{name_of(counters)}: {counters.threads} threads in {counters.threadgroups} groups."
    for buffer in counters.buffers:
        parts = [
            _moved(buffer.bytes_read, "read", buffer.sectors_read),
            _moved(buffer.bytes_written, "written", buffer.sectors_written),
        ]
        if any(parts):
            yield f"  {buffer.name}: {', '.join(filter(None, parts))}."
    yield (
        f"  {counters.float_operations} float, {counters.special_operations} special, "
        f"{counters.integer_operations} integer operations; {counters.simd_operations} simd, "
        f"{counters.barriers} barriers, {counters.bank_conflicts} bank conflicts, "
        f"{counters.divergent_branches} divergent branches."
    )
