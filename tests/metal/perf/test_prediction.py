"""Predictions name what limits a launch, and grow and shrink as the work does."""

import pytest

from kernelwright.errors import InputError
from kernelwright.metal.device.base import BufferTraffic, Counters
from kernelwright.metal.perf import (
    PROFILES,
    Bound,
    Prediction,
    caveat_of,
    find_profile,
    predict,
)

_MIB = 1 << 20


def _counters(*, threads: int = 1 << 22, megabytes: int = 64, **fields: float) -> Counters:
    nbytes = megabytes * _MIB
    sectors = nbytes // 32
    traffic = [
        BufferTraffic(
            name="x",
            bytes_read=nbytes,
            sectors_read=sectors,
            unique_bytes_read=nbytes,
            unique_sectors_read=sectors,
        ),
        BufferTraffic(
            name="y",
            bytes_written=nbytes,
            sectors_written=sectors,
            unique_bytes_written=nbytes,
            unique_sectors_written=sectors,
        ),
    ]
    base = {"kernel": "k", "threads": threads, "threadgroups": max(threads // 256, 1)}
    return Counters.model_validate({**base, "buffers": traffic, **fields})


def _predict(
    chip: str = "m2-pro", *, threads: int = 1 << 22, megabytes: int = 64, **fields: float
) -> Prediction:
    counters = _counters(threads=threads, megabytes=megabytes, **fields)
    return predict(counters, find_profile(chip))


def test_a_big_copy_is_bound_by_memory_near_the_chip_s_bandwidth() -> None:
    prediction = _predict()

    assert prediction.bound == "memory"
    assert 0.8 < prediction.bandwidth_share < 0.9
    assert prediction.time_us == pytest.approx(128 * _MIB / 180e3 + 4, rel=0.05)


@pytest.mark.parametrize(
    ("fields", "bound"),
    [
        ({"float_operations": 10**11}, "issue"),
        ({"matrix_operations": 10**8}, "compute"),
        ({"special_operations": 10**10}, "special"),
        ({"integer_operations": 10**11}, "integer"),
        ({"threadgroup_bytes_read": 10**10}, "threadgroup"),
        ({"bank_conflicts": 10**9}, "threadgroup"),
    ],
)
def test_the_scarcest_resource_is_the_bound(fields: dict[str, int], bound: Bound) -> None:
    counters = _counters().model_copy(update=fields)

    assert predict(counters, find_profile("m2-pro")).bound == bound


def test_a_lone_threadgroup_with_many_barriers_is_bound_by_latency() -> None:
    assert _predict(threads=256, megabytes=1, barriers=1000).bound == "latency"


def test_little_work_is_bound_by_its_launch() -> None:
    assert _predict(threads=1024, megabytes=0).bound == "launch"


def test_a_wait_beyond_that_of_any_launch_is_latency_though_starting_takes_longer() -> None:
    waiting = _predict(threads=256, megabytes=0, barriers=10)
    assert waiting.bounds_us["latency"] < find_profile("m2-pro").launch_us
    assert waiting.bound == "latency"


def test_few_threadgroups_do_not_reach_the_bandwidth() -> None:
    few = _predict(threads=512, megabytes=8)

    assert few.bandwidth_share < 0.4
    assert few.occupancy < 1


def test_idle_lanes_cost_as_much_as_busy_ones() -> None:
    whole = _predict(float_operations=10**11)
    half = _predict(float_operations=10**11, active_lanes=0.5)

    assert half.bounds_us["compute"] == pytest.approx(2 * whole.bounds_us["compute"])


def test_what_is_read_again_misses_a_cache_that_those_in_flight_fill() -> None:
    def again(threads: int) -> int:
        nbytes = 240 * _MIB
        buffer = BufferTraffic(
            name="x",
            bytes_read=4 * nbytes,
            sectors_read=nbytes // 8,
            unique_bytes_read=nbytes,
            unique_sectors_read=nbytes // 32,
        )
        counters = _counters(threads=threads).model_copy(update={"buffers": (buffer,)})
        return predict(counters, find_profile("m2-pro")).memory_bytes // nbytes

    assert again(threads=1 << 22) == 1
    assert again(threads=1 << 14) == 4


def test_a_bias_that_every_row_reads_stays_in_the_cache() -> None:
    stream = BufferTraffic(
        name="x",
        bytes_read=1 << 28,
        sectors_read=1 << 23,
        unique_bytes_read=1 << 28,
        unique_sectors_read=1 << 23,
    )
    bias = stream.model_copy(
        update={"name": "b", "unique_bytes_read": 1 << 14, "unique_sectors_read": 1 << 9}
    )
    counters = _counters().model_copy(update={"buffers": (stream, bias)})

    assert predict(counters, find_profile("h200")).memory_bytes == (1 << 28) + (1 << 14)


def test_every_faster_chip_is_predicted_faster() -> None:
    times = [_predict(chip).time_us for chip in ("m1", "m2", "m2-pro", "m4-pro", "m4-max", "h200")]

    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("elements_a_thread", "threads_a_group", "measured_us"),
    [(4, 256, 40.8), (1, 256, 84.8), (1, 64, 278.2)],
)
def test_a_kernel_measured_on_an_h200_is_within_a_quarter(
    elements_a_thread: int, threads_a_group: int, measured_us: float
) -> None:
    # Bias + tanh-GELU on 2048 x 14336 float16, launched again and again by a CUDA graph.
    elements = 2048 * 14336
    threads = elements // elements_a_thread
    prediction = _predict(
        "h200",
        threads=threads,
        threadgroups=threads // threads_a_group,
        megabytes=elements * 2 // _MIB,
        float_operations=elements * 10,
        special_operations=elements,
    )
    time_us = prediction.time_us - find_profile("h200").launch_us

    assert time_us == pytest.approx(measured_us, rel=0.25)


def test_threads_that_keep_much_leave_room_for_fewer() -> None:
    plain, kept = _predict("h200"), _predict("h200", thread_array_bytes=256)

    assert kept.occupancy < plain.occupancy / 2
    assert kept.time_us > plain.time_us


def test_a_core_holds_no_more_threadgroups_than_the_chip_allows() -> None:
    assert _predict("h200", threadgroups=(1 << 22) // 32).occupancy == 32 * 32 / 512


def test_many_reads_of_few_bytes_take_longer_than_few_of_many() -> None:
    def time_us(bytes_a_lane: int) -> float:
        counters = _counters(threads=1 << 14)
        buffers = tuple(
            b.model_copy(update={"read_rounds": b.bytes_read // (32 * bytes_a_lane)})
            for b in counters.buffers
        )
        copied = counters.model_copy(update={"buffers": buffers})
        return predict(copied, find_profile("h200")).time_us

    assert time_us(2) > 1.5 * time_us(8)


def test_a_special_function_costs_instructions_around_its_unit() -> None:
    prediction = _predict("h200", special_operations=10**9)

    assert prediction.bounds_us["issue"] > prediction.bounds_us["special"]


def test_a_quick_function_costs_less_than_an_accurate_one() -> None:
    special = {"special_operations": 10**9}
    quick, accurate = (
        _predict("h200", **special, quick_operations=number).bounds_us["issue"]
        for number in (10**9, 0)
    )

    assert accurate > 2 * quick


def test_a_core_s_own_cache_serves_what_its_threadgroups_read_again() -> None:
    def cache_us(chip: str, sectors: int) -> float:
        x, y = _counters(threads=1 << 20).buffers
        again = x.model_copy(
            update={
                "sectors_read": 2 * x.sectors_read,
                "bytes_read": 2 * x.bytes_read,
                "group_sectors_read": sectors,
            }
        )
        counters = _counters(threads=1 << 20).model_copy(update={"buffers": (again, y)})
        return predict(counters, find_profile(chip)).bounds_us["cache"]

    once = _counters().buffers[0].sectors_read
    # Rows of 16 KB: eight of them fit an H200's core, none an M2 Pro's.
    assert cache_us("h200", once) == pytest.approx(cache_us("h200", 2 * once) * 2 / 3)
    assert cache_us("m2-pro", once) == pytest.approx(cache_us("m2-pro", 2 * once))


def test_rounds_in_plain_loops_are_under_way_together() -> None:
    def latency_us(looped: int) -> float:
        counters = _counters(threads=1 << 14, megabytes=1)
        x, y = counters.buffers
        rounds = {"read_rounds": 1 << 16, "looped_rounds": looped}
        counters = counters.model_copy(update={"buffers": (x.model_copy(update=rounds), y)})
        return predict(counters, find_profile("h200")).bounds_us["latency"]

    assert latency_us(0) > 1.5 * latency_us(1 << 16)


def test_a_prediction_says_that_it_is_one() -> None:
    assert _predict().label == "prediction"
    assert "prediction" in str(_predict())


@pytest.mark.parametrize("chip", PROFILES)
def test_profile_names_its_sources(chip: str) -> None:
    profile = find_profile(chip)

    assert profile.sources
    assert set(profile.estimates) <= set(type(profile).model_fields)


@pytest.mark.parametrize(
    ("chip", "tflops"),
    [("m1", 2.6), ("m1-max", 10.4), ("m2", 3.6), ("m2-max", 13.6), ("h200", 67)],
)
def test_profile_agrees_with_the_published_peak(chip: str, tflops: float) -> None:
    assert find_profile(chip).float_tflops == pytest.approx(tflops, rel=0.03)


def test_chip_is_found_by_apple_s_name() -> None:
    assert find_profile("Apple M4 Max").name == "m4-max"


def test_unknown_chip_is_refused() -> None:
    with pytest.raises(InputError, match="no profile of a chip 'M9'"):
        find_profile("M9")


@pytest.mark.parametrize(("chip", "faster"), [("m4-max", 1), ("m5-max", 512 / 102)])
def test_tensor_operations_are_fast_where_a_chip_has_accelerators(chip: str, faster: float) -> None:
    products = 1 << 34
    usual = _predict(chip, megabytes=1, matrix_operations=products)
    tensors = _predict(chip, megabytes=1, matrix_operations=products, tensor_operations=products)

    assert usual.bounds_us["compute"] / tensors.bounds_us["compute"] == pytest.approx(faster)


def test_partial_threadgroups_wait_side_by_side() -> None:
    """Sixteen threads in one group or in sixteen: every simdgroup reads in the same few rounds."""

    def waits_us(groups: int) -> float:
        base = {"kernel": "k", "threads": 16, "threadgroups": groups}
        buffer = BufferTraffic(
            name="x", bytes_read=512, unique_bytes_read=512, read_rounds=3 * groups
        )
        return predict(
            Counters.model_validate({**base, "buffers": [buffer]}), find_profile("m4-pro")
        ).bounds_us["latency"]

    assert waits_us(16) == pytest.approx(waits_us(1), rel=0.15)


@pytest.mark.parametrize("chip", PROFILES)
def test_a_prediction_says_where_its_costs_were_fitted_if_elsewhere(chip: str) -> None:
    prediction = _predict(chip)

    carried = f"costs fitted on an H200 and carried over to {chip}"
    assert (carried in str(prediction)) == (chip != "h200")
    assert prediction.carried_over_from == ("" if chip == "h200" else "h200")


def test_predictions_for_several_chips_share_one_caveat() -> None:
    assert caveat_of(["m4", "h200", "m2-pro", "m4", "a GPU nobody knows"]) == (
        "costs fitted on an H200 and carried over to m4, m2-pro"
    )
    assert caveat_of(["h200"]) == ""
