"""No text steers the terminal that it is printed on."""

import io
import json
import re
import unicodedata
from pathlib import Path

import pytest
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kernelwright.printable import _STEERING, printable, printable_json
from kernelwright.service.console import THEME, SafeConsole

ATTACKS = {
    "title": "\x1b]0;pwn\x07",
    "clipboard": "\x1b]52;c;cHdu\x1b\\",
    "colour": "\x1b[31mred",
    "one byte CSI": "\x9b31m",
    "carriage return": "safe\rpwn",
    "backspace": "ab\x08\x08",
    "direction": "a\u202eb\u2066c",
    "line separator": "a\u2028b",
    "half a character": "a\ud800b",
    "nothing": "\x00",
    "zero width": "a\u200bb\u2060c\ufeff",
    "a filler": "a\u3164b",
    "a tag": "a\U000e0041b",
}


def console_into(file: io.StringIO) -> SafeConsole:
    return SafeConsole(
        theme=THEME, file=file, force_terminal=True, color_system=None, width=60, emoji=False
    )


def is_steering(text: str) -> bool:
    return any((not c.isprintable() and c not in "\n\t") or c == "\u3164" for c in text)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_console_spells_what_would_steer_it(name: str) -> None:
    file, attack = io.StringIO(), ATTACKS[name]
    console = console_into(file)
    table = Table(attack.replace("\r", " "), title=Text(attack))
    table.add_row(Panel(Text(attack)))
    console.print(attack, markup=False)
    console.print(attack, markup=False, soft_wrap=True)
    console.print(Text(attack), style="bad")
    console.print(table)
    assert not is_steering(file.getvalue())
    file.getvalue().encode()


def test_a_live_view_still_moves_the_cursor_itself() -> None:
    file = io.StringIO()
    with Live(Text("one\x1b]0;pwn\x07\ntwo"), console=console_into(file), auto_refresh=False):
        pass
    text = file.getvalue()
    assert "\x1b[" in text
    assert "\x1b]" not in text
    assert "one\\x1b]0;pwn" in text


@pytest.mark.parametrize("name", ATTACKS)
def test_json_stays_the_same_value(name: str) -> None:
    written = printable_json(json.dumps({"name": ATTACKS[name]}, ensure_ascii=False))
    assert not is_steering(written)
    assert json.loads(written) == {"name": ATTACKS[name]}


def test_plain_text_is_left_alone() -> None:
    plain = "µs → 1.97×\n\tkernel :m: [bold] 核"
    assert printable(plain) == plain


def test_no_format_character_is_taken_for_text_that_people_read() -> None:
    # The signs of Arabic, Syriac, Kaithi and of hieroglyphs are seen.
    seen = [range(0x600, 0x900), range(0x110BD, 0x110CE), range(0x13430, 0x13440)]
    formats = (chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf")
    hidden = [c for c in formats if not any(ord(c) in shown for shown in seen) or c == "\u061c"]
    assert [c for c in hidden if printable(c) == c] == []


def test_the_page_spells_what_the_terminal_spells() -> None:
    page = Path("kernelwright/service/web/assets/dom.js").read_text(encoding="utf-8")
    listed = re.search(r"const STEERING = /\[(.*)\]/gu;", page)
    assert listed is not None
    braced = re.sub(r"\\u\{(\w+)\}", lambda code: f"\\U{code[1]:0>8}", listed[1])
    on_page = re.compile(f"[{braced}]")
    # A page is made of characters, never of halves.
    codes = (*range(0xD800), *range(0xE000, 0x110000))
    differ = [
        f"{c:x}" for c in codes if bool(on_page.match(chr(c))) != bool(_STEERING.match(chr(c)))
    ]
    assert differ == []
