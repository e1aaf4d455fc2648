"""Operators that Python and Metal group differently: a line says by parentheses what it means."""

import ast
from collections.abc import Callable

from kernelwright.errors import InputError

_BITWISE = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}


def check_grouping(tree: ast.expr, text: str, place: Callable[[ast.AST], str]) -> None:
    """Check that a line's text means the same in both languages.

    Args:
        tree: of the text, on one line.
        text: what was parsed.
        place: names a node's place.

    Raises:
        InputError: comparisons follow one another, or `&`, `|` or `^` stands beside one.
    """
    written = text.encode()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        if len(node.ops) > 1:
            raise InputError(
                "expected one comparison at a time, which Python and Metal read alike, found "
                f"{len(node.ops)} {place(node)}; write x < y and y < z."
            )
        for operand in (node.left, node.comparators[0]):
            mark = _BITWISE.get(type(operand.op)) if isinstance(operand, ast.BinOp) else None
            if mark is not None and not _is_enclosed(operand, written):
                raise InputError(
                    f"expected parentheses where {mark} stands beside a comparison, which Python "
                    f"and Metal group differently, found none {place(operand)}; write "
                    f"(x {mark} 3) == 3."
                )


def _is_enclosed(operand: ast.expr, written: bytes) -> bool:
    before = written[: operand.col_offset].rstrip()[-1:]
    behind = written[operand.end_col_offset :].lstrip()[:1]
    return before == b"(" and behind == b")"
