"""What a run of the yardstick is asked to do."""

from pydantic import Field

from kernelwright.agents.budget import UNLIMITED, Caps
from kernelwright.agents.providers.price import Price
from kernelwright.campaign.agent_bench.variant import Variant
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.search.spec import TeamSpec


class BenchSpec(Record):
    """What a run of the yardstick is asked to do."""

    models: tuple[str, ...] = ()
    base_url: str | None = None
    variants: tuple[Variant, ...] = (Variant.OFFLINE, Variant.FULL)
    device: DeviceName = "simulator"
    candidates: int = 6
    """For each task, of whoever proposes."""
    caps: Caps = UNLIMITED
    """What the models may take in all."""
    task_caps: Caps = UNLIMITED
    prices: dict[str, Price] = Field(default_factory=dict)
    team: TeamSpec = TeamSpec()
