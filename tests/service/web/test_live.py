"""A night on the simulator runs while the page is open: no event is lost, all can use the page."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", exc_type=ImportError)
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from kernelwright.store import KernelStore
from tests.service.web import night
from tests.service.web.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, served

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Debian's chromium (apt install chromium)"),
]
_WORKPLACE = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def running(tmp_path: Path, gate: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Begin a night that stands before its fourth verdict."""
    url = str(tmp_path / "kernels.db")
    KernelStore(url).close()
    process = subprocess.Popen(
        [sys.executable, "-m", night.__name__, url, str(gate), "4"],
        cwd=_WORKPLACE,
        env={**os.environ, "PYTHONPATH": str(_WORKPLACE)},
    )
    yield url, process
    process.kill()
    process.wait(timeout=60)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def events_of(url: str) -> list[int]:
    with KernelStore(url, must_exist=True) as store:
        return [event.id for run in store.campaigns() for event in store.events(run.id)]


def shown(page: Page) -> list[int]:
    ids = page.locator("[data-event]").evaluate_all("all => all.map(e => e.dataset.event)")
    return sorted(map(int, ids))


@contextmanager
def watching(browser: Browser, address: str) -> Iterator[Page]:
    """Open the newest campaign's activity as soon as it has begun."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    link = page.locator(".card h2 a").first
    link.wait_for()
    page.goto(f"{address}{link.get_attribute('href')}/activity")
    expect(page.locator(".link.up")).to_be_visible(timeout=PATIENCE_MS)
    yield page
    context.close()


def told(page: Page, number: int) -> None:
    expect(page.locator(f"[data-events='{number}']")).to_be_visible(timeout=PATIENCE_MS)


def what_axe_finds(page: Page) -> dict[str, str]:
    """Go through the views of the campaign, and of its first task; return axe's complaints."""
    home = page.evaluate("location.hash").removesuffix("/activity")
    go_to(page, home, "table.rows tbody a")
    task = page.locator("table.rows tbody a").first.get_attribute("href")
    views = {
        home: "table.rows tbody a",
        f"{home}/candidates": "table.rows tbody a",
        f"{home}/plan": ".picture img",
        f"{task}": ".detail .code",
        f"{home}/activity": ".feed li",
    }
    said = {}
    for place, whole in views.items():
        go_to(page, place, whole)
        found = Axe().run(page)
        if found.violations_count:
            said[place] = found.generate_report()
    return said


def go_to(page: Page, place: str, whole: str) -> None:
    page.evaluate("to => { location.hash = to; }", place)
    expect(page.locator(whole).first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("main[aria-busy]")).to_have_count(0, timeout=PATIENCE_MS)


def test_two_browsers_lose_no_event_of_a_night_and_axe_finds_nothing_though_the_server_dies(
    browser: Browser, running: tuple[str, subprocess.Popen[bytes]], gate: Path
) -> None:
    url, process = running
    port = free_port()
    with served(url, port=port) as address:
        with_first = watching(browser, address)
        with_second = watching(browser, address)
        first, second = with_first.__enter__(), with_second.__enter__()
        expect(first.get_by_role("heading", name="Under way")).to_be_visible()
        expect(first.locator("h1 + .badge")).to_have_text("running")
        assert what_axe_finds(first) == {}
        # This one is asked for the plan before any function is planned.
        second.route("**/plans", lambda route: route.fulfill(json=[]), times=1)
        second.get_by_role("link", name="Plan").click()
        expect(second.get_by_text("No function was planned yet.")).to_be_visible()
    # The server is gone; what happens now is told once it is back.
    gate.touch()
    assert process.wait(timeout=PATIENCE_MS / 1000) == 0
    events = events_of(url)
    with served(url, port=port):
        expect(second.locator(".plan h2")).to_have_count(2, timeout=PATIENCE_MS)
        second.get_by_role("link", name="Activity").click()
        for page in (first, second):
            under_way = page.get_by_role("heading", name="Under way")
            expect(under_way).to_have_count(0, timeout=PATIENCE_MS)
            told(page, len(events))
            assert shown(page) == sorted(events)
            assert [
                line for line in page.locator(".feed li").all_inner_texts() if '{"' in line
            ] == []
            expect(page.locator("h1 + .badge")).to_have_text("finished", timeout=PATIENCE_MS)
    with_first.__exit__(None, None, None)
    with_second.__exit__(None, None, None)


@pytest.mark.slow
def test_a_night_is_paused_resumed_and_stopped_from_the_page(
    browser: Browser,
    running: tuple[str, subprocess.Popen[bytes]],
    gate: Path,
    wait_until: Callable[[Callable[[], bool]], None],
) -> None:
    url, process = running
    with served(url) as address, watching(browser, address) as page:
        page.on("dialog", lambda asked: asked.accept())
        badge = page.locator("h1 + .badge")
        page.get_by_role("button", name="Pause").click()
        expect(badge).to_have_text("paused", timeout=PATIENCE_MS)
        page.get_by_role("button", name="Resume").click()
        expect(badge).to_have_text("running", timeout=PATIENCE_MS)
        page.get_by_role("button", name="Stop").click()
        wait_until(lambda: "StopAsked" in kinds(url))
        gate.touch()
        assert process.wait(timeout=PATIENCE_MS / 1000) == 0
        expect(badge).to_have_text("interrupted", timeout=PATIENCE_MS)
        assert kinds(url).count("PauseAsked") == kinds(url).count("GoOnAsked") == 1
        told(page, len(events_of(url)))


def kinds(url: str) -> list[str]:
    with KernelStore(url, must_exist=True) as store:
        return [event.kind for run in store.campaigns() for event in store.events(run.id)]


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    import time

    def wait(holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_MS / 1000
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.05)

    return wait
