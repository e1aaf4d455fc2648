"""A run ends within the time it was allowed, whatever it waits for."""

import pytest

from kernelwright.campaign.event import CampaignHeldUp, Event
from kernelwright.campaign.execution.run_control import RunControl
from kernelwright.campaign.history.pausing import Pause
from kernelwright.errors import BlockedError


def test_a_full_disk_holds_a_run_up_no_longer_than_it_may_take() -> None:
    said: list[Event] = []
    control = RunControl(Pause(), said.append)
    control.begin(1.6, 0.0)
    on_blocked = control.waiting_for_room()
    error = BlockedError("the store is on a full disk")
    on_blocked(error)
    with pytest.raises(BlockedError, match="full disk"):
        on_blocked(error)
    waits = [event.seconds for event in said if isinstance(event, CampaignHeldUp)]
    assert waits[0] == 1.0
    assert sum(waits) <= 1.6
