"""What follows from an op's name stands in its record, and in no table of another room."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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
        "evaluator/inputs/overflow_room.py",
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


def _texts(node: ast.AST | None) -> Iterator[str]:
    """Yield the words that an expression is, or holds."""
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return what the names of a module stand for that are given a value once."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


def _is_op(side: ast.expr) -> bool:
    is_attribute = isinstance(side, ast.Attribute) and side.attr in ("op", "name")
    return is_attribute or (isinstance(side, ast.Name) and side.id == "op")


def _begins_op(text: str) -> bool:
    """Say whether a text is the beginning or the end of an op's name, and no mere letter of it."""
    return len(text) > 2 and any(op.startswith(text) or op.endswith(text) for op in OPS)


def _single_ops(tree: ast.Module) -> Iterator[str]:
    """Yield the ops with whose names a module compares those of nodes and records.

    The names may stand in the comparison, or in a constant of the module.
    """
    constants = _constants(tree)
    for node in ast.walk(tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.MatchValue):
            sides = [node.value]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # A record that is asked for by its op's name.
            sides = [*node.args] if node.func.id == "op_named" else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            begins, of = node.func.attr in ("startswith", "endswith"), node.func.value
            if begins and isinstance(of, ast.Attribute | ast.Name) and _is_op(of):
                yield from filter(_begins_op, _texts(node.args[0]))
        elif isinstance(node, ast.Subscript):
            is_table = isinstance(node.value, ast.Name) and node.value.id in ("OPS", "_TABLE")
            sides = [node.slice] if is_table else []
        if isinstance(node, ast.Compare) and not any(map(_is_op, sides)):
            continue
        known = (constants.get(s.id, s) if isinstance(s, ast.Name) else s for s in sides)
        yield from (text for side in known for text in _texts(side) if text in OPS)


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


@pytest.mark.parametrize(
    "text",
    [
        "node.op == 'softmax'",
        "_FEW = {'gather', 'scatter'}\nnode.op in _FEW",
        "_FEW: frozenset[str] = frozenset(('gather',))\nop in _FEW",
        "node.op.startswith('scatter')",
        "op_named('softmax')",
        "OPS['softmax']",
        "match node.op:\n    case 'softmax': ...",
    ],
)
def test_a_name_of_an_op_is_found_however_it_is_asked_for(text: str) -> None:
    assert {*_single_ops(ast.parse(text))} & {"softmax", "gather", "scatter"}


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
