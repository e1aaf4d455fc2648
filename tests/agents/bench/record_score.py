"""Records what the scripted engineer reaches with the present prompts; run me after a change.

    python -m tests.agents.bench.record_score

It needs no key: two tasks of each level are searched without a model and with the engineer behind
a loopback server. A real model's score is recorded likewise, with its own name:

    kernelwright bench-agents --model anthropic:NAME --save benchmarks/results/agents-NAME.json
"""

import os
import sys
from pathlib import Path

from kernelwright.campaign.agent_bench import bench_tasks
from kernelwright.campaign.agent_bench.plot import bench_plot
from kernelwright.campaign.agent_bench.run import Yardstick
from kernelwright.campaign.agent_bench.score import TaskScore
from kernelwright.campaign.agent_bench.spec import BenchSpec
from kernelwright.campaign.execution.judge import judges_on
from kernelwright.metal.device.registry import open_device
from kernelwright.service.console import console
from kernelwright.service.view.agent_bench import print_bench_table, score_line
from tests.agents.bench.engineer import NAME, engineer
from tests.agents.loopback.server import LoopbackServer

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
TASKS = (
    *("horner", "masked_blend", "min_max_scale", "cosine_distance"),
    *("causal_taps", "response_norm", "gravity", "min_p_filter"),
)
SCORE = RESULTS / "agents-scripted.json"


def main(folder: Path) -> None:
    os.environ.setdefault("ANTHROPIC_API_KEY", "none-needed")
    with LoopbackServer(engineer) as server:
        yardstick = Yardstick(
            spec=BenchSpec(
                models=(f"anthropic:{NAME}",),
                base_url=server.base_url("anthropic"),
                candidates=2,
            ),
            folder=folder,
            make_judge=judges_on("simulator"),
            device=open_device("simulator").info,
            listen=lambda found: print(
                score_line(found) if isinstance(found, TaskScore) else found.sentence
            ),
        )
        report = yardstick.run(bench_tasks(TASKS))
    SCORE.write_text(report.model_dump_json(indent=1) + "\n")
    SCORE.with_suffix(".svg").write_text(bench_plot(report))
    print_bench_table(console(), report)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "bench-agents"))
