"""One rule says what a kernel gains: measured before predicted, over MLX's best, on a chip."""

import mlx.core as mx
import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import LEAST_GAIN, Evaluation, Speedup, Status
from kernelwright.evaluator.gain import Gain, gain_of, predicted_chip
from kernelwright.ir import capture
from kernelwright.metal.device.base import BufferTraffic, Counters, DeviceInfo

GRAPH = capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((64, 256)))
SIMULATOR = DeviceInfo(name="simulator", chip="x86_64", runtime="1", measures_time=False)
MAC = DeviceInfo(name="metal", chip="Apple M2 Pro", runtime="1", measures_time=True)
COUNTERS = Counters(
    kernel="k",
    threads=64 * 32,
    threadgroups=64,
    buffers=(
        BufferTraffic(name="x", bytes_read=65536, unique_bytes_read=65536),
        BufferTraffic(name="out", bytes_written=65536, unique_bytes_written=65536),
    ),
)


def _evaluation(
    device: DeviceInfo, *speedups: Speedup, counters: tuple[Counters, ...] = (COUNTERS,)
) -> Evaluation:
    return Evaluation(
        task="t", program="p", device=device, status=Status.CORRECT, summary="",
        speedups=speedups, counters=counters, predicted_us=5.0, measured_us=20.0,
    )  # fmt: skip


def _speedup(kind: str, ratio: float, baseline: str = "compile") -> Speedup:
    figures = {"ratio": ratio, "lower": ratio - 0.1, "upper": ratio + 0.1, "confidence": 0.95}
    return Speedup.model_validate({"baseline": baseline, "kind": kind, **figures})


def test_a_measured_gain_tells_both_times_its_interval_and_its_chip() -> None:
    gain = gain_of(_evaluation(MAC, _speedup("predicted", 9.0), _speedup("measured", 1.5)), GRAPH)
    assert (gain.kind, gain.baseline, gain.chip) == ("measured", "mx.compile", "Apple M2 Pro")
    assert (gain.kernel_us, gain.mlx_us) == (20.0, 30.0)
    assert gain.with_interval == "1.50× [1.40, 1.60]"
    assert (gain.mlx_time, gain.kernel_time) == ("30.0 µs", "20.0 µs")


def test_a_prediction_is_marked_and_names_the_chip_it_is_for() -> None:
    gain = gain_of(_evaluation(SIMULATOR, _speedup("predicted", 1.484)), GRAPH)
    assert (gain.times, gain.with_interval, gain.chip) == ("~1.48×", "~1.48×", "m4-pro")
    assert gain.mlx_us == pytest.approx(5 * 1.484)


@pytest.mark.parametrize("ratio", [0.5, 1.0, LEAST_GAIN])
def test_what_rounds_to_nothing_does_not_beat_mlx(ratio: float) -> None:
    evaluation = _evaluation(SIMULATOR, _speedup("predicted", ratio))
    assert not evaluation.beats_mlx
    assert not gain_of(evaluation, GRAPH).beats_mlx


def test_a_verdict_and_its_gain_never_disagree() -> None:
    for thousandth in range(990, 1030):
        evaluation = _evaluation(SIMULATOR, _speedup("predicted", thousandth / 1000))
        assert evaluation.beats_mlx == gain_of(evaluation, GRAPH).beats_mlx


def test_another_chip_is_predicted_from_what_was_counted() -> None:
    evaluation = _evaluation(MAC, _speedup("measured", 1.5))
    assert gain_of(evaluation, GRAPH, "m2-pro").kind == "measured"
    gain = gain_of(evaluation, GRAPH, "m1")
    assert (gain.kind, gain.chip) == ("predicted", "m1")
    assert gain.kernel_us != 5.0
    slower = gain_of(evaluation, GRAPH, "m1").mlx_us
    faster = gain_of(evaluation, GRAPH, "h200").mlx_us
    assert slower is not None
    assert faster is not None


def test_without_counts_a_measurement_stays() -> None:
    evaluation = _evaluation(MAC, _speedup("measured", 1.5), counters=())
    assert gain_of(evaluation, GRAPH, "m1").kind == "measured"


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(InputError, match="no profile of a chip 'm9'"):
        gain_of(_evaluation(SIMULATOR), GRAPH, "m9")


def test_a_devices_own_chip_is_predicted_where_it_is_known() -> None:
    assert predicted_chip(MAC) == "m2-pro"
    assert predicted_chip(SIMULATOR) == "m4-pro"


def test_a_gain_survives_json() -> None:
    gain = gain_of(_evaluation(MAC, _speedup("measured", 1.5)), GRAPH)
    assert Gain.model_validate_json(gain.model_dump_json()) == gain


@pytest.mark.parametrize("interval", [{}, {"lower": 1.5, "upper": 1.5, "confidence": 1.0}])
def test_a_prediction_has_no_interval_even_as_older_stores_hold_it(
    interval: dict[str, float],
) -> None:
    told = {"baseline": "compile", "ratio": 1.5, "kind": "predicted", **interval}
    speedup = Speedup.model_validate(told)
    assert (speedup.lower, speedup.upper, speedup.confidence) == (None, None, None)
    assert speedup.bounds == (1.5, 1.5)
