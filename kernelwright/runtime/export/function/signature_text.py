"""Prints a function's signature as its file has it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable

from kernelwright.runtime.export.function.carried_names import SUBJECT
from kernelwright.runtime.export.function.literal import is_literal


def signature_text(function: Callable[..., object]) -> str:
    """Return a signature in one line, such as `(x, *, act=nn.silu) -> Boxes`."""
    found = inspect.signature(function)
    written = _written_defaults(function)
    parameters = [
        p.replace(annotation=_unquoted(p.annotation), default=written.get(name, p.default))
        for name, p in found.parameters.items()
    ]
    shown = found.replace(
        parameters=parameters, return_annotation=_unquoted(found.return_annotation)
    )
    text = " ".join(str(shown).split())
    # A user's file is imported under a name of ours, which its annotations carry.
    return re.sub(rf"\b{SUBJECT}\w*\.", "", text)


def _written_defaults(function: Callable[..., object]) -> dict[str, "_Written"]:
    """Return the expressions of defaults that are no numbers, texts or nests of them."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(inner):
        inner = inspect.getattr_static(type(inner), "__call__", inner)
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(inner))).body[0]
        own = inspect.signature(inner).parameters
    except (OSError, TypeError, ValueError, SyntaxError):
        return {}
    if not isinstance(node, ast.FunctionDef):
        return {}
    places = [*node.args.posonlyargs, *node.args.args]
    with_default = places[len(places) - len(node.args.defaults) :]
    pairs = [
        *zip(with_default, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    shown = inspect.signature(function).parameters
    return {
        a.arg: _Written(ast.unparse(text))
        for a, text in pairs
        if text is not None
        and a.arg in shown
        # A partial has other defaults than the function that it calls.
        and shown[a.arg].default is own[a.arg].default
        and not is_literal(own[a.arg].default)
    }


class _Written:
    """What a signature shows as its file has it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _unquoted(annotation: object) -> object:
    """Return an annotation that Python keeps as text without its quotes."""
    return _Written(annotation) if isinstance(annotation, str) else annotation
