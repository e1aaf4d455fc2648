"""Intervals, corrections and what they promise."""

import numpy as np
import pytest

from kernelwright.evaluator.speed.statistics import (
    bootstrap,
    log_ratios,
    noise_margin,
    pairs_for,
    sign_test_lower,
    spent_alpha,
    spread,
)


def test_pairing_cancels_what_both_arms_share() -> None:
    drift = np.linspace(1, 3, 50)
    ratios = log_ratios(tuple(100 * drift), tuple(120 * drift))
    np.testing.assert_allclose(ratios, np.log(1.2))


def test_a_bootstrap_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        interval = bootstrap(random.standard_t(3, 30) * 0.02, 0.95, 300, random)
        covered += interval.lower <= 1 <= interval.upper
    assert 0.90 <= covered / 300 <= 0.99


def test_the_sign_test_errs_no_more_often_than_alpha_even_with_heavy_tails() -> None:
    random = np.random.default_rng(1)
    errors = sum(sign_test_lower(random.standard_cauchy(24), 0.05) > 1 for _ in range(2000))
    assert errors / 2000 <= 0.065


def test_the_sign_test_admits_that_few_pairs_prove_little() -> None:
    assert sign_test_lower(np.full(5, 0.5), 1e-3) == 0.0
    assert sign_test_lower(np.full(10, 0.5), 1e-3) == pytest.approx(np.exp(0.5))


@pytest.mark.parametrize("alpha", [0.05, 1e-4, 1e-9])
def test_enough_pairs_are_asked_for_to_lose_a_few(alpha: float) -> None:
    count = pairs_for(alpha)
    ratios = np.full(count, 0.1)
    ratios[:2] = -1.0
    assert sign_test_lower(ratios, alpha) > 1


def test_all_candidates_together_spend_no_more_than_alpha() -> None:
    assert sum(spent_alpha(0.05, tried) for tried in range(1, 200_000)) <= 0.05


def test_more_tries_ask_for_a_wider_margin() -> None:
    margins = [noise_margin(0.01, spent_alpha(0.05, tried)) for tried in (1, 100, 10_000)]
    assert margins == sorted(margins)
    assert margins[-1] < 0.08


def test_spread_ignores_a_few_wild_comparisons() -> None:
    random = np.random.default_rng(2)
    ratios = random.normal(0, 0.01, 200)
    ratios[:10] = 3.0
    assert spread(ratios) == pytest.approx(0.01, rel=0.2)
