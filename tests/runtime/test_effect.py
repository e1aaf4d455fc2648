"""What a function does besides computing is found, and then no kernel takes its place."""

# mypy: disable-error-code="index,call-overload,operator,arg-type"

import ctypes
import datetime
import gc
import logging
import os
import random
import sqlite3
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import mlx.core as mx
import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.calling import captured
from kernelwright.runtime.effect import ImpureError, refusing_effects
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function

LOG = logging.getLogger(__name__)
CONFIG = Path(__file__)
WEIGHTS = Path(tempfile.gettempdir()) / f"weights_of_a_test_{os.getpid()}.safetensors"
LIBRARY = ctypes.CDLL(None)
load_weights = mx.load
SHAPE = (4, 8)


def timed(x: mx.array) -> tuple[mx.array, float]:
    start = time.perf_counter()
    return mx.exp(x), time.perf_counter() - start


def dated(x: mx.array) -> mx.array:
    return mx.exp(x) * datetime.datetime.now().day


def from_environment(x: mx.array) -> mx.array:
    return mx.exp(x) * float(os.environ.get("SCALE_OF_A_TEST", "2.0"))


def from_a_variable(x: mx.array) -> mx.array:
    return mx.exp(x) * (2 if os.getenv("SCALE_OF_A_TEST") else 3)


def from_a_file(x: mx.array) -> mx.array:
    return mx.exp(x) * len(CONFIG.read_text())


def from_a_folder(x: mx.array) -> mx.array:
    return mx.exp(x) * len(list(CONFIG.parent.iterdir()))


def of_a_file_that_may_be_there(x: mx.array) -> mx.array:
    return mx.exp(x) * (2 if CONFIG.exists() else 3)


def printing(x: mx.array) -> mx.array:
    print("called", x.shape)
    return mx.exp(x) * 2


def logging_it(x: mx.array) -> mx.array:
    LOG.error("called %s", x.shape)
    return mx.exp(x) * 2


def throwing(x: mx.array) -> mx.array:
    return mx.exp(x) * random.random()


def from_weights(x: mx.array) -> mx.array:
    return mx.exp(x) * mx.load(str(WEIGHTS))["w"]


def from_weights_by_another_name(x: mx.array) -> mx.array:
    return mx.exp(x) * load_weights(str(WEIGHTS))["w"]


def saving(x: mx.array) -> mx.array:
    mx.save(str(WEIGHTS.with_suffix(".npy")), mx.zeros(3))
    return mx.exp(x) * 2


def drawing(x: mx.array) -> mx.array:
    return mx.exp(x) * mx.random.uniform(shape=(8,))


def seeding(x: mx.array) -> mx.array:
    mx.random.seed(7)
    return mx.exp(x) * 2


def throwing_with_numpy(x: mx.array) -> mx.array:
    return mx.exp(x) * (2 if np.random.rand() < 2 else 3)


def by_the_memory(x: mx.array) -> mx.array:
    return mx.exp(x) * (2 if mx.get_active_memory() < 0 else 3)


def of_compiled_code(x: mx.array) -> mx.array:
    return mx.exp(x) * (2 if LIBRARY.getpid() > 0 else 3)


def onto_the_screen(x: mx.array) -> mx.array:
    sys.stdout.write("called")
    return mx.exp(x) * 2


def in_another_thread(x: mx.array) -> mx.array:
    threading.Thread(target=CONFIG.read_text).start()
    return mx.exp(x) * 2


def from_a_database(x: mx.array) -> mx.array:
    return mx.exp(x) * (2 if sqlite3.connect(":memory:") else 3)


EFFECTS: list[tuple[Callable[..., object], str]] = [
    (timed, "reads the clock"),
    (dated, "reads the clock"),
    (from_environment, "reads the environment"),
    (from_a_variable, "reads the environment"),
    (from_a_file, "opens a file"),
    (from_a_folder, "asks the operating system"),
    (of_a_file_that_may_be_there, "asks the operating system"),
    (printing, "prints"),
    (logging_it, "writes to a log"),
    (throwing, "draws from Python's random numbers"),
    (from_weights, r"reads a file \(mx.load\)"),
    (from_weights_by_another_name, r"reads a file \(mx.load\)"),
    (saving, r"writes a file \(mx.save\)"),
    (drawing, "draws random numbers without a key"),
    (seeding, "sets what all of MLX shares"),
    (throwing_with_numpy, "draws from NumPy's random numbers"),
    (by_the_memory, "asks how much memory is in use"),
    (of_compiled_code, "calls compiled code that cannot be looked into"),
    (onto_the_screen, "uses a file"),
    (in_another_thread, "starts a thread"),
    (from_a_database, "uses a file or a connection"),
]


@pytest.fixture(scope="module", autouse=True)
def weights() -> Iterator[None]:
    mx.save_safetensors(str(WEIGHTS), {"w": mx.ones((8,))})
    yield
    for suffix in (".safetensors", ".npy"):
        WEIGHTS.with_suffix(suffix).unlink(missing_ok=True)


@pytest.mark.parametrize(("function", "said"), EFFECTS, ids=lambda v: getattr(v, "__name__", ""))
def test_the_original_runs_where_a_function_does_more_than_compute(
    function: Callable[..., object], said: str
) -> None:
    with pytest.raises(ImpureError, match=rf"{said}.*\(\S*test_effect.py:\d+\)"):
        captured(function, ((mx.zeros(SHAPE),), {}), [mx.zeros(SHAPE)])


@pytest.mark.parametrize(("function", "said"), EFFECTS, ids=lambda v: getattr(v, "__name__", ""))
def test_an_export_refuses_it_with_the_line(function: Callable[..., object], said: str) -> None:
    call = ExampleCall((mx.zeros(SHAPE),), {})
    with pytest.raises(UnsupportedError, match=rf"{said}.*\(\S*test_effect.py:\d+\)"):
        export_function(function, "f", [call], lambda _: {}, admits=lambda _: True)


def test_a_refused_function_prints_nothing_while_it_is_exported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ExampleCall((mx.zeros(SHAPE),), {})
    with pytest.raises(UnsupportedError, match="prints"):
        export_function(printing, "f", [call], lambda _: {}, admits=lambda _: True)
    assert capsys.readouterr().out == ""


def test_a_constant_that_differs_between_two_calls_is_none() -> None:
    generator = np.random.default_rng(1)

    def noisy(x: mx.array) -> mx.array:
        return mx.exp(x) * float(generator.normal())

    with pytest.raises(ImpureError, match="differs from call to call"):
        captured(noisy, ((mx.zeros(SHAPE),), {}), [mx.zeros(SHAPE)])


@pytest.mark.parametrize("log", [LOG, logging.LoggerAdapter(LOG, {})])
def test_a_log_is_an_effect_below_its_level_too(log: logging.Logger) -> None:
    with pytest.raises(ImpureError, match=r"writes to a log .*test_effect.py"), refusing_effects():
        log.debug("not shown")
    with pytest.raises(ImpureError, match="reads the level of a log"), refusing_effects():
        log.isEnabledFor(logging.DEBUG)


def test_what_only_computes_is_let_through() -> None:
    def plain(x: mx.array) -> tuple[mx.array, dict[str, object]]:
        import json

        return mx.softmax(x * 2, axis=-1), {"rows": x.shape[0], "text": json.dumps([1])}

    with refusing_effects():
        plain(mx.zeros(SHAPE))
    calling, graph = captured(plain, ((mx.zeros(SHAPE),), {}), [mx.zeros(SHAPE)])
    assert len(graph.outputs) == 1
    assert isinstance(calling.result, tuple)


def test_a_module_that_is_imported_in_a_function_may_read_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_module_of_a_test.py").write_text(
        "import os, time\nSTART = time.time()\nHOME = os.environ.get('HOME')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with refusing_effects():
        __import__("late_module_of_a_test")


def test_a_class_that_is_completed_when_it_is_first_used_may_read_the_environment() -> None:
    class Late(BaseModel):
        model_config = ConfigDict(defer_build=True)
        size: int

    with refusing_effects():
        assert Late(size=2).size == 2


def test_a_warning_is_an_effect_even_where_nobody_sees_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ImpureError, match="warns"), refusing_effects():
            warnings.warn("called", stacklevel=1)


def test_the_profiler_of_a_user_stays() -> None:
    heard: list[str] = []

    def profiler(frame: FrameType, event: str, argument: object) -> None:
        heard.append(event)

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        with refusing_effects():
            mx.zeros(SHAPE)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(before)


class Garbage:
    """Refers to itself, so that only Python's collector ends it; reads a clock when it goes."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.time()


def test_what_a_collection_does_meanwhile_is_not_the_functions() -> None:
    def listen(phase: str, info: dict[str, int]) -> None:
        time.perf_counter()

    gc.collect()
    Garbage()
    gc.callbacks.append(listen)
    try:
        with refusing_effects():
            gc.collect()
    finally:
        gc.callbacks.remove(listen)
    with pytest.raises(ImpureError, match="reads the clock"), refusing_effects():
        time.time()


def test_what_stood_in_the_way_of_a_call_is_gone_afterwards() -> None:
    before, own = mx.load, load_weights
    with pytest.raises(ImpureError, match=r"mx\.load"):
        captured(from_weights, ((mx.zeros(SHAPE),), {}), [mx.zeros(SHAPE)])
    with pytest.raises(ImpureError, match=r"mx\.load"):
        captured(from_weights_by_another_name, ((mx.zeros(SHAPE),), {}), [mx.zeros(SHAPE)])
    assert mx.load is before
    assert load_weights is own


def test_a_watch_in_another_thread_takes_no_call_for_its_own() -> None:
    said: list[str] = []

    def elsewhere() -> None:
        mx.get_active_memory()
        said.append("called")

    def plain(x: mx.array) -> mx.array:
        if False:
            mx.get_active_memory()
        thread = threading.Thread(target=elsewhere)
        sys.setprofile(None)
        thread.start()
        thread.join()
        return mx.exp(x)

    with refusing_effects():
        plain(mx.zeros(SHAPE))
    assert said == ["called"]
