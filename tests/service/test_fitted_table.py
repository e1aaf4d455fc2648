"""Tables keep what tells their rows apart, and every figure, at any width."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from kernelwright.service.view.fitted_table import Column, FittedTable

_COLUMNS = (
    Column("id"),
    Column("task"),
    Column("inputs", leaves=3, below="alone", least=8),
    Column("time", justify="right", leaves=1),
    Column("age", leaves=2),
)
_NAMES = ("a_name_with_a_long_beginning_and_one", "a_name_with_a_long_beginning_and_two")


def _printed(width: int, *, one_line: bool = False) -> str:
    rows = [
        [*map(Text, (str(n) * 8, name, "f16[8,512]", "~10.1 µs", "2 min 43 s"))]
        for n, name in enumerate(_NAMES)
    ]
    # A console of a user's own, without the theme.
    page = io.StringIO()
    table = FittedTable(_COLUMNS, rows, key=1, one_line=one_line)
    Console(file=page, width=width).print(table)
    return page.getvalue()


@pytest.mark.parametrize("width", [32, 40, 60, 80, 120])
def test_names_and_figures_stay_at_any_width(width: int) -> None:
    text = _printed(width)
    assert max(map(len, text.splitlines())) <= width
    together = "".join(text.split())
    for whole in ("00000000", "11111111", "~10.1µs", "2min43s"):
        assert whole in together
    words = [line[10:].split() for line in text.splitlines()]
    names = "".join(line[0] for line in words if line)
    assert all(name in names for name in _NAMES)


def test_a_wide_table_has_a_line_for_each_row() -> None:
    head, *rows = _printed(120).splitlines()
    assert head.split() == ["id", "task", "inputs", "time", "age"]
    assert [row.split()[1] for row in rows] == list(_NAMES)


def test_what_leaves_says_what_it_is() -> None:
    text = _printed(40)
    assert "age 2 min 43 s" in text
    assert "inputs" not in text


def test_what_stands_below_a_name_is_indented_where_nothing_stands_before() -> None:
    columns = (Column("task"), Column("computes", leaves=1, below="alone", least=24))
    rows = [[Text("gelu"), Text("Gaussian error linear unit, with erf")]]
    page = io.StringIO()
    Console(file=page, width=24).print(FittedTable(columns, rows))
    lines = [line.rstrip() for line in page.getvalue().splitlines()]
    assert lines == ["task", "gelu", "  Gaussian error linear", "  unit, with erf"]


def test_rows_of_one_line_drop_what_has_no_room() -> None:
    head, *rows = _printed(40, one_line=True).splitlines()
    assert head.split() == ["id", "task", "time"]
    assert len(rows) == len(_NAMES)


@pytest.mark.parametrize("width", range(24, 60))
def test_what_stands_below_a_short_name_stays_on_its_line(width: int) -> None:
    columns = (
        Column("id"),
        Column("task"),
        Column("MLX", justify="right", leaves=1),
        Column("ours", justify="right", leaves=2),
        Column("age", leaves=3),
    )
    rows = [[*map(Text, ("00000000", "f", "~12.4 µs", "~5.80 µs", "59 s"))]]
    page = io.StringIO()
    Console(file=page, width=width).print(FittedTable(columns, rows, key=1))
    lines = " ".join(page.getvalue().splitlines())
    assert all(figure in lines for figure in ("12.4 µs", "5.80 µs", "59 s"))
