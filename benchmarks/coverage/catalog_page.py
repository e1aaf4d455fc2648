"""The catalog's page: every task, and what the offline planner and coder reach of it."""

from collections.abc import Sequence

from benchmarks.coverage.solution import Solution
from kernelwright import catalog


def markdown(solutions: Sequence[Solution], others: Sequence[Solution]) -> str:
    """Render the catalog; `others` are a sample of it at other dtypes."""
    solved = sum(s.is_solved for s in solutions)
    lines = [
        "# The catalog",
        "",
        (
            f"{len(solutions)} ready tasks; at {solutions[0].dtype} the offline planner and coder "
            f"solve {solved} of them whole: every op but views runs in kernels that pass the "
            f"evaluator on the simulator.{_confirmed(solutions)}"
        ),
        "",
        (
            "Made by `python -m benchmarks.coverage.catalog`; search one with "
            "`kernelwright search catalog:NAME`."
        ),
    ]
    group = ""
    for entry, solution in zip(catalog.entries(), solutions, strict=True):
        if entry.group != group:
            group = entry.group
            lines += ["", f"## {group}", "", "| task | computes | kernels | left to MLX |"]
            lines += ["|---|---|---|---|"]
        lines.append(f"| `{entry.name}` | {entry.summary} | {_marks(solution)} |")
    return "\n".join([*lines, *_others(others)]) + "\n"


def _confirmed(solutions: Sequence[Solution]) -> str:
    confirmed = sum(s.is_confirmed for s in solutions)
    if not confirmed:
        return ""
    return f" {confirmed} of them held on hidden cases and in a fresh process as well (✓✓)."


def _marks(solution: Solution) -> str:
    kernels = f"{solution.proved}" if solution.proved == solution.regions else "not yet"
    mark = "✓✓" if solution.is_confirmed else "✓" if solution.is_solved else "–"
    words = (solution.problem.split(". ")[0].rstrip("."), ", ".join(dict.fromkeys(solution.left)))
    left = "; ".join(filter(None, words)) or ("" if solution.regions else "views alone")
    return f"{mark} {kernels} | {left}".replace("||", "\\|\\|")


def _others(solutions: Sequence[Solution]) -> list[str]:
    if not solutions:
        return []
    solved = sum(s.is_solved for s in solutions)
    lines = ["", "## Other dtypes", "", f"Of {len(solutions)} samples {solved} are solved whole."]
    lines += ["", "| task | dtype | kernels | left to MLX |", "|---|---|---|---|"]
    return [*lines, *(f"| `{s.task}` | {s.dtype} | {_marks(s)} |" for s in solutions)]
