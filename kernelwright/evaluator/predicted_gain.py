"""What a kernel gains over MLX by what was counted, where no comparison was made."""

from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.gain import Gain, gain_between, predicted_chip
from kernelwright.evaluator.speed.predicted_time import PredictedTime
from kernelwright.evaluator.speed.prediction import predict_baselines, predict_program
from kernelwright.ir.graph import Graph
from kernelwright.metal.perf import find_profile
from kernelwright.plan.traffic import compiled_traffic, eager_traffic, fast_traffic


def gain_without_speedup(evaluation: Evaluation, graph: Graph) -> Gain:
    """Compare what was predicted or counted with what MLX must take, where nobody did so yet."""
    if evaluation.predicted_us is None:
        return _by_bytes(evaluation, graph)
    profile = find_profile(predicted_chip(evaluation.device))
    time = PredictedTime(evaluation.predicted_us, evaluation.bound)
    return gain_between(time, predict_baselines(graph, profile), profile.name)


def predicted_gain(evaluation: Evaluation, graph: Graph, chip: str) -> Gain | None:
    """Predict a gain from what was counted; None where nothing was, as beyond the simulator.

    Raises:
        InputError: the chip is not known.
    """
    profile = find_profile(chip)
    if not evaluation.counters:
        return None
    time = predict_program(evaluation.counters, profile)
    return gain_between(time, predict_baselines(graph, profile), profile.name)


def _by_bytes(evaluation: Evaluation, graph: Graph) -> Gain:
    moved = sum(
        buffer.unique_bytes_read + buffer.unique_bytes_written
        for counters in evaluation.counters
        for buffer in counters.buffers
    )
    counted = {
        "mx.compile": compiled_traffic(graph).nbytes,
        "mx.fast": fast_traffic(graph).nbytes,
        "eager MLX": eager_traffic(graph).nbytes,
    }
    best = min(counted, key=lambda name: counted[name])
    return Gain(
        kind="traffic",
        baseline=best,
        chip=predicted_chip(evaluation.device),
        ratio=counted[best] / moved if moved else 1.0,
    )
