"""Ctrl-C in a run: the first asks it to stop; a run that the store holds up is interrupted."""

import os
import signal

import pytest

from kernelwright.errors import BlockedError, StoreError
from kernelwright.service import cli
from kernelwright.service.interruption import ending_in_order


def _run(stopped: list[bool], *, interrupts: int, error: Exception | None = None) -> None:
    with ending_in_order(lambda: stopped.append(True)):
        for _ in range(interrupts):
            os.kill(os.getpid(), signal.SIGINT)
        if error is not None:
            raise error


def test_the_first_ctrl_c_stops_and_the_second_raises() -> None:
    stopped: list[bool] = []
    _run(stopped, interrupts=1)
    assert stopped == [True]
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        _run(stopped, interrupts=2)


@pytest.mark.parametrize(
    ("interrupts", "error", "found"),
    [
        (1, BlockedError("s.db is on a full disk."), KeyboardInterrupt),
        (0, BlockedError("s.db is on a full disk."), BlockedError),
        (1, StoreError("s.db is on no disk."), StoreError),
    ],
)
def test_a_run_that_waited_for_room_when_it_was_stopped_is_interrupted(
    interrupts: int, error: StoreError, found: type[BaseException]
) -> None:
    with pytest.raises(found, match=r"s\.db is on"):
        _run([], interrupts=interrupts, error=error)


def test_what_was_interrupted_says_what_it_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait(obj: object) -> None:
        raise KeyboardInterrupt("interrupted: the store s.db is on a full disk.")

    monkeypatch.setattr("kernelwright.service.commands.app", wait)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted: the store s.db is on a full disk.\n"
