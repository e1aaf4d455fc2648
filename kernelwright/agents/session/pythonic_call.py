"""Reading tool calls that models write as a list in Python: `[check(program="…")]`."""

import ast
import json
import re
from collections.abc import Iterator
from itertools import islice

# Llama 3.2 and 4 write them on lines of their own; within a line, it is indexing or prose.
_BEGINNING = re.compile(
    r"(?:^|<\|python_(?:start|tag)\|>)[ \t]*(\[)\s*[A-Za-z_]\w*\(", re.MULTILINE
)
_STRING = re.compile(
    r'"""(?:\\.|(?!""").)*"""|\'\'\'(?:\\.|(?!\'\'\').)*\'\'\'|'
    r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'',
    re.DOTALL,
)
_TOKEN = re.compile(_STRING.pattern + r"|[()\[\]{}]", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = "\\'\"abfnrtvxuUN01234567\n"
_JSON_WORDS = {"true": True, "false": False, "null": None}
_MOST_LISTS = 32


def pythonic_calls(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the lists of calls in a text, each with the names and arguments in it."""
    place = 0
    for match in islice(_BEGINNING.finditer(text), _MOST_LISTS):
        if match.start(1) < place:
            continue
        end = _end_of(text, match.start(1))
        written = text[match.start(1) : end]
        if calls := _calls(written):
            place = end
            yield written, calls


def _end_of(text: str, start: int) -> int:
    """Return the place after the bracket that closes the one at `start`."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)


def _calls(written: str) -> list[tuple[str, str]]:
    try:
        tree = _JsonWords().visit(ast.parse(_STRING.sub(_legal_string, written), mode="eval"))
        return [_call(node) for node in tree.body.elts]
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        return []


def _call(node: ast.expr) -> tuple[str, str]:
    """Return the name and the arguments of a call whose arguments are all named.

    Raises:
        ValueError: it is another expression.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("expected a call with named arguments")
    arguments = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
    if len(arguments) < len(node.keywords):
        raise ValueError("expected named arguments")
    return node.func.id, json.dumps(arguments)


def _legal_string(match: re.Match[str]) -> str:
    """Return a string literal for Python, with bare line breaks and unknown escapes kept."""
    literal = _ESCAPE.sub(lambda m: m[0] if m[1] in _ESCAPES else "\\" + m[0], match[0])
    if literal.startswith(('"""', "'''")):
        return literal
    return literal.replace("\r", "\\r").replace("\n", "\\n")


class _JsonWords(ast.NodeTransformer):
    """JSON's words for Python's constants, which models mix up."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the constant that a word stands for, else the name."""
        if node.id in _JSON_WORDS:
            return ast.copy_location(ast.Constant(_JSON_WORDS[node.id]), node)
        return node
