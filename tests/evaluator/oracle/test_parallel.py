"""Work on several cores gives what one core gives."""

import threading
import time

import numpy as np
import pytest

from kernelwright.evaluator.oracle import parallel
from kernelwright.evaluator.oracle.parallel import (
    begin,
    begin_ahead,
    in_parts,
    room_for,
    side_by_side,
    spread,
)


@pytest.fixture(params=[1, 3])
def _cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: request.param)


@pytest.mark.usefixtures("_cores")
@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_results_keep_the_order_of_what_they_are_made_of(count: int) -> None:
    assert in_parts(lambda i: i * i, range(count)) == [i * i for i in range(count)]
    assert side_by_side(lambda i: in_parts(str, range(i)), range(count)) == [
        [str(k) for k in range(i)] for i in range(count)
    ]


@pytest.mark.usefixtures("_cores")
def test_what_fails_in_a_part_fails_the_whole() -> None:
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        in_parts(lambda i: 1 / (i - 5), range(20))


def test_what_is_asked_for_is_not_queued_behind_what_nobody_waits_for() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def last(part: int) -> int:
        begun.set()
        assert may_end.wait(60)
        return part

    many = range(10 * parallel.cores())
    ahead = begin_ahead(lambda: side_by_side(lambda i: in_parts(last, many), many))
    try:
        assert begun.wait(60)
        assert side_by_side(lambda i: in_parts(str, [i, i]), [1, 2]) == [["1", "1"], ["2", "2"]]
        assert begin(lambda: in_parts(str, [3, 4])).result(60) == ["3", "4"]
    finally:
        may_end.set()
    assert ahead.result(60) == [list(many)] * len(many)


def test_large_work_waits_for_room_and_work_beyond_all_room_goes_alone() -> None:
    lock, at_once, most = threading.Lock(), 0, 0

    def work(size: int) -> None:
        nonlocal at_once, most
        with room_for(size):
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.01)
            with lock:
                at_once -= 1

    threads = [threading.Thread(target=work, args=(1 << 62,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.usefixtures("_cores")
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (1, 3, 50_000), (150_001,), (300, 300)])
def test_spread_work_gives_the_bits_of_the_whole(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    dense = random.standard_normal(shape)
    repeated = np.broadcast_to(random.standard_normal(shape[-1:]), shape)
    for function in (np.exp, np.less, np.arctan2):
        arrays = [dense, repeated][: function.nin]
        found, whole = spread(function, arrays), np.asarray(function(*arrays))
        assert (np.asarray(found).dtype, found.shape) == (whole.dtype, whole.shape)
        assert np.asarray(found).tobytes() == whole.tobytes()
