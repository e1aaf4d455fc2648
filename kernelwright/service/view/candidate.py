"""The page of one candidate: what it is, what it does, whether it is right."""

import statistics

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kernelwright.campaign.report.wording import in_seconds, replayed_too
from kernelwright.evaluator.evaluation import BASELINE_NAMES, Evaluation, Samples, Speedup, Stage
from kernelwright.evaluator.gain import Gain, in_microseconds
from kernelwright.metal.device.base import Counters
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.plural import counted
from kernelwright.service.view.figure import in_bytes, in_dollars, ranked, short
from kernelwright.service.view.fitted_table import FittedTable, plain_columns
from kernelwright.service.view.speedup import gain_line
from kernelwright.store import Candidate, CandidateDetail, KnownEvaluation
from kernelwright.store.model_call import Spend

# Only the sixteen colours of the terminal's own theme, so that light ones stay readable.
_SYNTAX_THEME = "ansi_dark"


def print_candidate(
    console: Console, detail: CandidateDetail, gain: Gain | None = None, spent: Spend | None = None
) -> None:
    """Print the page; `spent` is what models were paid for the candidate's task."""
    console.print(_head(detail, gain, spent))
    for kernel in detail.program.kernels:
        console.print(_kernel(kernel, detail.program))
    if detail.lineage:
        console.print(_section("lineage", _lineage(detail.candidate, detail.lineage)))
    for known in detail.evaluations[:3]:
        console.print(_section(_evaluation_title(known), _evaluation(known.evaluation)))
    if len(detail.evaluations) > 3:
        console.print(f"and {len(detail.evaluations) - 3} older evaluations", style="quiet")
    if not detail.evaluations:
        console.print("Not evaluated yet.", style="warn")


def _head(detail: CandidateDetail, gain: Gain | None, spent: Spend | None) -> RenderableType:
    candidate = detail.candidate
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="label")
    grid.add_column()
    crowns = ", ".join(f"{c.device} ({c.chip}), {c.freshness}" for c in detail.champion_on)
    rows = [
        (
            "task",
            Text.assemble(
                (candidate.task.name, "task"), ("  " + candidate.task.signature, "quiet")
            ),
        ),
        ("takes", _tensors(detail.program.inputs)),
        ("gives", _tensors(detail.program.outputs)),
        ("idea", Text(candidate.idea)),
        ("schedule", Text(candidate.schedule)),
        ("author", Text(candidate.author)),
        ("spent", Text(_spent(spent) if spent else "")),
        ("program", Text(short(candidate.program_id), style="quiet")),
        ("speedup", gain_line(gain) if gain else Text()),
        (_crown(gain), Text(f"on {crowns}" if crowns else "", style="good")),
    ]
    for label, value in rows:
        if value.plain:
            grid.add_row(label, value)
    title = Text.assemble("candidate ", (short(candidate.id), "id"))
    return Panel(grid, title=title, title_align="left", border_style="quiet")


def _spent(spent: Spend) -> str:
    calls = f"{counted(spent.calls, 'call')}{replayed_too(spent.replayed_calls)}"
    return f"{in_dollars(spent)} on its task, {calls}"


def _crown(gain: Gain | None) -> str:
    """Name what leads its task: a champion beats MLX."""
    return "champion" if gain is None or gain.beats_mlx else "best so far"


def _tensors(tensors: tuple[Tensor, ...]) -> Text:
    return Text(
        ", ".join(f"{t.name}: {t.dtype.short}[{','.join(map(str, t.shape))}]" for t in tensors)
    )


def _kernel(kernel: Kernel, program: Program) -> RenderableType:
    launch = Text.assemble(
        ("grid ", "label"),
        " × ".join(map(str, kernel.grid)),
        ("   threadgroup ", "label"),
        " × ".join(map(str, kernel.threadgroup)),
        ("   math ", "label"),
        kernel.math_mode,
    )
    if kernel.template:
        values = ", ".join(f"{name}={value}" for name, value in kernel.template.items())
        launch.append_text(Text.assemble(("   template ", "label"), values))
    if program.tunables:
        values = ", ".join(f"{t.name}={t.value} of {t.choices}" for t in program.tunables)
        launch.append_text(Text.assemble(("   tunable ", "label"), values))
    texts = [text for text in (kernel.header, kernel.source) if text.strip()]
    code = Syntax(
        "\n\n".join(text.strip("\n") for text in texts),
        "cpp",
        theme=_SYNTAX_THEME,
        line_numbers=True,
        background_color="default",
        word_wrap=True,
    )
    return Panel(
        Group(launch, Text(), code),
        title=Text.assemble(
            (kernel.name, "title"),
            (f"({', '.join((*kernel.inputs, *kernel.outputs))})", "quiet"),
        ),
        title_align="left",
        border_style="quiet",
    )


def _section(title: str | Text, body: RenderableType) -> RenderableType:
    head = title if isinstance(title, Text) else Text(title, style="title")
    return Padding(Group(head, Padding(body, (0, 0, 0, 2))), (0, 0, 1, 0))


def _lineage(candidate: Candidate, ancestors: tuple[Candidate, ...]) -> RenderableType:
    lines = [Text.assemble((short(candidate.id), "id"), f" {candidate.author}: {candidate.idea}")]
    lines += [
        Text.assemble(("└ from ", "quiet"), (short(a.id), "id"), f" {a.author}: {a.idea}")
        for a in ancestors
    ]
    return Group(*lines)


def _evaluation_title(known: KnownEvaluation) -> Text:
    evaluation = known.evaluation
    return Text.assemble(
        ("evaluation ", "title"),
        (evaluation.status.value, "good" if evaluation.is_correct else "bad"),
        (f"  {evaluation.device.name} ({evaluation.device.chip}), ", "quiet"),
        (f"{known.created_at:%Y-%m-%d %H:%M} UTC, {in_seconds(evaluation.duration_s)}", "quiet"),
        (f"  {ranked(known.rank)}" if known.rank else "", "figure"),
    )


def _evaluation(evaluation: Evaluation) -> RenderableType:
    parts: list[RenderableType] = []
    if not evaluation.is_correct:
        parts.append(Text(evaluation.summary, style="bad"))
    parts += [Text(str(d), style="bad") for d in evaluation.diagnostics]
    parts += [Text(str(r), style="bad") for r in evaluation.reports]
    parts += [
        Text(f"output {m.output}: {m.words} ({', '.join(m.shapes)}, {m.case})", style="bad")
        for m in evaluation.mismatches
    ]
    parts.append(_stages(evaluation))
    if evaluation.accuracy:
        parts += [Text(), _accuracy(evaluation)]
    if evaluation.counters:
        parts += [Text(), _work(evaluation.counters)]
    if evaluation.predicted_us is not None:
        bound = f", bound by {evaluation.bound}" if evaluation.bound else ""
        parts.append(
            Text(f"predicted {in_microseconds(evaluation.predicted_us)}{bound}", style="figure")
        )
    parts += [_samples(samples) for samples in evaluation.samples]
    parts += [
        Text(f"{_ratio(s)} over {BASELINE_NAMES.get(s.baseline, s.baseline)} ({s.kind})")
        for s in evaluation.speedups
    ]
    return Group(*parts)


def _ratio(speedup: Speedup) -> str:
    if speedup.kind == "predicted":
        return f"~{speedup.ratio:.2f}×"
    lower, upper = speedup.bounds
    confidence = "" if speedup.confidence is None else f" at {speedup.confidence:.0%}"
    return f"{speedup.ratio:.2f}× [{lower:.2f}, {upper:.2f}]{confidence}"


def _stages(evaluation: Evaluation) -> RenderableType:
    reached = {result.stage: result for result in evaluation.stages}
    grid = Table.grid(padding=(0, 2))
    for stage in Stage:
        result = reached.get(stage)
        if result is None:
            continue
        mark = Text("✓", style="good") if result.passed else Text("✗", style="bad")
        duration = Text(f"{result.duration_s * 1000:.0f} ms", style="quiet", justify="right")
        grid.add_row(mark, stage.value, duration, Text(result.summary, style="quiet"))
    return grid


def _accuracy(evaluation: Evaluation) -> RenderableType:
    heads = ("output", "worst absolute", "worst relative", "by row", "MLX by row", "allowed")
    rows = []
    for row in evaluation.accuracy:
        figures = (
            row.maximum_absolute,
            row.maximum_relative,
            row.row_relative,
            row.reference_row_relative,
            row.bound,
        )
        rows.append([Text(str(row.output)), *(Text(f"{figure:.2g}") for figure in figures)])
    return FittedTable(plain_columns(*heads, justify="right"), rows)


def _work(launches: tuple[Counters, ...]) -> RenderableType:
    heads = ("groups", "threads", "read", "written", "float ops", "special", "barriers")
    rows = []
    for launch in launches:
        figures = (
            f"{launch.threadgroups:,}",
            f"{launch.threads:,}",
            in_bytes(sum(b.bytes_read for b in launch.buffers)),
            in_bytes(sum(b.bytes_written for b in launch.buffers)),
            f"{launch.float_operations:,}",
            f"{launch.special_operations:,}",
            f"{launch.barriers:,}",
        )
        rows.append([Text(launch.kernel), *map(Text, figures)])
    return FittedTable(plain_columns("launch", *heads, justify="right"), rows)


def _samples(samples: Samples) -> Text:
    if not samples.nanoseconds:
        return Text(f"{samples.arm}: no samples", style="quiet")
    ordered = sorted(samples.nanoseconds)
    middle = in_microseconds(statistics.median(ordered) / 1000)
    low, high = (in_microseconds(ordered[i] / 1000) for i in (0, -1))
    return Text.assemble(
        (f"{samples.arm}  ", "label"),
        (middle, "figure"),
        (f"  {len(ordered)} samples, {low} to {high}", "quiet"),
    )
