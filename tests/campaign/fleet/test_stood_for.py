"""A search on the simulator for another chip: its schedules, its times, a champion of its own."""

from pathlib import Path

import mlx.core as mx

from kernelwright.campaign import Engine, SearchSpec, offline_team
from kernelwright.campaign.fleet.evaluators import evaluators_for
from kernelwright.campaign.planning.given_graph import captured_graphs
from kernelwright.evaluator.gain import gain_of
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph import Graph
from kernelwright.store import KernelStore


def _product() -> Graph:
    def gated(x: mx.array, w: mx.array, v: mx.array) -> mx.array:
        return (x @ w.T) * mx.sigmoid(x @ v.T)

    weights = mx.zeros((256, 256), mx.float16)
    return canonicalize(capture(gated, mx.zeros((1, 256), mx.float16), weights, weights))


def _searched(store: KernelStore, chip: str) -> None:
    spec = SearchSpec(chip=chip, candidates_per_task=1)
    engine = Engine(store, spec, offline_team(), evaluators_for(spec, store, fleet=False))
    engine.run(captured_graphs({"gated": _product()}, "gated.py"))


def test_the_simulator_searches_for_a_named_chip(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        for chip in ("", "m4-pro", "NVIDIA H200"):
            _searched(store, chip)
        plain, named = sorted(store.best(), key=lambda champion: len(champion.chip))
        assert named.chip == f"{plain.chip} for h200"
        served = {
            found.champion.chip: found
            for champions in store.from_elsewhere(
                [plain.task.id], device="cuda", chip="NVIDIA H200"
            ).values()
            for found in champions
        }
    assert set(served) == {plain.chip, named.chip}
    texts = {chip: found.program.kernels[0].source for chip, found in served.items()}
    # 16 bytes of halves are one access of an NVIDIA lane.
    assert texts[plain.chip] != texts[named.chip]
    gains = {chip: gain_of(found.evaluation, _product()) for chip, found in served.items()}
    assert {gain.chip for gain in gains.values()} == {"m4-pro", "h200"}
    assert gains[named.chip].chip == "h200"
