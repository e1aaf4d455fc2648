"""Edited text maps back to the columns it came from."""

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.metal.msl.edit import Editor

TEXT = "float a = 1.0;\n  threadgroup float b[4]; int c;\nint d;\n"


def test_kept_characters_map_to_their_own_columns() -> None:
    editor = Editor(TEXT)
    editor.insert(TEXT.index(";"), "f")
    editor.replace(TEXT.index("threadgroup"), "threadgroup", "typedef")
    editor.insert(TEXT.index(" int c"), " threadgroup T& b = *allocate();")
    edited = editor.finish()
    assert edited.text.split("\n")[1].startswith("  typedef float b[4]; threadgroup T&")
    for word, line in (("float a", 1), ("float b", 2), ("int c", 2), ("int d", 3)):
        column = edited.text.split("\n")[line - 1].index(word) + 1
        assert edited.column(line, column) == TEXT.split("\n")[line - 1].index(word) + 1


def test_inserted_text_maps_to_where_it_was_put() -> None:
    editor = Editor("a b")
    editor.insert(2, "long text ")
    assert [editor.finish().column(1, c) for c in (1, 2, 3, 8, 13)] == [1, 2, 3, 3, 3]


def test_replacing_over_lines_keeps_every_line_end() -> None:
    editor = Editor("one two\nthree four\nfive")
    editor.replace(4, "two\nthree", "2")
    assert editor.finish().text == "one 2\n four\nfive"


@given(st.text("ab\n"), st.lists(st.tuples(st.integers(0, 40), st.text("xy", max_size=5))))
def test_insertions_are_undone_by_the_map(text: str, inserted: list[tuple[int, str]]) -> None:
    editor = Editor(text)
    for offset, piece in inserted:
        editor.insert(min(offset, len(text)), piece)
    edited = editor.finish()
    lines = text.split("\n")
    for number, line in enumerate(edited.text.split("\n"), 1):
        kept = [edited.column(number, i + 1) for i, c in enumerate(line) if c in "ab"]
        assert kept == list(range(1, len(lines[number - 1]) + 1))
