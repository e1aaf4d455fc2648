"""Cases are built once for all evaluators of a search, and not kept without end."""

import threading
import time
from dataclasses import dataclass

import pytest

from kernelwright.evaluator.inputs import suite_cache
from kernelwright.evaluator.inputs.suite_cache import SuiteCache


@dataclass(frozen=True)
class Cases:
    nbytes: int = 1


def test_threads_that_want_the_same_cases_wait_for_the_first() -> None:
    kept, built = SuiteCache(), []

    def build() -> Cases:
        built.append(threading.get_ident())
        time.sleep(0.01)
        return Cases()

    threads = [threading.Thread(target=kept.get_or_build, args=(("key",), build)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_what_was_used_longest_ago_goes_first_but_for_the_task_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suite_cache, "memory_bytes", lambda: 80)
    kept, built = SuiteCache(), list[str]()

    def take(name: str) -> None:
        def build() -> Cases:
            built.append(name)
            return Cases(nbytes=1000)

        kept.get_or_build((name,), build)

    own = ["cases", "timing", "hidden", "confirmation"]
    for name in (*own, *own, "another", "cases"):
        take(name)
    assert built == [*own, "another", "cases"]
