"""What follows from an op's name stands in its record, and in no table of another room."""

import ast
from collections.abc import Iterator
from pathlib import Path

import kernelwright
from kernelwright.ir import OPS

ROOT = Path(kernelwright.__file__).parent
SPELLING = frozenset(
    {
        # How ops are written in Metal, and which instructions join what lanes found.
        "metal/lower",
        "metal/target/msl",
        # Ops of a kernel's scalars, which bear the names of the graph's.
        "metal/kernel_ir/scalar_op.py",
        # As code of MLX.
        "runtime/export",
        # As words of expressions, texts of people and names of operands.
        "service/python/authoring",
        "ir/naming",
        # What MLX's tracer calls them, and the calls that replay them.
        "ir/trace",
        # In sentences for models.
        "agents/roles/judged_values.py",
        # Functions of Metal, of which some are called as ops are.
        "evaluator/attacks/mutate",
    }
)
"""Where ops are spelled in another language."""
RECOGNISING = frozenset(
    {
        # Which graphs are of one family, of a known name, or equal to simpler ones.
        "metal/family",
        "ir/passes",
        "plan",
        # Sums and products with known numbers, and the bound that belongs to one op's arithmetic.
        "evaluator/inputs/interval.py",
        "evaluator/oracle/error_of_",
    }
)
"""Where patterns of ops are recognised."""
MOST_NAMES = 2
"""A choice between two ops is a condition; more of them are a table."""


def _tables(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    for node in ast.walk(tree):
        entries: list[ast.expr | None] = []
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            entries = [*node.elts]
        elif isinstance(node, ast.Dict):
            entries = [*node.keys]
        texts = {e.value for e in entries if isinstance(e, ast.Constant) and type(e.value) is str}
        # Words that are nobody's op say that a table is about something else.
        if len(texts) > MOST_NAMES and texts <= OPS.keys():
            yield node.lineno, texts  # type: ignore[attr-defined]


def _is_exempt(path: str) -> bool:
    return path.startswith(("ir/ops", *SPELLING, *RECOGNISING))


def test_no_room_keeps_a_table_of_ops() -> None:
    found = [
        f"{path}:{line}: {', '.join(sorted(names))}"
        for file in sorted(ROOT.rglob("*.py"))
        if not _is_exempt(path := file.relative_to(ROOT).as_posix())
        for line, names in _tables(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
