"""Every public function names a wrong argument in one sentence, whatever it is."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import kernelwright as kw
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.plural import counted
from kernelwright.public_call import one_sentence
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer
from kernelwright.service.python.picture import Picture

BODY = "uint i = thread_position_in_grid.x; out[i] = x[i];"
TYPES = ["f32[4,8]"]
WRONG: list[object] = [object(), -1, "\0", [], {}, float("nan"), b"x", mx.array(1.0)]


def rows(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def raises(x: mx.array) -> mx.array:
    raise RuntimeError("boom [/red]\nsecond line")


def _gives(value: object) -> Callable[[mx.array], object]:
    return lambda x: value


CALLS: dict[str, Callable[..., object]] = {
    "search": lambda value: kw.search(value, progress=False),
    "search device": lambda value: kw.search(rows, inputs=TYPES, device=value),
    "search chip": lambda value: kw.search(rows, inputs=TYPES, chip=value),
    "search store": lambda value: kw.search(rows, inputs=TYPES, store=value),
    "plan": lambda value: kw.plan(value),
    "plan inputs": lambda value: kw.plan(rows, inputs=[value, value]),
    "best dtype": lambda value: kw.best(dtype=value),
    "best limit": lambda value: kw.best(limit=value),
    "verify target": lambda value: kw.verify(BODY, value, inputs=TYPES, grid=32),
    "verify through": lambda value: kw.verify(BODY, rows, inputs=TYPES, grid=32, through=value),
    "campaign": lambda value: kw.campaign(value, progress=False),
    "campaign functions": lambda value: kw.campaign({"functions": [value]}, progress=False),
    "export": lambda value: kw.export(value, "never"),
    "export format": lambda value: kw.export(rows, "never", format_name=value),
    "optimize": lambda value: kw.optimize(value),
    "optimize device": lambda value: kw.optimize(rows, device=value),
    "optimize buckets": lambda value: kw.optimize(rows, buckets=[value]),
    "explain": lambda value: kw.explain(value),
    "restore": lambda value: kw.restore(value),
    "example": lambda value: kw.example("f32[4]")(value),
    "elementwise": lambda value: kw.elementwise(value),
    "elementwise name": lambda value: kw.elementwise("x", name=value),
    "elementwise device": lambda value: kw.elementwise("x", device=value),
    "rowwise map": lambda value: kw.rowwise(map=value, reduce="sum"),
    "rowwise reduce": lambda value: kw.rowwise(map="x", reduce=value),
    "rowwise finish": lambda value: kw.rowwise(map="x", reduce="sum", finish=value),
    "kernel": lambda value: kw.kernel(value),
}


@pytest.mark.parametrize("name", ["base_url", "budget", "tokens", "calls"])
def test_what_is_for_models_is_refused_where_none_is_asked(name: str) -> None:
    given = {name: "http://127.0.0.1:8080/v1" if name == "base_url" else 2}
    for model in (None, "none"):
        with pytest.raises(InputError, match=f"^{name} is for models, and no model is asked"):
            kw.search(rows, inputs=TYPES, progress=False, model=model, **given)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "none.db"))


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_one_sentence(name: str) -> None:
    for value in WRONG:
        with pytest.raises(KernelwrightError, match=r"\S+ \S+ \S+") as told:
            CALLS[name](value)
        assert "\n" not in str(told.value), value
        assert len(str(told.value)) < 500, value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kw.best(limit="x"), "expected limit of best to be a whole number, found 'x'"),  # type: ignore[arg-type]
        (
            lambda: kw.verify(BODY, rows, inputs=TYPES, grid=32, input_names="x"),
            "expected input_names of verify to be a list, each a text, found 'x'",
        ),
        (
            lambda: kw.verify(BODY, rows, inputs=TYPES, grid=32, template=0),  # type: ignore[arg-type]
            "expected template of verify to be a dict or None, found 0",
        ),
        (
            lambda: kw.export(rows, 5, inputs=TYPES),  # type: ignore[arg-type]
            "expected directory of export to be a text or a path, found 5",
        ),
        (lambda: kw.export(rows, "x", name="a b"), "expected a Python identifier as the name"),
        (lambda: kw.plan(rows, inputs=[np.array(["a"])]), "an array that MLX can hold"),
        (lambda: kw.plan(rows, inputs=["f32[4,8]", "f32[4]"]), "expected|argument"),
        (lambda: kw.plan(raises, inputs=TYPES), r"raised RuntimeError .*: boom \[/red\]$"),
        (lambda: kw.plan(_gives("text"), inputs=TYPES), "array"),
        (lambda: kw.plan(rows, inputs=[mx.array(1.0)]), "array with 0 dimensions"),
    ],
)
def test_a_sentence_names_what_is_wrong(call: Callable[[], object], words: str) -> None:
    with pytest.raises(KernelwrightError, match=words) as told:
        call()
    assert "\n" not in str(told.value)


def test_what_a_users_function_raises_passes() -> None:
    @one_sentence
    def public(function: Callable[[], object], limit: int) -> object:
        return function()

    def own() -> object:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        public(own, 3)
    with pytest.raises(InputError, match="expected limit of public to be a whole number"):
        public(own, "3")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [3, None, object()])
def test_explain_and_restore_refuse_as_every_other_function(value: object) -> None:
    with pytest.raises(InputError, match=r"made by kernelwright\.optimize"):
        kw.explain(value)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"made by kernelwright\.optimize"):
        kw.restore(value)


def test_an_optimized_function_shows_its_name_and_gives_the_original_back() -> None:
    optimized = kw.optimize(rows)
    assert repr(optimized) == "<rows, optimized by kernelwright>"
    assert kw.restore(optimized) is rows


def test_calls_with_different_constants_are_different_rows_of_the_registry(
    tmp_path: Path,
) -> None:
    def scaled(x: mx.array, by: float = 1.0) -> mx.array:
        return x * by

    optimized = Optimized(scaled, KernelServer(str(tmp_path / "none.db"), "simulator"))
    optimized(mx.ones((4,)), 2.0)
    optimized(mx.ones((4,)), by=4.0)
    assert [row.constants for row in optimized.loaded()] == [("2.0",), ("by=4.0",)]


@pytest.mark.parametrize("name", ["times.png", "times", "times.svg.gz"])
def test_a_drawing_is_written_as_what_its_name_says(tmp_path: Path, name: str) -> None:
    picture = Picture("<svg/>")
    with pytest.raises(InputError, match=r"expected a name that ends in \.svg"):
        picture.save(tmp_path / name)
    assert not (tmp_path / name).exists()
    assert picture.save(tmp_path / "times.SVG").read_text() == "<svg/>"


def test_a_json_file_that_holds_no_program_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    path.write_text("{")
    for grid in (None, 32):
        with pytest.raises(InputError, match=r"k\.json is no program: expected JSON"):
            kw.verify(str(path), rows, inputs=TYPES, grid=grid)


def test_a_body_that_never_names_its_output_is_not_told_to_enlarge_its_grid() -> None:
    verdict = kw.verify("foo bar", rows, inputs=TYPES, grid=32, device="simulator")
    assert not verdict.is_correct
    assert "no statement of the body writes out" in str(verdict)


def test_a_count_takes_the_form_of_its_word() -> None:
    assert counted(1, "kernel") == "1 kernel"
    assert counted(0, "kernel") == "0 kernels"
    assert counted(2, "axis", "axes") == "2 axes"
    assert counted(12_000, "element") == "12,000 elements"
