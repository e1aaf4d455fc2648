"""The page that tells which regions of mlx-lm's families were proved."""

from collections.abc import Sequence
from pathlib import Path

import mlx_lm
from scipy.stats import beta

from benchmarks.coverage.finding import Finding, Occurrence

_CONFIDENCE = 0.95
_MOST_NAMES = 6
_CHANGES = Path(__file__).with_name("regions_changes.md")
"""What became of regions that earlier releases chose, written by hand."""


def page(proved: Sequence[tuple[Occurrence, Finding]], known: int) -> str:
    """Render the sweep as a Markdown page, failures first; `known` regions were found in all."""
    passed = sum(finding.passed for _, finding in proved)
    families = {name for occurrence, _ in proved for name in occurrence.families}
    head = f"""# The regions of mlx-lm's families, proved

Written by `{_command(len(proved), known)}` with mlx-lm {mlx_lm.__version__}.
The offline planner cuts a prompt, a batch and a decode step of every family
([coverage](coverage.md)) into {known} distinct regions. {_share(len(proved), known)}
lowered with the first schedule that lowering suggests, and the program goes through the
evaluator on the simulator.

**{passed} of {len(proved)}** distinct regions of {len(families)} families pass with that schedule.
{_bound(passed, len(proved), known)}"""
    failures = [
        f"| `{occurrence.fingerprint[:8]}` | {finding.kind} | {_names(occurrence)} | "
        + "; ".join(finding.problems).replace("|", "\\|")
        + " |"
        for occurrence, finding in proved
        if not finding.passed
    ]
    if failures:
        rule = ["", "## Failures", "", "| region | kind | families | reason |", "|---|---|---|---|"]
        head += "\n".join([*rule, *failures]) + "\n"
    return head + _table(proved) + "\n" + _CHANGES.read_text()


def _command(count: int, known: int) -> str:
    sample = f" --sample {count}" if count < known else ""
    return f"python -m benchmarks.coverage.regions{sample}"


def _bound(passed: int, count: int, known: int) -> str:
    """Say what a draw tells of all regions: the bound of Clopper and Pearson."""
    if not passed or count == known:
        return ""
    least = float(beta.ppf(1 - _CONFIDENCE, passed, count - passed + 1))
    return f"So do {least:.1%} of all {known} at least, with {_CONFIDENCE:.0%} confidence.\n"


def _share(count: int, known: int) -> str:
    if count == known:
        return "Each is"
    return f"Those {count} with the smallest fingerprints, which is an even draw, are"


def _table(proved: Sequence[tuple[Occurrence, Finding]]) -> str:
    kinds: dict[str, list[tuple[Occurrence, Finding]]] = {}
    for occurrence, finding in proved:
        kinds.setdefault(finding.kind, []).append((occurrence, finding))
    lines = ["", "## By kind", ""]
    lines += ["| kind | regions | passed | failed | models |", "|---|---:|---:|---:|---:|"]
    for kind, found in sorted(kinds.items(), key=lambda pair: (_failed(pair[1]) == 0, pair[0])):
        failed = _failed(found)
        models = {name for occurrence, _ in found for name in occurrence.families}
        lines.append(
            f"| {kind} | {len(found)} | {len(found) - failed} | {failed} | {len(models)} |"
        )
    return "\n".join(lines) + "\n"


def _failed(found: Sequence[tuple[Occurrence, Finding]]) -> int:
    return sum(not finding.passed for _, finding in found)


def _names(occurrence: Occurrence) -> str:
    names = list(occurrence.families)
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + rest
