"""The tools that read the store: best, show, explain and status."""

from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from kernelwright.campaign.history.resuming import current, find_campaign, searches
from kernelwright.campaign.history.run_state import state_of
from kernelwright.campaign.report.champion_list import champions_by_gain
from kernelwright.metal.device.base import DeviceName
from kernelwright.service.mcp.argument import READS, CandidateId, Session
from kernelwright.service.mcp.pages import explanation, kernel_page, listed_champion
from kernelwright.service.mcp.records import Champions, Explanation, KernelPage, Runs
from kernelwright.service.mcp.work import ask
from kernelwright.store import KernelStore

_MOST_RUNS = 20


def add_store_tools(server: MCPServer[None], session: Session) -> None:
    """Add the tools that read the store."""

    def opened() -> KernelStore:
        return KernelStore(session.store, must_exist=True)

    @server.tool(title="List the best kernels", annotations=READS)
    async def best(
        op: Annotated[str | None, Field(description="An op, or a word of a name.")] = None,
        dtype: Annotated[str | None, Field(description="Such as f16 or bfloat16.")] = None,
        device: DeviceName | None = None,
        limit: Annotated[int, Field(ge=1, le=500)] = 20,
    ) -> Champions:
        """List the store's champions, those that gain most over MLX first."""

        def question() -> Champions:
            with opened() as store:
                found = champions_by_gain(store, op=op, dtype=dtype, device=device, limit=limit)
            return Champions(champions=tuple(map(listed_champion, found)))

        return await ask(question)

    @server.tool(title="Show a kernel", annotations=READS)
    async def show(candidate: CandidateId) -> KernelPage:
        """Show a candidate's Metal source, launch, ancestors and verdict."""

        def question() -> KernelPage:
            with opened() as store:
                return kernel_page(store.show(candidate))

        return await ask(question)

    @server.tool(title="Explain a verdict", annotations=READS)
    async def explain(candidate: CandidateId) -> Explanation:
        """Say what is wrong with a candidate, where and how, or what bounds a correct one."""

        def question() -> Explanation:
            with opened() as store:
                return explanation(store.show(candidate))

        return await ask(question)

    @server.tool(title="Show what runs", annotations=READS)
    async def status(
        campaign: Annotated[str | None, Field(description="One run, by id or name.")] = None,
    ) -> Runs:
        """List searches and campaigns: what runs, what each tried and spent."""

        def question() -> Runs:
            with opened() as store:
                runs = searches(store)
                chosen = [find_campaign(runs, campaign)] if campaign else current(runs)[:_MOST_RUNS]
                return Runs(runs=tuple(state_of(store, run) for run in chosen))

        return await ask(question)
