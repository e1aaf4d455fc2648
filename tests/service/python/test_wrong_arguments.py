"""Every public function names a wrong argument in one sentence, whatever it is."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import kernelwright as kw
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.public_call import one_sentence

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
    "search": lambda value: kw.search(value, progress=False),  # type: ignore[arg-type]
    "search device": lambda value: kw.search(rows, inputs=TYPES, device=value),  # type: ignore[arg-type]
    "search chip": lambda value: kw.search(rows, inputs=TYPES, chip=value),  # type: ignore[arg-type]
    "search store": lambda value: kw.search(rows, inputs=TYPES, store=value),  # type: ignore[arg-type]
    "plan": lambda value: kw.plan(value),  # type: ignore[arg-type]
    "plan inputs": lambda value: kw.plan(rows, inputs=[value, value]),
    "best dtype": lambda value: kw.best(dtype=value),  # type: ignore[arg-type]
    "best limit": lambda value: kw.best(limit=value),  # type: ignore[arg-type]
    "verify target": lambda value: kw.verify(BODY, value, inputs=TYPES, grid=32),  # type: ignore[arg-type]
    "verify through": lambda value: kw.verify(BODY, rows, inputs=TYPES, grid=32, through=value),  # type: ignore[arg-type]
    "campaign": lambda value: kw.campaign(value, progress=False),  # type: ignore[arg-type]
    "campaign functions": lambda value: kw.campaign({"functions": [value]}, progress=False),
    "export": lambda value: kw.export(value, "never"),  # type: ignore[arg-type]
    "export format": lambda value: kw.export(rows, "never", format_name=value),  # type: ignore[arg-type]
    "optimize": lambda value: kw.optimize(value),  # type: ignore[call-overload]
    "optimize device": lambda value: kw.optimize(rows, device=value),  # type: ignore[arg-type]
    "optimize buckets": lambda value: kw.optimize(rows, buckets=[value]),  # type: ignore[list-item]
    "explain": lambda value: kw.explain(value),  # type: ignore[arg-type]
    "restore": lambda value: kw.restore(value),
    "example": lambda value: kw.example("f32[4]")(value),  # type: ignore[type-var]
    "elementwise": lambda value: kw.elementwise(value),  # type: ignore[arg-type]
    "elementwise name": lambda value: kw.elementwise("x", name=value),  # type: ignore[arg-type]
    "elementwise device": lambda value: kw.elementwise("x", device=value),  # type: ignore[arg-type]
    "rowwise map": lambda value: kw.rowwise(map=value, reduce="sum"),  # type: ignore[arg-type]
    "rowwise reduce": lambda value: kw.rowwise(map="x", reduce=value),  # type: ignore[arg-type]
    "rowwise finish": lambda value: kw.rowwise(map="x", reduce="sum", finish=value),  # type: ignore[arg-type]
    "kernel": lambda value: kw.kernel(value),  # type: ignore[call-overload]
}


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
        (lambda: kw.export(rows, "x", name="a b"), "a name for the module such as 'softmax'"),
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
