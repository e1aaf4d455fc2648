"""The page in headless Chromium, over a store that a real search filled."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qsl, urlsplit

import pytest

playwright = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
from axe_playwright_python.sync_playwright import Axe  # noqa: E402
from playwright.sync_api import (  # noqa: E402
    Browser,
    ConsoleMessage,
    Page,
    Route,
    expect,
    sync_playwright,
)

from kernelwright.runtime.export import KernelFormatName  # noqa: E402
from kernelwright.service.web.night_export import exported_page  # noqa: E402
from kernelwright.store import KernelStore  # noqa: E402
from tests.service.web import hostile  # noqa: E402
from tests.service.web.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, served  # noqa: E402
from tests.service.web.conftest import Filled  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Debian's chromium (apt install chromium)"),
]
WIDTHS = {"narrow": (320, 640), "phone": (390, 844), "desk": (1280, 900)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def address(filled: Filled) -> Iterator[str]:
    with served(filled.url) as address:
        yield address


class Window:
    """A page that goes from place to place; what the browser complains of is kept."""

    def __init__(self, browser: Browser, address: str, *, width: str, scheme: str) -> None:
        size = WIDTHS[width]
        self.address = address
        self.complaints: list[str] = []
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(address)

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.complaints.append(said.text)

    def to(self, place: str, whole: str) -> Page:
        """Go to a place and wait until it shows what makes it whole."""
        self.page.evaluate("to => { location.hash = to; }", f"#/{place}")
        expect(self.page.locator(whole).first).to_be_visible(timeout=PATIENCE_MS)
        expect(self.page.locator("main[aria-busy]")).to_have_count(0, timeout=PATIENCE_MS)
        return self.page


SCREENS = ("desk-light", "phone-dark")


@pytest.fixture(scope="module", params=SCREENS)
def window(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Window]:
    width, _, scheme = request.param.partition("-")
    opened = Window(browser, address, width=width, scheme=scheme)
    yield opened
    opened.page.context.close()


@pytest.fixture
def desk(browser: Browser, address: str) -> Iterator[Window]:
    opened = Window(browser, address, width="desk", scheme="light")
    yield opened
    assert opened.complaints == []
    opened.page.context.close()


def places(filled: Filled) -> dict[str, tuple[str, str]]:
    """Return each view's address and what it shows once it is whole."""
    campaign, task = f"campaign/{filled.campaign_id[:16]}", f"task/{filled.task_id[:16]}"
    child = f"{task}/{filled.child_id[:16]}"
    same = filled.campaign_id[:16]
    return {
        "campaigns": ("", ".card h2 a"),
        "campaign": (campaign, "table.rows tbody a"),
        "candidates": (f"{campaign}/candidates", "table.rows tbody a"),
        "activity": (f"{campaign}/activity", ".feed li"),
        "spend": (f"{campaign}/spend", "svg .curve"),
        "plan": (f"{campaign}/plan", ".picture img"),
        "tasks": ("tasks", "table.rows tbody a"),
        "task": (task, ".detail .code"),
        "diff": (f"{child}/diff", ".diff .added, .diff .removed"),
        "verdict": (f"{child}/verdict", ".stages li"),
        "roofline": (f"{child}/roofline", "svg .dot"),
        "conversation": (f"{task}/conversations", ".chat .turn"),
        "graph": (f"{task}/graph", "pre.graph"),
        "compare": (f"compare/{same}/{same}", "tbody a"),
        "search": ("search/double", ".hits a"),
    }


VIEWS = tuple(places(Filled("", "", "", "", "")))


def _screens() -> Iterator[object]:
    """Yield each view on one screen, and on the other with --slow."""
    for place, view in enumerate(VIEWS):
        usual = SCREENS[place % len(SCREENS)]
        for screen in SCREENS:
            marks = () if screen == usual else pytest.mark.slow
            yield pytest.param(screen, view, marks=marks)


@pytest.mark.parametrize(("window", "view"), list(_screens()), indirect=["window"])
def test_each_view_is_whole_fits_and_passes_axe(window: Window, filled: Filled, view: str) -> None:
    page = window.to(*places(filled)[view])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert window.complaints == []


def test_what_happened_is_told_in_sentences(desk: Window, filled: Filled) -> None:
    page = desk.to(*places(filled)["activity"])
    told = page.locator(".feed li").all_inner_texts()
    assert any("proposed" in line for line in told)
    assert [line for line in told if '{"' in line] == []


@pytest.mark.parametrize("kind", ["p", "span.under", "li", "summary"])
def test_a_name_without_spaces_breaks_on_the_narrowest_phone(
    browser: Browser, address: str, kind: str
) -> None:
    page = Window(browser, address, width="narrow", scheme="light").page
    expect(page.locator("main[aria-busy]")).to_have_count(0, timeout=PATIENCE_MS)
    tag, _, name = kind.partition(".")
    page.evaluate(
        """([tag, name]) => {
            const long = document.createElement(tag);
            long.className = name;
            long.textContent = "f32[8,200]+".repeat(20).replaceAll(",", "");
            document.querySelector("main > *").append(long);
        }""",
        [tag, name],
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()


def test_the_task_table_sorts_by_its_heads_and_is_walked_by_arrow_keys(
    desk: Window, filled: Filled
) -> None:
    page = desk.to(f"campaign/{filled.campaign_id[:16]}/candidates", "table.rows tbody a")
    head = page.get_by_role("columnheader", name="idea")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending", timeout=PATIENCE_MS)
    ideas = page.locator("table.rows tbody a")
    shown = [text.split("\n")[0] for text in ideas.all_inner_texts()]
    expect(ideas.first).to_contain_text(min(shown), timeout=PATIENCE_MS)
    page.get_by_role("region", name="Candidates, scrollable").focus()
    page.keyboard.press("ArrowDown")
    expect(ideas.nth(0)).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("ArrowDown")
    expect(ideas.nth(1)).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("End")
    expect(ideas.last).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("Enter")
    expect(page.locator(".detail .code").first).to_be_visible(timeout=PATIENCE_MS)


def test_every_row_of_a_long_table_is_reached(desk: Window, filled: Filled) -> None:
    def many(route: Route) -> None:
        asked = dict(parse_qsl(urlsplit(route.request.url).query))
        row = route.fetch(url=route.request.url.split("?")[0] + "?limit=1").json()["items"][0]
        offset = int(asked["offset"])
        numbers = range(offset, min(offset + int(asked["limit"]), 100_000))
        items = [row | {"idea": f"idea {asked['order']} {number}"} for number in numbers]
        route.fulfill(json={"items": items, "total": 100_000})

    desk.page.route("**/api/v1/candidates?*", many)
    page = desk.to(*places(filled)["candidates"])
    scroller = page.get_by_role("region", name="Candidates, scrollable")
    scroller.focus()
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="idea at 99999")).to_be_focused(timeout=PATIENCE_MS)
    scroller.evaluate("element => { element.scrollTop = element.scrollHeight / 2; }")
    expect(page.get_by_role("link", name="idea at 50000")).to_be_visible(timeout=PATIENCE_MS)
    scroller.evaluate("element => { element.scrollTop = 0; }")
    expect(page.locator("tr[data-index='0'] a")).to_be_in_viewport(timeout=PATIENCE_MS)


def test_the_lineage_is_walked_by_arrow_keys(desk: Window, filled: Filled) -> None:
    page = desk.to(f"task/{filled.task_id[:16]}/{filled.child_id[:16]}", ".detail .code")
    item = page.locator(f'[role=treeitem][data-id="{filled.child_id}"]')
    expect(item).to_have_attribute("aria-selected", "true", timeout=PATIENCE_MS)
    item.focus()
    page.keyboard.press("ArrowLeft")
    parent = page.locator("[role=treeitem][aria-selected=true]")
    expect(parent).to_have_attribute("aria-expanded", "true", timeout=PATIENCE_MS)
    parent_id = parent.get_attribute("data-id")
    assert parent_id != filled.child_id
    expect(parent).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("ArrowLeft")
    expect(parent).to_have_attribute("aria-expanded", "false", timeout=PATIENCE_MS)
    expect(item).to_be_hidden(timeout=PATIENCE_MS)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    # Which generation the child is of is the search's choice.
    first = page.locator(f'[data-id="{parent_id}"] > ul > [role=treeitem]').first
    expect(first).to_be_focused(timeout=PATIENCE_MS)
    chosen = first.get_attribute("data-id")
    assert chosen is not None
    expect(page.locator(".detail header")).to_contain_text(chosen[:8], timeout=PATIENCE_MS)


def test_the_search_field_is_reached_by_a_key_and_finds(desk: Window, filled: Filled) -> None:
    page = desk.to("", ".card h2 a")
    page.keyboard.press("/")
    page.keyboard.type("double")
    page.keyboard.press("Enter")
    expect(page.locator(".hits a").first).to_be_visible(timeout=PATIENCE_MS)
    assert page.title().startswith("Search: double")


def test_an_export_is_saved_from_the_page(desk: Window, filled: Filled) -> None:
    page = desk.to(f"task/{filled.task_id[:16]}/{filled.champion_id[:16]}", ".detail .code")
    page.on("dialog", lambda asked: asked.accept())
    offered = page.get_by_label("Export as").locator("option").all_inner_texts()
    assert tuple(offered) == get_args(KernelFormatName)
    with page.expect_download(timeout=PATIENCE_MS) as saved:
        page.get_by_role("button", name="Export").click()
    assert saved.value.suggested_filename.endswith(".zip")


def test_an_exported_file_opens_without_a_server(
    browser: Browser, filled: Filled, tmp_path: Path
) -> None:
    with KernelStore(filled.url, must_exist=True) as store:
        page = exported_page(store, filled.campaign_id)
    path = tmp_path / "night.html"
    path.write_text(page, encoding="utf-8")
    window = Window(browser, path.as_uri(), width="desk", scheme="light")
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    for view, (place, whole) in places(filled).items():
        if view not in ("campaigns", "compare", "search"):
            window.to(place, whole)
    assert window.complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    found = Axe().run(window.page)
    assert found.violations_count == 0, found.generate_report()
    window.page.context.close()


def test_nothing_that_was_stored_becomes_markup(
    browser: Browser, filled: Filled, tmp_path: Path
) -> None:
    url = str(tmp_path / "kernels.db")
    with KernelStore(url) as store, KernelStore(filled.url, must_exist=True) as known:
        campaign_id = hostile.fill(store, known, filled.child_id)
        trials = store.history()
        exported = exported_page(store, campaign_id)
    (tmp_path / "night.html").write_text(exported, encoding="utf-8")
    child = next(e.candidate_id for e in trials if e.candidate_id != filled.child_id)
    attacked = Filled(url, campaign_id, filled.task_id, filled.child_id, child)
    with served(url) as address:
        for start in (address, (tmp_path / "night.html").as_uri()):
            window = Window(browser, start, width="desk", scheme="light")
            for view, (place, whole) in places(attacked).items():
                is_live = view in ("campaigns", "compare", "search")
                if view in ("plan", "spend") or (is_live and start != address):
                    continue
                page = window.to(place.replace("search/double", "search/script"), whole)
                expect(page.locator("main")).to_contain_text(
                    "<script>window.pwned=1</script>", timeout=PATIENCE_MS
                )
                turning = re.findall("[\u202a-\u202e]", page.locator("body").inner_text())
                assert turning == [], view
            assert window.complaints == []
            assert window.page.evaluate("window.pwned") is None
            assert window.page.locator("main script, main img, main iframe").count() == 0
            window.page.context.close()


def test_a_cap_stands_beside_what_it_counts(desk: Window, filled: Filled) -> None:
    state: dict[str, int] = {}

    def capped(route: Route) -> None:
        found = route.fetch().json()
        found["limits"]["evaluations"] = 5000
        state.update(found["state"])
        route.fulfill(json=found)

    desk.page.route("**/api/v1/campaigns/*", capped)
    desk.to(*places(filled)["campaign"])
    tiles = desk.page.locator(".tile").all_inner_texts()
    assert [t for t in tiles if "of 5,000" in t] == [f"judged\n{state['evaluated']:,}\nof 5,000"]


def test_what_models_cost_is_what_is_known_and_what_it_is_at_most(
    desk: Window, filled: Filled
) -> None:
    def lost(route: Route) -> None:
        found = route.fetch().json()
        for talk in found:
            talk["known"] |= {"dollars": 0.25, "tokens": 1000}
            talk["cost"] |= {"dollars": 0.75, "tokens": 17_000}
        route.fulfill(json=found)

    desk.page.route("**/api/v1/tasks/*/conversations", lost)
    page = desk.to(*places(filled)["conversation"])
    expect(page.locator(".talk .quiet").first).to_contain_text(
        "1,000, at most 16,000 more tokens · $0.2500, at most $0.5000 more"
    )
