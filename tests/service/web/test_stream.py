"""A campaign's log as server-sent events, on every database."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.spec import SearchSpec
from kernelwright.service.api.cursor import cursor_of, line_of, read_cursor
from kernelwright.service.api.stream import EventStream
from kernelwright.store import Campaign, Environment, KernelStore

INFO = DeviceInfo(name="simulator", chip="test chip", runtime="test 1", measures_time=False)
ENVIRONMENT = Environment(device=INFO, mlx="0.32.4", system="Linux x86_64")
PATIENCE_S = 120


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "kernels.db")
    found: str = request.getfixturevalue("postgresql_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[KernelStore]:
    with KernelStore(url) as opened:
        yield opened


def begun(store: KernelStore, root: Campaign | None = None) -> Campaign:
    root_id = root.id if root else None
    spec = SearchSpec().model_dump_json()
    return store.begin_campaign(name="night", spec=spec, environment=ENVIRONMENT, root_id=root_id)


def read(store: KernelStore, campaign: Campaign, cursor: str, wanted: int) -> list[dict[str, str]]:
    """Read as many lines as are wanted, as a browser does."""

    async def reading() -> list[dict[str, str]]:
        found = []
        stream = EventStream(
            store, campaign.id, read_cursor(cursor), redact=lambda text: text, look_s=0.01
        )
        async for frame in stream:
            fields = dict(line.split(": ", 1) for line in frame.strip().splitlines())
            if fields.get("event") == "line":
                found.append(fields)
            if len(found) == wanted:
                return found
        return found

    return asyncio.run(asyncio.wait_for(reading(), PATIENCE_S))


def bodies(lines: list[dict[str, str]]) -> list[str]:
    return [json.loads(line["data"])["event"]["body"] for line in lines]


def test_what_many_writers_log_while_it_is_read_is_told_once_and_in_order(
    store: KernelStore, url: str
) -> None:
    campaign = begun(store)

    def write(writer: int) -> None:
        with KernelStore(url) as own:
            for number in range(25):
                own.log(campaign.id, "Line", f"{writer}.{number}")

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in writers:
        thread.start()
    first = read(store, campaign, "", 30)
    second = read(store, campaign, first[-1]["id"], 70)
    for thread in writers:
        thread.join()
    told = bodies([*first, *second])
    assert sorted(told) == sorted(f"{w}.{n}" for w in range(4) for n in range(25))
    for writer in range(4):
        own = [body for body in told if body.startswith(f"{writer}.")]
        assert own == [f"{writer}.{number}" for number in range(25)]


def test_a_run_that_goes_on_with_the_campaign_is_read_from_its_first_line(
    store: KernelStore,
) -> None:
    first = begun(store)
    store.log(first.id, "Line", "one")
    cursor = read(store, first, "", 1)[-1]["id"]
    store.end_campaign(first.id, "interrupted")
    second = begun(store, first)
    store.log(second.id, "Line", "two")
    store.log(second.id, "Line", "three")
    assert bodies(read(store, first, cursor, 2)) == ["two", "three"]


def test_line_breaks_of_an_event_do_not_break_its_frame(store: KernelStore) -> None:
    campaign = begun(store)
    words = "a\nb\r\nc\u2028d\n\ndata: e"
    store.log(campaign.id, "Line", words)
    assert bodies(read(store, campaign, "", 1)) == [words]


def test_a_cursor_tells_the_last_line_of_each_run() -> None:
    one, two, three = "0" * 64, "1" * 64, "2" * 64
    cursor = read_cursor(cursor_of({two: 7, one: 12, three: 0}))
    assert [line_of(cursor, run) for run in (one, two, three)] == [12, 7, 0]


@pytest.mark.parametrize("text", ["17", "zz.1", "0123456789abcdef.-1", "0123456789abcdef.1;x"])
def test_what_is_no_cursor_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="expected a cursor"):
        read_cursor(text)


def test_a_store_that_is_replaced_is_said_and_ends_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    with KernelStore(str(path)) as store:
        run = begun(store)
        stream = EventStream(store, run.id, {}, redact=lambda text: text, look_s=0.01)

        async def reading() -> list[str]:
            frames = []
            async for frame in stream:
                frames.append(frame)
                if "event: state" in frame:
                    path.rename(tmp_path / "moved.db")
                    path.write_text("garbage")
            return frames

        frames = asyncio.run(asyncio.wait_for(reading(), PATIENCE_S))
    assert frames[-1].startswith("event: problem")
    assert "was replaced by another file while it was open" in frames[-1]
