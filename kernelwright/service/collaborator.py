"""What a campaign works with: its store, its evaluators and its clients of models."""

from typing import TYPE_CHECKING

from kernelwright.campaign.fleet.evaluators import evaluators_for
from kernelwright.store import KernelStore

if TYPE_CHECKING:
    from kernelwright.agents.providers.client import ProviderClient
    from kernelwright.campaign.execution.executor import ExecutorFactory
    from kernelwright.campaign.execution.judge import MakeJudge
    from kernelwright.search.spec import SearchSpec


class Collaborators:
    """Those of every campaign; a rehearsal of faults puts its own in their place.

    The command line finds them as the object of its context, `app(obj=...)`.
    """

    def open_store(self, url: str | None) -> KernelStore:
        """Open the store at a URL, or the one of the settings."""
        return KernelStore(url)

    def evaluators(
        self, spec: "SearchSpec", store: KernelStore, *, fleet: bool
    ) -> "MakeJudge | ExecutorFactory":
        """Return what evaluates for a search, on this machine or on a fleet.

        Raises:
            UsageError: these collaborators evaluate on this machine alone.
        """
        return evaluators_for(spec, store, fleet=fleet)

    def rewire(self, client: "ProviderClient") -> "ProviderClient":
        """Return what is sent to a model in a client's place."""
        return client
