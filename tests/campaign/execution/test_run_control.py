"""A run ends within the time it was allowed, whatever it waits for."""

import pytest

from kernelwright.campaign.event import CampaignHeldUp, Event
from kernelwright.campaign.execution.run_control import RunControl
from kernelwright.campaign.history.pausing import Pause
from kernelwright.errors import BlockedError
from kernelwright.store.retry import (
    Outage,
    RetryingWriter,
    give_up,
    growing_pause_s,
    retry_when_blocked,
)


def test_a_full_disk_holds_a_run_up_no_longer_than_it_may_take() -> None:
    said: list[Event] = []
    control = RunControl(Pause(), said.append)
    control.begin(1.6, 0.0)
    error, outage = BlockedError("the store is on a full disk"), Outage()
    control.wait_for_room(outage.met(error))
    with pytest.raises(BlockedError, match="full disk"):
        control.wait_for_room(outage.met(error))
    waits = [event.seconds for event in said if isinstance(event, CampaignHeldUp)]
    assert waits[0] == 1.0
    assert sum(waits) <= 1.6


class _Disk(RetryingWriter):
    """Takes a write after some tries that fail."""

    def __init__(self, failures: list[int]) -> None:
        self.on_blocked = give_up
        self.failures = failures

    @retry_when_blocked
    def write(self) -> None:
        if self.failures[0]:
            self.failures[0] -= 1
            raise BlockedError("the store is on a full disk")
        self.failures.pop(0)


def test_the_pauses_of_a_second_outage_begin_as_short_as_the_first() -> None:
    disk, pauses = _Disk([3, 2]), list[float]()
    with disk.waiting_when_blocked(lambda e: pauses.append(growing_pause_s(e.tries, 1.0, 60.0))):
        disk.write()
        disk.write()
    assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0]


def test_a_pause_of_weeks_is_still_a_number() -> None:
    assert growing_pause_s(5000, 5.0, 300.0) == 300.0
