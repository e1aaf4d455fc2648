"""What models and servers wrote is read in a report, letter for letter, and does nothing there."""

import jinja2
import pytest

from kernelwright.campaign.report import campaign_page
from kernelwright.campaign.report.foreign_text import as_code, in_markdown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("[x](javascript:alert(1))", r"\[x\](javascript:alert(1))"),
        ("[1, 2](javascript:alert(1))", r"\[1, 2\](javascript:alert(1))"),
        ("1.65× [1.60, 1.70]", "1.65× [1.60, 1.70]"),
        ("&#106;avascript & more", "&amp;#106;avascript & more"),
        ("\x1b[31m\x00\u202e", r"\\x1b\[31m\\x00\\u202e"),
        ("a\n# heading", "a # heading"),
        ("# heading", r"\# heading"),
        ("- item", r"\- item"),
        ("12. item", r"12\. item"),
        ("-3 dB, ~5.36 µs of masked_softmax", "-3 dB, ~5.36 µs of masked_softmax"),
        ("**bold** _it_ ~~no~~ `code` a|b", r"\*\*bold\*\* \_it\_ \~\~no\~\~ \`code\` a\|b"),
    ],
)
def test_markdown_shows_what_was_written(written: str, shown: str) -> None:
    assert in_markdown(written) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [("f32[4,32]", "`f32[4,32]`"), ("a`b", "`` a`b ``"), ("\u202ea|b", r"`\u202ea\|b`")],
)
def test_a_span_of_code_ends_where_its_text_does(written: str, shown: str) -> None:
    assert as_code(written) == shown


@pytest.mark.parametrize("pages", [campaign_page._HTML, campaign_page._MARKDOWN])
def test_all_that_a_page_is_told_is_made_harmless(pages: jinja2.Environment) -> None:
    page = pages.from_string("{{ told }} {{ told | code }}").render(told="\x1b[31m<b>\ud800")
    assert "\x1b" not in page
    assert "\ud800" not in page
    assert "[31m<b>" not in page.partition(" ")[0]
