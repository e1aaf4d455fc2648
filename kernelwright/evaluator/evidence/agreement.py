"""A table of how far machines agree with the simulator, from the files that they wrote."""

import math
from collections.abc import Sequence
from statistics import median

from kernelwright.errors import InputError
from kernelwright.evaluator.evidence.record import Evidence
from kernelwright.evaluator.evidence.result import Finding, Row

BEGIN, END = "<!-- agreement: begin -->", "<!-- agreement: end -->"
NONE = "No file of an Apple GPU has been read yet: nothing here has been compared with one."
_HEAD = """| machine | programs | same verdict | predicted times | median error |
|---|---|---|---|---|"""


def agreement_table(evidence: Sequence[Evidence]) -> str:
    """Return a table in Markdown, or the sentence that there is nothing to show."""
    compared = [one for one in evidence if one.has_gpu]
    alone = [one for one in evidence if not one.has_gpu]
    lines = [_HEAD, *map(_line, compared)] if compared else [NONE]
    for one in alone:
        steps = "; ".join(one.not_run)
        lines.append(f"\n{one.machine.name}: the simulator alone ran. Not run: {steps}.")
    return "\n".join(lines)


def with_agreement(page: str, table: str) -> str:
    """Put a table between a page's marks.

    Raises:
        InputError: the page has no marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"the page must have the lines {BEGIN} and {END}; add them.")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _line(one: Evidence) -> str:
    rows = one.verdicts.rows
    same = sum(not row.differs for row in rows)
    errors = _errors(one.timings.rows if one.timings is not None else ())
    error = f"{math.exp(median(errors)):.2f}x" if errors else "none"
    share = f"{same} ({same / len(rows):.1%})" if rows else "none"
    return f"| {one.machine.name} | {len(rows)} | {share} | {len(errors)} | {error} |"


def _errors(rows: Sequence[Row]) -> list[float]:
    """Return by how much each prediction is off either way, as a logarithm."""
    return [abs(math.log(p / m)) for row in rows for m, p in _times(row.findings.get("metal"))]


def _times(finding: Finding | None) -> list[tuple[float, float]]:
    if finding is None or not finding.measured_us or not finding.predicted_us:
        return []
    return [(finding.measured_us, finding.predicted_us)]
