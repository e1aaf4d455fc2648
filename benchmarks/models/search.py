"""Searches the parts of several recorded models at once, so that every processor has work.

kernelwright tune config.json --record llama.json
python -m benchmarks.models.search llama.json qwen.json --store models.db --jobs 12
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelwright.campaign import Engine, SearchReport, SearchSpec, offline_team
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.fleet.evaluators import evaluators_for
from kernelwright.campaign.planning.given_graph import captured_graphs
from kernelwright.metal.device.registry import default_device
from kernelwright.runtime.models.choosing import Choice, choose
from kernelwright.runtime.models.workload import load_workload
from kernelwright.search.priority import SecondsToSave
from kernelwright.store import KernelStore


def search_parts(
    choices: Sequence[Choice], spec: SearchSpec, store: str, *, source: str
) -> SearchReport | None:
    """Let the offline agents search parts, those with most to save first; None without any."""
    if not choices:
        return None
    named = {f"{i}:{c.name}"[:80]: c for i, c in enumerate(choices)}
    most = max(choice.gain_us for choice in choices) or 1.0
    weights = {name: 1 + 9 * choice.gain_us / most for name, choice in named.items()}
    with KernelStore(store) as opened:
        engine = Engine(
            opened,
            spec,
            offline_team(),
            evaluators_for(spec, opened, fleet=False),
            RunSettings(order=SecondsToSave(weights)),
        )
        graphs = {name: choice.graph for name, choice in named.items()}
        return engine.run(captured_graphs(graphs, source))


def distinct_choices(traces: Sequence[Path], most_elements: int) -> list[Choice]:
    """List what may pay in any of the traces, each task once."""
    found: dict[str, Choice] = {}
    for trace in traces:
        for choice in choose(load_workload(trace), None):
            size = sum(type_.size for type_ in choice.graph.input_types)
            if not choice.refused and size <= most_elements:
                found.setdefault(choice.graph.fingerprint, choice)
    return sorted(found.values(), key=lambda choice: -choice.gain_us)


def main() -> int:
    """Search the traces that are named, and say what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--device", default=None)
    parser.add_argument("--chip", default="", help="whose schedules the simulator tries")
    parser.add_argument("--store", default="models.db")
    parser.add_argument("--candidates", type=int, default=4, help="a task")
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--most-elements", type=float, default=1e9, help="of a task's inputs")
    options = parser.parse_args()
    choices = distinct_choices(options.traces, int(options.most_elements))
    spec = SearchSpec(
        name="models",
        device=options.device or default_device(),
        chip=options.chip,
        candidates_per_task=options.candidates,
        seconds=options.seconds,
        jobs=options.jobs,
    )
    report = search_parts(choices, spec, options.store, source="models")
    for task in report.tasks if report else ():
        words = task.champion_id or task.reason or "nothing"
        print(f"{task.name:50} {task.tried} tried, {words}"[:150])
    return 0


if __name__ == "__main__":
    sys.exit(main())
