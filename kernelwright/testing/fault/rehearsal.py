"""A campaign under a plan of faults: its store, its judges and its clients of models."""

from pathlib import Path

from kernelwright.agents.providers.client import ProviderClient
from kernelwright.campaign.execution.judge import MakeJudge, judges_on
from kernelwright.errors import UsageError
from kernelwright.search.spec import SearchSpec
from kernelwright.service.collaborator import Collaborators
from kernelwright.store import KernelStore
from kernelwright.testing.fault.faulty_store import FaultyStore
from kernelwright.testing.fault.judge import sabotaged
from kernelwright.testing.fault.plan import read_plan
from kernelwright.testing.fault.sabotage import Sabotage
from kernelwright.testing.fault.wire import SabotagedClient


class Rehearsal(Collaborators):
    """Puts a plan's faults between a campaign and the world."""

    def __init__(self, plan: Path) -> None:
        """Read the plan; what was injected is remembered beside it.

        Raises:
            InputError: the plan's file is not there or not right.
        """
        self._sabotage = Sabotage(read_plan(plan).all, Path(f"{plan}.injected"))
        self._sabotage.count_seconds()

    def open_store(self, url: str | None) -> KernelStore:
        """Open a store whose writes fail as planned."""
        return FaultyStore(url, self._sabotage)

    def evaluators(self, spec: SearchSpec, store: KernelStore, *, fleet: bool) -> MakeJudge:
        """Return what makes judges that fail as planned."""
        if fleet:
            raise UsageError("expected a campaign on this machine to rehearse, found --fleet.")
        make = judges_on(spec.device, store, threadgroup_bytes=spec.threadgroup_bytes)
        return sabotaged(make, self._sabotage)

    def rewire(self, client: ProviderClient) -> ProviderClient:
        """Return a client whose replies fail as planned."""
        return SabotagedClient(client, self._sabotage)
