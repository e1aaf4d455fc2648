"""Bad arguments are one sentence each, before a store is opened or anything is traced."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest

import kernelwright as kw
from kernelwright.errors import DeviceError, InputError, KernelwrightError


def doubled(x: mx.array) -> mx.array:
    return mx.exp(x) * 2


search = partial(kw.search, doubled, inputs=["f32[8]"], device="simulator", progress=False)


def _call(face: str, /, *arguments: object, **keywords: object) -> Callable[[], object]:
    """Return a call of the public face with arguments that its types refuse."""
    return partial(getattr(kw, face), *arguments, **keywords)


class _Unnamed:
    pass


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (partial(search, device="gpu"), "device to be one of 'auto', .*'cuda', found 'gpu'"),
        (partial(search, candidates=0), "candidates to be greater than or equal to 1, found 0"),
        (partial(search, candidates="many"), "expected candidates to be a whole number.*'many'"),
        (partial(search, candidates="3"), "expected candidates to be a whole number.*'3'"),
        (partial(search, jobs=True), "expected jobs to be a whole number, found True"),
        (partial(search, seconds="5"), "expected seconds to be a number, found '5'"),
        (partial(search, budget=True), "expected budget to be a number of at least 0, found True"),
        (partial(search, repairs=-1), "expected repairs to be .* 0, found -1"),
        (partial(search, seconds=0), "expected seconds to be greater than 0, found 0"),
        (partial(search, budget=-1), "expected budget to be a number of at least 0, found -1"),
        (partial(search, tokens=0), "expected tokens to be a number of at least 1, found 0"),
        (
            partial(search, budget="free"),
            "expected budget to be a number of at least 0, found 'free'",
        ),
        (partial(search, model="gpt"), "gpt"),
        (partial(search, model=7), "expected model as a name such as .*, found 7"),
        (partial(search, chip="m9"), "m9"),
        (partial(search, store=7), "store to be a path or a database's URL, found 7"),
        (partial(search, progress="loud"), "progress display of 'auto'.*, found 'loud'"),
        (partial(search, threadgroup_memory="big"), "size such as 96K or 98304, found 'big'"),
        (partial(search, inputs=["f99[8]"]), "f99"),
        (partial(search, inputs=["f32[0]"]), r"computes on x \(f32\[0\]\), .*sizes of at least 1"),
        (partial(search, inputs={"x y": "f32[8]"}), "parameters' names, found 'x y'"),
        (partial(search, inputs={"z": "f32[8]"}), "missing a required argument: .x"),
        (partial(search, inputs=[]), "doubled"),
        (partial(search, inputs=[_Unnamed()]), "doubled"),
        (_call("search", doubled), "expected inputs for doubled, found none: .*add inputs="),
        (_call("search", _Unnamed), "found the class _Unnamed"),
        (_call("search", _Unnamed()), "expected a function, a method or an object"),
        (_call("search", None), "expected a function.*found None"),
        (_call("search", []), "found an empty list"),
        (_call("search", [doubled, doubled], inputs=["f32[8]"]), "found 2 targets"),
        (_call("search", "nothing.py:f"), "found nothing at 'nothing.py'"),
        (_call("plan", doubled, inputs=["f32[8]"], device="gpu"), "found 'gpu'"),
        (_call("best", limit=0), "limit to be at least 1, found 0"),
        (_call("best", device="gpu"), "found 'gpu'"),
        (_call("verify", "x", doubled, inputs=["f32[8]"]), "expected grid=… for a kernel's"),
        (_call("verify", "out[0] = 1;", grid=1), "expected the function that the kernel"),
        (_call("verify", "", doubled, inputs=["f32[8]"], grid=1), "found an empty text"),
        (_call("verify", 3, doubled, inputs=["f32[8]"]), "Metal body, a Program.*found int"),
        (_call("verify", Path("no.metal"), doubled, inputs=["f32[8]"]), "cannot read no.metal"),
        (
            _call("verify", "x", doubled, inputs=["f32[8]"], grid=1, through="end"),
            "through to be one of 'static rules', .*found 'end'",
        ),
        (
            _call("verify", "x", doubled, inputs=["f32[8]"], grid=(1, 2, 3, 4)),
            "one to three sizes such as 4096",
        ),
        (_call("verify", "x", doubled, inputs=["f32[8]"], grid=1.5), "found 1.5"),
        (_call("elementwise", "x", name="a b"), "name for the function .* found 'a b'"),
        (_call("elementwise", "x", names="x"), "list of parameters' names, found 'x'"),
        (_call("elementwise", "x", device="gpu"), "found 'gpu'"),
        (_call("kernel", 7), "expected a Python function under @kernelwright.kernel, found 7"),
        (_call("campaign", 7), "tables as a dict, or a list of functions, found int"),
        (_call("campaign", []), "\\[\\[functions\\]\\] is missing"),
        (_call("campaign", "none.toml"), "nothing readable at 'none.toml'"),
        (_call("campaign", [doubled]), "expected inputs for doubled, found none"),
    ],
)
def test_a_bad_argument_is_one_sentence(
    call: Callable[[], object],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "kernels.db"))
    with pytest.raises(InputError, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "kernels.db").exists()


def test_a_device_that_is_not_here_is_one_sentence() -> None:
    if mx.metal.is_available():
        pytest.skip("this machine has a Metal device")
    with pytest.raises(DeviceError, match="metal"):
        kw.elementwise("x + 1", device="metal")


def test_a_missing_store_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KernelwrightError, match=r"none\.db"):
        kw.best(store=tmp_path / "none.db")
