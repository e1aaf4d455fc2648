"""What follows from an op's name stands in its record, and in no table of another room."""

import ast
from collections.abc import Iterator
from functools import cache
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
        "agents/roles/text/mlx_code.py",
        "runtime/export",
        # As words of expressions, texts of people and names of operands.
        "service/python/authoring",
        "ir/naming",
        # What MLX's tracer calls them, and the calls that replay them.
        "ir/trace",
        # In sentences for models.
        "agents/roles/text/judged_values.py",
        # Functions of Metal, of which some are called as ops are.
        "evaluator/attacks/mutate",
    }
)
"""Where ops are spelled in another language."""
RECOGNISING = frozenset(
    {
        # Which graphs are of one family, of a known name, or equal to simpler ones.
        "metal/family",
        "ir/analysis",
        "ir/graph",
        "ir/match",
        "ir/passes",
        "plan",
        # Sums and products with known numbers, and the bound that belongs to one op's arithmetic.
        "evaluator/inputs/interval.py",
        "evaluator/oracle/error_of_",
        "evaluator/oracle/error_in_common.py",
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


def _single_ops(tree: ast.AST) -> Iterator[str]:
    """Yield the ops with whose names a module compares those of nodes and records."""
    for node in ast.walk(tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.MatchValue):
            sides = [node.value]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if not any(isinstance(s, ast.Attribute) and s.attr in ("op", "name") for s in sides):
                continue
        entries = [e for s in sides for e in (s, *getattr(s, "elts", ()))]
        texts = [e.value for e in entries if isinstance(e, ast.Constant)]
        yield from (text for text in texts if isinstance(text, str) and text in OPS)


def _is_exempt(path: str) -> bool:
    return path.startswith(("ir/ops", *SPELLING, *RECOGNISING))


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    """Return every module that neither spells nor recognises ops, parsed."""
    paths = {file.relative_to(ROOT).as_posix(): file for file in sorted(ROOT.rglob("*.py"))}
    return tuple(
        (path, ast.parse(file.read_text(encoding="utf-8")))
        for path, file in paths.items()
        if not _is_exempt(path)
    )


def test_no_room_keeps_a_table_of_ops() -> None:
    found = [
        f"{path}:{line}: {', '.join(sorted(names))}"
        for path, tree in _modules()
        for line, names in _tables(tree)
    ]
    assert not found, "\n".join(found)


def test_rooms_ask_the_record() -> None:
    found = {path: {*_single_ops(tree)} for path, tree in _modules()}
    assert not {path: names for path, names in found.items() if names}
