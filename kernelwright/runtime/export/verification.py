"""Prints VERIFICATION.md: what was verified, on what, and what was not."""

from kernelwright.evaluator.evaluation import NOT_FOR_MACS, Evaluation, Stage
from kernelwright.evaluator.gain import gain_of
from kernelwright.ir.graph.nest import Given, leaves, missing
from kernelwright.metal.msl.language import macos_of
from kernelwright.metal.msl.refuse import least_language
from kernelwright.printable import printable
from kernelwright.runtime.export.reference_code import as_returned
from kernelwright.runtime.export.selection import Selection
from kernelwright.store import CandidateDetail

MODULE_LIMITS = (
    "Other shapes and dtypes go to the fallback, which is plain MLX.",
    "Gradients: differentiate `reference`; a Metal kernel has none of its own.",
)


def verification_text(chosen: Selection, limits: tuple[str, ...] = MODULE_LIMITS) -> str:
    """Return the file's text; `limits` says what the format leaves open."""
    detail, evaluation = chosen.detail, chosen.evaluation
    parts = [f"# What is known about `{chosen.name}`\n", _identity(detail)]
    if evaluation is None:
        parts.append("**Nothing was verified.** The kernel was exported by force.\n")
        return "\n".join(parts)
    if not evaluation.is_correct:
        parts.append(
            f"**The evaluator refused this kernel ({evaluation.status}): {evaluation.summary}** "
            "It was exported by force.\n"
        )
    if chosen.is_revoked:
        parts.append("**This kernel was revoked.** It was exported by force.\n")
    parts += [
        _speedup(detail),
        _verified(evaluation),
        _accuracy(evaluation),
        _environment(detail, evaluation),
    ]
    parts.append(_not_verified(detail, evaluation, limits))
    return "\n".join(part for part in parts if part)


def _identity(detail: CandidateDetail) -> str:
    takes = "\n".join(
        f"- `{name}`: `{type_}`"
        for name, type_ in zip(detail.graph.input_names(), detail.graph.input_types, strict=True)
    )
    gives = ", ".join(f"`{type_}`" for type_ in detail.graph.output_types)
    return (
        f"{takes}\n- gives {gives}\n{_beside(detail)}\n"
        f"Task `{detail.candidate.task.id}`  \n"
        f"Program `{detail.candidate.program_id}`  \n"
        f"Candidate `{detail.candidate.id}`, by {detail.candidate.author}: "
        f"{printable(detail.candidate.idea)}\n"
    )


def _beside(detail: CandidateDetail) -> str:
    """Say what its function returns that no kernel of these makes."""
    results = detail.graph.results
    if absent := missing(results):
        return f"- does not give {absent}\n"
    graph = as_returned(detail.graph)
    # One result that is returned as it is has no leaf.
    ends = zip(leaves(results), graph.output_types, strict=False)
    shown = ", ".join(f"`{type_}`" for leaf, type_ in ends if isinstance(leaf, Given))
    return f"- its function returns inputs, or views of them, too: {shown}\n" if shown else ""


def _speedup(detail: CandidateDetail) -> str:
    """Say what it gains, as `kernelwright best` and `show` do."""
    known = detail.standing
    if known is None or not known.evaluation.is_correct:
        return ""
    gain = gain_of(known.evaluation, detail.graph)
    verdict = "" if gain.beats_mlx else " MLX is best here."
    times = f"MLX {gain.mlx_time}, this kernel {gain.kernel_time}"
    return f"Speedup {gain.words}: {times}.{verdict}\n"


def _verified(evaluation: Evaluation) -> str:
    lines = ["## Verified\n"]
    for result in evaluation.stages:
        if result.stage is Stage.TIMING and not _was_timed(evaluation):
            continue
        mark = "x" if result.passed else " "
        summary = f" ({result.summary})" if result.summary else ""
        lines.append(f"- [{mark}] {result.stage}: {result.stage.claim}{summary}")
    return "\n".join(lines) + "\n"


def _was_timed(evaluation: Evaluation) -> bool:
    return any(speedup.kind == "measured" for speedup in evaluation.speedups)


def _accuracy(evaluation: Evaluation) -> str:
    if not evaluation.accuracy:
        return ""
    lines = [
        f"Worst errors over {evaluation.cases} cases, against float64:\n",
        "| output | absolute | relative | by row | MLX itself, by row | allowed |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {a.output} | {a.maximum_absolute:.2g} | {a.maximum_relative:.2g} | "
        f"{a.row_relative:.2g} | {a.reference_row_relative:.2g} | {a.bound:.2g} |"
        for a in evaluation.accuracy
    ]
    return "\n".join(lines) + "\n"


def _environment(detail: CandidateDetail, evaluation: Evaluation) -> str:
    device = evaluation.device
    language = least_language((k.header, k.source) for k in detail.program.kernels)
    when = detail.evaluations[0].created_at
    return (
        "## On what\n\n"
        f"- device: {device.name} ({device.chip})\n"
        f"- runtime: {device.runtime}\n"
        f"- its text needs Metal {language}, which MLX compiles on macOS {macos_of(language)} and "
        "later\n"
        f"- evaluator version {evaluation.evaluator_version}, {when:%Y-%m-%d %H:%M} UTC\n"
    )


def _free(detail: CandidateDetail) -> list[str]:
    return [f"`{name}`" for name in detail.program.dimensions]


def _not_verified(detail: CandidateDetail, evaluation: Evaluation, limits: tuple[str, ...]) -> str:
    lines = ["## Not verified\n"]
    if not evaluation.fits_metal:
        lines.append(f"- {NOT_FOR_MACS}")
    if evaluation.device.name != "metal":
        lines.append(
            f"- It has not run on an Apple GPU: everything above was seen on the "
            f"{evaluation.device.name} device."
        )
    if not _was_timed(evaluation):
        lines.append(
            "- No time was measured; a predicted speedup comes from counted work and a model of "
            "the chip."
        )
    reached = {result.stage for result in evaluation.stages if result.passed}
    lines += [
        f"- {stage}: not run, so it is not known whether it is {stage.claim}."
        for stage in Stage
        if stage.is_closed and stage not in reached
    ]
    if detail.program.is_generic:
        lines.append(
            f"- Every size of {', '.join(_free(detail))}: the kernel computes them all, and a few "
            "were tried besides the one above."
        )
    lines += [f"- {limit}" for limit in limits]
    return "\n".join(lines) + "\n"
