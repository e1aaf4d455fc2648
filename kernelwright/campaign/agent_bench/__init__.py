"""The yardstick for models and prompts: forty tasks, with and without what a team may have."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.campaign.agent_bench.level import Level
    from kernelwright.campaign.agent_bench.suite import bench_tasks
    from kernelwright.campaign.agent_bench.task import BenchTask
else:
    offer_lazily(__name__)


__all__ = ["BenchTask", "Level", "bench_tasks"]
