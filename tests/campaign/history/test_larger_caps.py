"""The cap that ended a campaign is the one that is offered to be raised."""

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.campaign.history.larger_caps import larger_cap
from kernelwright.campaign.spec.campaign_spec import CampaignSpec

_SPEC = CampaignSpec(
    functions=(), folder="", evaluations=5, seconds=7200, caps=Caps(dollars=0.9, calls=4)
)


@pytest.mark.parametrize(
    ("reached", "option"),
    [
        ("the cap of 5 evaluations is reached", "--evaluations 10"),
        ("the cap of 2 h is reached", "--hours 4"),
        (
            "the cap of $0.90 is reached: $0.18 spent so far, and the next call could take $0.75",
            "--dollars 1.8",
        ),
        ("the cap of 4 calls is reached", "--calls 8"),
        ("", "--evaluations 10"),
    ],
)
def test_the_cap_that_was_reached_is_doubled(reached: str, option: str) -> None:
    assert larger_cap(_SPEC, reached) == option


def test_an_offered_time_is_one_that_can_be_of_use() -> None:
    spec = _SPEC.model_copy(update={"evaluations": None, "seconds": 1e-6})
    assert larger_cap(spec, "the cap of 1e-06 s is reached") == "--hours 0.01"
