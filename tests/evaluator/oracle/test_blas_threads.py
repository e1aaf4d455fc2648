"""Matrix products take one thread each while several callers work side by side."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from kernelwright.evaluator.oracle import blas_threads
from kernelwright.evaluator.oracle.blas_threads import one_blas_thread
from kernelwright.evaluator.oracle.parallel import in_parts, side_by_side


def threads() -> int:
    blas = blas_threads._openblas()
    if blas is None:
        pytest.skip("NumPy does not multiply with OpenBLAS here")
    return blas.threads()


@pytest.fixture
def _three_threads() -> Iterator[None]:
    before = threads()
    blas = blas_threads._openblas()
    assert blas is not None
    blas.set_threads(min(3, max(before, 2)))
    yield
    blas.set_threads(before)


@pytest.mark.usefixtures("_three_threads")
def test_threads_come_back_when_the_last_user_leaves() -> None:
    before = threads()
    with one_blas_thread():
        with one_blas_thread():
            assert threads() == 1
        assert threads() == 1
    assert threads() == before > 1


@pytest.mark.usefixtures("_three_threads")
@pytest.mark.parametrize("share", [in_parts, side_by_side])
def test_work_that_is_shared_out_multiplies_with_one_thread(
    share: Callable[[Callable[[int], int], Sequence[int]], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelwright.evaluator.oracle.parallel.cores", lambda: 2)
    assert share(lambda _: threads(), range(4)) == [1] * 4
    assert threads() > 1
