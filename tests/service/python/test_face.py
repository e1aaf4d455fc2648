"""One search from Python, and everything that its result and the store answer afterwards."""

import threading
from dataclasses import asdict
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import kernelwright as kw
from kernelwright.errors import InputError
from kernelwright.evaluator import Status
from kernelwright.service.python.html import as_text
from kernelwright.service.python.result import SearchResult
from kernelwright.store import KernelStore


def shifted(x: mx.array, y: mx.array) -> mx.array:
    return mx.softmax(x + y, axis=-1) * y + 1


def _arrays() -> tuple[mx.array, mx.array]:
    return mx.random.normal((16, 256)), mx.random.normal((16, 256))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("face") / "kernels.db"


@pytest.fixture(scope="module")
def found(store: Path) -> SearchResult:
    return kw.search(
        shifted, inputs=_arrays(), device="simulator", candidates=2, store=store, progress=False
    )


def test_a_result_has_a_row_for_each_kernel_and_its_history(found: SearchResult) -> None:
    (row,) = found.table
    assert (row.function, row.region, row.tried) == ("shifted", "shifted", 2)
    assert row.kind == "predicted"
    assert row.lower is None
    assert asdict(row)["kernel_us"] > 0
    assert {entry.candidate_id for entry in found.history} >= {row.kernel}
    assert not found.interrupted


def test_a_result_tells_a_prediction_from_a_measurement(found: SearchResult) -> None:
    assert found.speedup == pytest.approx(found.report.functions[0].gain.ratio)  # type: ignore[union-attr]
    assert found.speedup > 1
    assert str(found.speedup).startswith("~")
    assert "(predicted)" in str(found.speedup)
    assert not found.speedup.is_measured
    assert "(predicted)" in found._repr_html_()


def test_a_result_shows_itself_in_terminals_and_notebooks(found: SearchResult) -> None:
    assert "search finished" in repr(found)
    assert "shifted" in as_text(found, width=60)
    assert "<table>" in found._repr_html_()
    assert found.plot().svg.startswith("<svg")
    assert "shifted" in found.plan.picture.svg


def test_the_plan_of_a_result_has_what_its_champions_gain(found: SearchResult) -> None:
    (region,) = found.plan.regions
    assert region.gain == found.champion.gain


def test_a_champion_computes_what_the_function_does(found: SearchResult) -> None:
    x, y = _arrays()
    champion = found.champion.on("simulator")
    assert mx.allclose(champion(x, y), shifted(x, y), rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]
    assert mx.allclose(champion(np.array(x), y), shifted(x, y), rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]


def test_a_champion_differentiates_as_the_function_does(found: SearchResult) -> None:
    x, y = _arrays()
    champion = found.champion.on("simulator")
    ours = mx.grad(lambda x: champion(x, y).sum())(x)  # type: ignore[union-attr]
    assert mx.allclose(ours, mx.grad(lambda x: shifted(x, y).sum())(x), rtol=1e-4, atol=1e-5)


def test_a_champion_says_what_it_takes(found: SearchResult) -> None:
    x, _ = _arrays()
    with pytest.raises(
        InputError, match=r"x: f32\[16,256\], y: f32\[16,256\], found f32\[16,256\]"
    ):
        found.champion(x)
    with pytest.raises(InputError, match="expected an MLX or NumPy array as argument 2, found str"):
        found.champion(x, "y")


def test_champions_of_the_store_are_the_results(found: SearchResult, store: Path) -> None:
    champions = kw.best(store=store, device="simulator")
    assert [c.id for c in champions] == [c.id for c in found.champions]
    assert champions[0].name == "shifted"
    assert "shifted" in repr(champions)
    assert "<pre" in champions._repr_html_()
    assert "thread" in champions[0].source


def test_a_result_exports_its_kernels(found: SearchResult, tmp_path: Path) -> None:
    (written,) = found.export(tmp_path, name="shifted_kernel")
    assert (tmp_path / "shifted_kernel.py").is_file()
    assert written.is_verified


def test_the_same_search_again_in_another_thread_finds_what_is_known(
    found: SearchResult, store: Path
) -> None:
    results: list[SearchResult] = []

    def again() -> None:
        results.append(
            kw.search(
                shifted,
                inputs=["f32[16,256]", "f32[16,256]"],
                device="simulator",
                candidates=2,
                store=store,
                progress="none",
            )
        )

    thread = threading.Thread(target=again)
    thread.start()
    thread.join()
    assert results[0].report.evaluated == 0
    assert results[0].table[0].kernel == found.table[0].kernel


def test_verify_judges_a_kernel_of_ones_own() -> None:
    wrong = kw.verify(
        "uint i = thread_position_in_grid.x; out[i] = x[i] - y[i];",
        lambda x, y: x + y,
        inputs=["f32[64]", "f32[64]"],
        grid=64,
        device="simulator",
        through="correctness",
    )
    assert wrong.status is Status.WRONG
    assert wrong.summary in repr(wrong)
    assert "correctness" in wrong._repr_html_()


def test_verify_takes_a_program_and_a_candidate(found: SearchResult, store: Path) -> None:
    by_id = kw.verify(found.champion.id, store=store, device="simulator", through="compile")
    given = kw.verify(
        found.champion.program,
        shifted,
        inputs=_arrays(),
        device="simulator",
        through="compile",
    )
    assert by_id.program == given.program == found.champion.program.id


def test_plan_compiles_nothing_and_opens_no_store(tmp_path: Path) -> None:
    planned = kw.plan(shifted, inputs=_arrays(), device="simulator", store=tmp_path / "none.db")
    assert [region.name for region in planned.regions] == ["shifted"]
    assert str(planned.limit).startswith("~")
    assert "shifted" in repr(planned)
    assert "<svg" in planned._repr_html_()
    assert planned.save(tmp_path / "plan.svg").read_text().startswith("<svg")
    assert not (tmp_path / "none.db").exists()


def test_the_engine_that_a_search_runs_is_the_command_lines(
    found: SearchResult, store: Path
) -> None:
    with KernelStore(str(store), must_exist=True) as opened:
        assert opened.campaign(found.campaign_id).name == "shifted"
