"""The macros that a text defines, as far as its grammar depends on them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kernelwright.metal.msl.token import Token, TokenKind

SPACES = frozenset(
    ("device", "constant", "threadgroup", "thread", "threadgroup_imageblock", "ray_data")
)
_SPECIFIERS = SPACES | frozenset(
    (
        *("inline", "static", "const", "constexpr", "volatile", "extern", "__inline__"),
        *("__attribute__", "always_inline", "__always_inline__", "noinline", "__noinline__"),
        *("_Pragma", "alignas", "kernel", "restrict", "__restrict", "unused", "coherent"),
    )
)
_OF_THE_LIBRARY = {"METAL_FUNC": "inline", "METAL_INTERNAL": "inline"}


@dataclass
class Macros:
    """Grows from file to file, as `#include`s bring them in."""

    qualifiers: dict[str, str] = field(default_factory=lambda: dict(_OF_THE_LIBRARY))
    """Macros without parameters that stand for specifiers or nothing, and for what."""

    calls: set[str] = field(default_factory=set)
    """Macros with parameters."""

    def define(self, tokens: Iterable[Token]) -> None:
        """Take in the definitions among a file's tokens."""
        for name, body in _definitions(tokens):
            words = {t.spelling for t in body if t.kind is TokenKind.IDENTIFIER}
            is_call = bool(body) and body[0].spelling == "(" and body[0].offset == name.end
            is_free = not body or body[0].spelling in ("__attribute__", "_Pragma", "[")
            if is_call:
                self.calls.add(name.spelling)
            elif is_free or (words and words <= _SPECIFIERS):
                self.qualifiers[name.spelling] = " ".join(t.spelling for t in body)


def _definitions(tokens: Iterable[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """Yield the name and body of each `#define`."""
    words: list[Token] = []
    for token in tokens:
        if token.directive == "define":
            if token.is_code:
                words.append(token)
        elif words:
            yield from _definition(words)
            words = []
    yield from _definition(words)


def _definition(words: list[Token]) -> Iterator[tuple[Token, list[Token]]]:
    if len(words) > 2 and words[2].kind is TokenKind.IDENTIFIER:
        yield words[2], words[3:]


def integer_macros(tokens: Iterable[Token]) -> dict[str, int]:
    """Return the integer `#define`s of a text, which binding indices may use."""
    words = [t for t in tokens if t.directive == "define" and t.is_code]
    macros: dict[str, int] = {}
    for place, token in enumerate(words):
        if token.spelling == "define" and place + 2 < len(words):
            value = words[place + 2]
            ends = place + 3 >= len(words) or words[place + 3].spelling == "#"
            if value.kind is TokenKind.NUMBER and ends and value.text.isdigit():
                macros[words[place + 1].spelling] = int(value.text)
    return macros
