"""Tokens know their place and join back to the text they came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.metal.msl import TokenKind, tokenize, without_comments

PIECES = [
    *("x", "threadgroup", "1.0", "0x1.8p-3f", "1e-5h", ".5", "7u"),
    *('"a\\"b"', "'\\''", "R\"d(a)\")d\""),
    *("<:", "%:", "->", "<<=", "::", "...", "#", "##", "\\\n", "\\\r\n", "\n", "\t", " ", "/", "*"),
    *("// c\n", "/* d\n */", "\"", "'", "`", "é", "#define X(a) a ## 1\n"),
    "#include <metal_stdlib>\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_tokens_join_back_to_the_text(text: str) -> None:
    assert "".join(t.text for t in tokenize(text)) == text


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_places_are_where_the_text_has_the_token(text: str) -> None:
    lines = text.split("\n")
    for token in tokenize(text):
        assert text.startswith(token.text, token.offset)
        assert lines[token.line - 1][token.column - 1 :].startswith(token.text.split("\n")[0])


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_blanking_comments_moves_nothing(text: str) -> None:
    blanked = without_comments(text)
    assert len(blanked) == len(text)
    assert [i for i, c in enumerate(blanked) if c == "\n"] == [
        i for i, c in enumerate(text) if c == "\n"
    ]


@pytest.mark.parametrize(
    ("text", "kind", "spelling"),
    [
        ("fo\\\no", TokenKind.IDENTIFIER, "foo"),
        ("1.5e-3h", TokenKind.NUMBER, "1.5e-3h"),
        ("0x1.8p+3", TokenKind.NUMBER, "0x1.8p+3"),
        ("1'000", TokenKind.NUMBER, "1'000"),
        ("<%", TokenKind.PUNCTUATOR, "{"),
        ("%:%:", TokenKind.PUNCTUATOR, "##"),
        ('R"x(a)" b)x"', TokenKind.STRING, 'R"x(a)" b)x"'),
        ("/\\\n/ hidden", TokenKind.COMMENT, "/\\\n/ hidden"),
        ("// goes \\\n on", TokenKind.COMMENT, "// goes \\\n on"),
    ],
)
def test_one_token_is_read_whole(text: str, kind: TokenKind, spelling: str) -> None:
    [token] = tokenize(text)
    assert (token.kind, token.spelling) == (kind, spelling)


def test_a_directive_marks_its_line_and_its_continuation() -> None:
    tokens = tokenize("# \\\n define A /* b\n */ 1 \\\n + 2\nint x;\n")
    marked = [t.spelling for t in tokens if t.is_code and t.directive == "define"]
    assert marked == ["#", "define", "A", "1", "+", "2"]
    assert [t.spelling for t in tokens if t.is_code and not t.directive] == ["int", "x", ";"]


def test_a_hash_inside_a_line_starts_no_directive() -> None:
    assert all(not t.directive for t in tokenize("int x; # define A\n"))


def test_a_comment_inside_a_string_stays() -> None:
    assert without_comments('char s[] = "/* a */"; // b') == 'char s[] = "/* a */";     '
