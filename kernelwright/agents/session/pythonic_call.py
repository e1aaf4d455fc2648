"""Reading tool calls that models write in Python: as `[check(program="…")]`, or as a program."""

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import islice

# Llama 3.2 and 4 write them on lines of their own; within a line, it is indexing or prose.
_BEGINNING = re.compile(
    r"(?:^|<\|python_(?:start|tag)\|>)[ \t]*(\[)\s*[A-Za-z_]\w*\(", re.MULTILINE
)
# Gemma 3 writes them as lines of a program, each to be printed, with or without a module's name.
_CODE = re.compile(
    r"(?:```tool_(?:code|calls?)[ \t]*\r?\n|<tool_code>)(.*?)(?:```|</tool_code>|\Z)", re.DOTALL
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
    """Yield the programs and lists of calls in a text, each with the names and arguments in it."""
    for match in islice(_CODE.finditer(text), _MOST_LISTS):
        if calls := _calls_in_code(match[1]):
            yield match[0] if match[0].startswith("<") else match[1], calls
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


_UNREADABLE = (
    *(SyntaxError, ValueError, TypeError, AttributeError),
    *(RecursionError, MemoryError),
)


def _calls(written: str) -> list[tuple[str, str]]:
    try:
        tree = _JsonWords().visit(ast.parse(_STRING.sub(_legal_string, written), mode="eval"))
        return [_call(node) for node in tree.body.elts]
    except _UNREADABLE:
        return []


def _calls_in_code(written: str) -> list[tuple[str, str]]:
    """Return the calls that are a program's statements; a list of them is one, too."""
    try:
        code = _STRING.sub(_legal_string, textwrap.dedent(written).strip())
        tree = _JsonWords().visit(ast.parse(code))
        told = [s for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom)]
        values = [one for statement in told for one in _values(statement.value)]
        return [_call(_printed(value), in_code=True) for value in values]
    except _UNREADABLE:
        return []


def _values(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]


def _printed(node: ast.expr) -> ast.expr:
    """Return what a call of `print` prints, else the expression."""
    is_print = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    return node.args[0] if is_print and isinstance(node, ast.Call) and node.args else node


def _call(node: ast.expr, *, in_code: bool = False) -> tuple[str, str]:
    """Return the name and the arguments of a call whose arguments are all named.

    In code the name may follow a module's, and one dict may hold all arguments.

    Raises:
        ValueError: it is another expression.
    """
    named = (ast.Name, ast.Attribute) if in_code else ast.Name
    if not isinstance(node, ast.Call) or not isinstance(node.func, named):
        raise ValueError("expected a call")  # noqa: TRY004
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    arguments = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
    if len(arguments) < len(node.keywords):
        raise ValueError("expected named arguments")
    if not node.args:
        return name, json.dumps(arguments)
    (alone,) = map(ast.literal_eval, node.args)
    if arguments or not in_code or not isinstance(alone, dict):
        raise ValueError("expected named arguments")
    return name, json.dumps(alone)


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
