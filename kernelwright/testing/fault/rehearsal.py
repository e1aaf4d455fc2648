"""A night with or without a plan of faults: its store, its judges and its wires."""

from collections.abc import Callable
from pathlib import Path

from kernelwright.agents.providers.client import ProviderClient
from kernelwright.campaign.execution.judge import MakeJudge
from kernelwright.store import KernelStore
from kernelwright.testing.fault.faulty_store import FaultyStore
from kernelwright.testing.fault.judge import Employer, sabotaged
from kernelwright.testing.fault.plan import read_plan
from kernelwright.testing.fault.sabotage import Sabotage
from kernelwright.testing.fault.wire import SabotagedClient


class Rehearsal:
    """Puts a plan's faults between a night and the world; without a plan nothing."""

    def __init__(self, plan: Path | None) -> None:
        """Read the plan; what was injected is remembered beside it.

        Raises:
            InputError: the plan's file is not there or not right.
        """
        self._sabotage: Sabotage | None = None
        if plan is not None:
            self._sabotage = Sabotage(read_plan(plan).all, Path(f"{plan}.injected"))
            self._sabotage.count_seconds()

    def opened(self, url: str | None) -> KernelStore:
        """Open the store."""
        return KernelStore(url) if self._sabotage is None else FaultyStore(url, self._sabotage)

    def judges(self, make: Callable[[], Employer]) -> MakeJudge:
        """Return what makes judges."""
        return make if self._sabotage is None else sabotaged(make, self._sabotage)

    def rewire(self, wire: ProviderClient) -> ProviderClient:
        """Return the wire to a model."""
        return wire if self._sabotage is None else SabotagedClient(wire, self._sabotage)
