"""Workers that are opened before they are asked for."""

from collections.abc import Iterator
from threading import Event

import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.worker import start
from kernelwright.evaluator.worker.process import Limits, Worker
from kernelwright.evaluator.worker.service import Open
from kernelwright.evaluator.worker.spare import Opened, close_spares, open_spare, take_spare
from kernelwright.metal.device.base import DeviceInfo

INFO = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)
MEMORY = 1 << 31


def new_worker() -> Opened:
    return Worker("kernelwright.evaluator.worker.service", Limits(MEMORY)), INFO


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    close_spares()


def test_whoever_asks_while_it_opens_waits_for_it_and_the_next_one_has_none() -> None:
    asked = Event()

    def open_late() -> Opened:
        assert asked.wait(20)
        return new_worker()

    open_spare("one", open_late)
    assert take_spare("another") is None
    asked.set()
    taken = take_spare("one")
    assert taken is not None
    assert taken[0].is_alive
    assert take_spare("one") is None
    taken[0].close()


def test_one_that_did_not_open_or_has_died_is_none() -> None:
    def fail() -> Opened:
        raise DeviceError("no such device.")

    dead = new_worker()
    dead[0].close()
    open_spare("one", fail)
    open_spare("one", lambda: dead)
    assert take_spare("one") is None


def test_those_that_nobody_took_are_closed() -> None:
    worker, info = new_worker()
    opened = Event()

    def hand_over() -> Opened:
        opened.set()
        return worker, info

    open_spare("one", hand_over)
    assert opened.wait(20)
    taken = take_spare("one")
    assert taken is not None
    open_spare("one", lambda: taken)
    close_spares()
    worker._process.wait(20)
    assert take_spare("one") is None


def test_a_gpu_is_opened_ahead_with_the_simulator_that_sanitizes_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    made: dict[str, Opened] = {}

    def note_headers(memory_bytes: int, modes: object) -> None:
        order.append("headers")

    def note_worker(request: Open, limits: Limits) -> Opened:
        order.append(request.name)
        made[request.name] = new_worker()
        return made[request.name]

    monkeypatch.setattr(start, "ready_cache", note_headers)
    monkeypatch.setattr(start, "_open_new", note_worker)
    start.open_ahead("cuda", MEMORY)
    simulator, gpu = (start.open_worker(name, MEMORY) for name in ("simulator", "cuda"))
    assert (simulator, gpu) == (made["simulator"], made["cuda"])
    assert order.index("headers") < order.index("simulator"), "it sees what was there before"
    assert sorted(order) == ["cuda", "headers", "simulator"]
    for worker, _ in made.values():
        worker.close()
