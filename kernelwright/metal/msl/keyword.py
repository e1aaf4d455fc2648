"""Names that became keywords of C++ after Metal's standard, which clang takes for no names."""

from collections.abc import Sequence

from kernelwright.metal.msl.edit import Editor
from kernelwright.metal.msl.token import Token, TokenKind

LATER_KEYWORDS = frozenset(
    ("concept", "requires", "consteval", "constinit", "co_await", "co_return", "co_yield")
)
"""Of C++20, while Metal is C++14 and C++17; `char8_t` clang has been told to take for a name."""


def rename_later_keywords(editor: Editor, tokens: Sequence[Token]) -> None:
    """Write `requires` as `kw_word_requires`; diagnostics say it as the text does."""
    for token in tokens:
        if token.kind is TokenKind.IDENTIFIER and token.spelling in LATER_KEYWORDS:
            editor.insert(token.offset, "kw_word_")
