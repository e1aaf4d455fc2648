"""A planner that asks a language model where to cut, and checks what it says."""

from dataclasses import dataclass

from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.protocols import Plan, PlannedRegion, Planner
from kernelwright.agents.providers.fault import OutageError, ReplyError
from kernelwright.agents.roles.reply.reply_schema import Cut, RegionDraft
from kernelwright.agents.roles.text.graph_text import (
    compiled_table,
    cut_to,
    device_text,
    greedy_table,
    launches_text,
    node_table,
    pattern_table,
    renamed_inputs,
)
from kernelwright.agents.roles.text.prompt import build, fitted, render
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.agents.session.tools.report import chip_of
from kernelwright.errors import BudgetError
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.plan.legality import legality

_MOST_CORRECTIONS = 2


@dataclass(frozen=True)
class Refused:
    """A proposed region that is not legal, and why."""

    nodes: tuple[int, ...]
    reason: str


class ModelPlanner:
    """Asks for regions; illegal ones go back with the reason, and never go on.

    `strategies` takes down how to write each region, by the fingerprint of its task.
    """

    def __init__(
        self, board: AsyncBridge, fallback: Planner, strategies: dict[str, str] | None = None
    ) -> None:
        self._board = board
        self._fallback = fallback
        self._strategies = {} if strategies is None else strategies

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        """Return the legal regions of the model's cut, else the fallback's plan."""
        legal: list[PlannedRegion] = []
        refused: list[Refused] = []
        said: Cut | None = None
        purpose = Purpose(role="planner", task=graph.fingerprint)
        prompt = planner_prompt(graph, device)
        for _ in range(1 + _MOST_CORRECTIONS):
            try:
                answer = self._board.ask(prompt, Cut, purpose)
            except (ReplyError, OutageError, BudgetError):
                break
            author, cut = answer.model, answer.record
            legal, refused = check(cut, graph)
            if not refused or cut == said:
                # Who says the same again has no other cut.
                break
            said = cut
            prompt = prompt.answered(cut.model_dump_json(), render("cut", {"refused": refused}))
        if not legal:
            return self._fallback.plan(graph, device)
        for region in legal:
            cut_out = Region(graph, region.indices)
            renamed = renamed_inputs(cut_out)
            told = f"(Here {renamed}.) {region.strategy}" if renamed else region.strategy
            self._strategies[cut_out.extract().fingerprint] = told
        left = tuple((item.op, item.reason) for item in cut.left)
        left += tuple((f"nodes {r.nodes}", r.reason) for r in refused)
        return Plan(regions=tuple(legal), left=left, author=author)


def planner_prompt(graph: Graph, device: DeviceInfo) -> Prompt:
    """Render what a planner is told."""
    tables = {
        "graph": node_table(graph),
        "patterns": pattern_table(graph),
        "compiled": compiled_table(graph),
        "greedy": greedy_table(graph, device),
    }
    chip = chip_of(device)
    others = {
        "launches": launches_text(graph, device),
        "device": device_text(device),
        "chip": "an average chip" if chip is None else chip.name,
    }

    def at(share: float) -> Prompt:
        shown = {name: cut_to(table, share) for name, table in tables.items()}
        context = render("graph", {**others, **shown})
        return build(
            "planner",
            system={},
            context=context,
            request=render("cut", {"refused": ()}),
            templates="graph cut",
        )

    return fitted(at)


def check(cut: Cut, graph: Graph) -> tuple[list[PlannedRegion], list[Refused]]:
    """Split a proposed cut into legal, disjoint regions and refused ones."""
    legal: list[PlannedRegion] = []
    refused: list[Refused] = []
    taken: set[int] = set()
    for draft in cut.regions:
        nodes = tuple(sorted(set(draft.nodes)))
        if reason := _objection(nodes, graph, taken):
            refused.append(Refused(nodes, reason))
            continue
        taken |= set(nodes)
        legal.append(_planned(draft, nodes))
    return legal, refused


def _planned(draft: RegionDraft, nodes: tuple[int, ...]) -> PlannedRegion:
    return PlannedRegion(indices=nodes, strategy=draft.strategy, benefit=draft.benefit)


def _objection(nodes: tuple[int, ...], graph: Graph, taken: set[int]) -> str:
    if unknown := [n for n in nodes if not 0 <= n < len(graph.nodes)]:
        return f"there is no node {unknown[0]}; they are numbered 0 to {len(graph.nodes) - 1}"
    if shared := sorted(taken & set(nodes)):
        return f"node {shared[0]} is in another region already"
    verdict = legality(Region(graph, nodes), needs_template=False)
    return "" if verdict.is_legal else str(verdict)
