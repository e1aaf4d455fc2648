"""Few customers wait for each other little; many go at the pace of the scarcest resource."""

import pytest

from kernelwright.metal.perf.queue import throughput


def test_a_lone_customer_takes_its_wait_and_every_service() -> None:
    assert throughput(5.0, [2.0, 1.0], 1) == pytest.approx(1 / 8)


def test_a_crowd_goes_at_the_pace_of_the_longest_service() -> None:
    assert throughput(5.0, [2.0, 1.0], 64) == pytest.approx(1 / 2, rel=1e-3)


def test_customers_beyond_the_waiting_time_gain_nothing() -> None:
    passed = [throughput(10.0, [1.0], n) for n in (1, 4, 16, 64)]

    assert passed == sorted(passed)
    assert passed[1] > 3.5 * passed[0]
    assert passed[3] < 1.01


def test_equal_services_are_never_all_busy() -> None:
    """Known exactly: n customers at k equal services pass at n / (n + k - 1) of their pace."""
    assert throughput(0.0, [1.0, 1.0, 1.0], 4) == pytest.approx(4 / 6)
