"""One search from Python, and everything that its result and the store answer afterwards."""

import io
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from rich.console import Console

import kernelwright as kw
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator import Status
from kernelwright.service.python.html import as_text
from kernelwright.service.python.result import SearchResult
from kernelwright.service.python.target import subjects
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
    assert "(predicted; costs fitted on an H200" in str(found.speedup)
    assert not found.speedup.is_measured
    assert "(predicted" in found._repr_html_()


def test_a_result_shows_itself_in_terminals_and_notebooks(found: SearchResult) -> None:
    assert "search finished" in repr(found)
    assert "shifted" in as_text(found, width=60)
    assert "<table>" in found._repr_html_()
    assert found.plot().svg.startswith("<svg")
    assert "shifted" in found.plan.picture.svg


def test_text_has_no_escapes_where_colours_are_forced(
    found: SearchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a notebook's kernel has it.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert "\x1b" not in repr(found)
    assert "\x1b" not in repr(found.plan)


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
    with pytest.raises(InputError, match="in a dtype that MLX has on a GPU, found float64"):
        found.champion(np.zeros((16, 256)), x)


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
    assert [w.use for w in written.written] == ["from shifted_kernel import shifted_kernel"]


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
    assert wrong.summary in " ".join(repr(wrong).split())
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
    assert "data:image/svg+xml;base64," in planned._repr_html_()
    assert planned.save(tmp_path / "plan.svg").read_text().startswith("<svg")
    assert not (tmp_path / "none.db").exists()


def test_the_engine_that_a_search_runs_is_the_command_lines(
    found: SearchResult, store: Path
) -> None:
    with KernelStore(str(store), must_exist=True) as opened:
        assert opened.campaign(found.campaign_id).name == "shifted"


def test_results_show_themselves_on_any_console(found: SearchResult, store: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(found, found.plan, kw.best(store=store), found.champion, kw.registry)
    assert isinstance(console.file, io.StringIO)
    assert "search finished" in console.file.getvalue()


def test_a_function_that_no_command_finds_is_not_offered_to_one(found: SearchResult) -> None:
    def inner(x: mx.array) -> mx.array:
        return x + 1

    line = inner.__code__.co_firstlineno
    assert [s.file for s in subjects(inner, "f32[8]")] == [f"<test_face.py:{line}>"]
    assert subjects(lambda x: x + 1, "f32[8]")[0].file.startswith("<test_face.py:")
    assert [s.file for s in subjects(shifted, ["f32[8]", "f32[8]"])] == [__file__]
    assert f"kernelwright export {__file__}:shifted" in repr(found)


def test_a_result_outlives_the_folder_that_its_store_was_named_from(
    found: SearchResult, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    champions = kw.best(store=store.name, device="simulator")
    monkeypatch.chdir(tmp_path)
    assert champions[0].program == found.champion.program


@pytest.mark.parametrize(
    "inputs",
    [
        ["f32[n,64]", "f32[n,64]", "n=7"],
        {"x": "f32[n,64]", "y": "f32[7,64]", "n": 7},
        [mx.zeros((7, 64)), np.zeros((7, 64), np.float32)],
        ["f32[7,64]", "y=f32[7,64]"],
    ],
)
def test_inputs_are_types_arrays_names_and_sizes(inputs: object) -> None:
    planned = kw.plan(shifted, inputs=inputs, device="simulator")
    assert planned.outlines[0].inputs == "f32[7,64], f32[7,64]"


_NESTED = """
from dataclasses import dataclass
import mlx.core as mx

@dataclass
class Order:
    price: mx.array
    count: int = 1

def total(order, dtype=mx.float32):
    return (order.price * order.count).astype(dtype)
"""


@pytest.mark.parametrize(
    "inputs",
    [
        ["facenest.Order(price=f32[64], count=2)"],
        {"order": "facenest.Order(price=f32[64], count=2)"},
        {"order": "facenest.Order(price=f32[64], count=2)", "dtype": mx.float16},
    ],
)
def test_a_file_takes_records_as_text_and_what_has_no_text(inputs: object, tmp_path: Path) -> None:
    (tmp_path / "facenest.py").write_text(_NESTED)
    (subject,) = subjects(f"{tmp_path / 'facenest.py'}:total", inputs)
    (order,) = [v for v in (*subject.inputs, *subject.keywords.values()) if v is not mx.float16]
    assert type(order).__name__ == "Order"
    assert vars(order)["price"].shape == (64,)


def test_inputs_may_be_texts_that_are_no_types() -> None:
    def moded(x: mx.array, mode: str) -> mx.array:
        return (mx.tanh if mode == "mode=tanh" else mx.exp)(x) * 2

    planned = kw.plan(moded, inputs=["f32[7]", "mode=tanh"], device="simulator")
    assert "tanh" in planned.outlines[0].steps[0].ops


def _spread(x: mx.array, scale: float = 2.0) -> mx.array:
    return mx.mean(mx.tanh(x * scale) ** 2)


a = mx.value_and_grad(_spread)
made = mx.vmap(_spread)


@pytest.mark.parametrize(("function", "name"), [(a, "a"), (made, "made")])
@pytest.mark.sampled(1)
def test_what_mlx_makes_of_a_function_is_exported_as_itself(
    function: Callable[..., object], name: str, store: Path, tmp_path: Path
) -> None:
    arguments = {"inputs": ["f32[8,32]"], "candidates": 1, "repairs": 0, "progress": False}
    result = kw.search(function, device="simulator", store=store, **arguments)  # type: ignore[arg-type]
    assert {row.function for row in result.table} == {name}
    # The module is called as the proof calls things of its own.
    (written,) = kw.export(function, tmp_path, store=store, force=True).written
    assert (written.name, written.is_verified) == (name, True)


@pytest.mark.usefixtures("found")
def test_a_derivative_that_no_statement_makes_is_refused_with_one_to_write(
    store: Path, tmp_path: Path
) -> None:
    inputs = ["f32[8,32]"]
    with pytest.raises(UnsupportedError, match=r"such as step = grad\(_spread\), and take step"):
        kw.export(mx.grad(_spread), tmp_path, inputs=inputs, store=store)


def _passes_on(x: mx.array) -> mx.array:
    return x


def test_a_search_of_nothing_says_so(tmp_path: Path) -> None:
    result = kw.search(
        _passes_on,
        inputs="f32[8]",
        device="simulator",
        store=tmp_path / "kernels.db",
        progress=False,
    )
    words = "nothing to search in _passes_on: it computes nothing and returns what it was given"
    assert words in " ".join(as_text(result).split())
    assert "0 of 0" not in as_text(result)
    with pytest.raises(InputError, match=words):
        result.export(tmp_path)
    with pytest.raises(InputError, match=words):
        assert result.champion
