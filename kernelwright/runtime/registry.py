"""What is loaded in this process: functions and models that may run kernels, their calls, time."""

import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Literal, Protocol

from kernelwright.metal.diagnostic import Record


class LoadedCall(Record):
    """One function at one choice of shapes and dtypes, or one model."""

    function: str
    inputs: tuple[str, ...]
    """Types such as `f16[8,512]`; empty for a model."""
    constants: tuple[str, ...] = ()
    """The call's plain values, such as `n=3`."""
    path: Literal["kernels", "original"]
    """Whether kernels run for it, or MLX."""
    reason: str
    """What the kernels cover, or why MLX runs."""
    kernels: tuple[str, ...] = ()
    """The candidates' ids."""
    calls: int | None = None
    """Since it was loaded; None where a model has its own code back."""
    timed_calls: int = 0
    time_s: float | None = None
    """What the timed calls took together, each to its end; None where none was timed."""


class Loaded(Protocol):
    """Something that may run kernels."""

    def loaded(self) -> Iterable[LoadedCall]:
        """Return a row for each kind of call."""

    def time_calls(self, *, is_timed: bool) -> None:
        """Begin or cease to time calls; what is timed is evaluated at once."""


class LoadedModel(Loaded, Protocol):
    """A model, which no set can hold weakly: it is a dict."""

    @property
    def is_alive(self) -> bool:
        """False once nobody holds the model."""

    def without_kernels(self) -> AbstractContextManager[None]:
        """Let the model run its own code for a while."""


class Registry:
    """The functions and models of this process that may run kernels, as long as they live."""

    def __init__(self) -> None:
        self._loaded: weakref.WeakSet[Loaded] = weakref.WeakSet()
        self._models: list[LoadedModel] = []
        self.is_timing = False

    def add(self, loaded: Loaded) -> None:
        """Take in a function or a model; it is not kept alive."""
        self._loaded.add(loaded)

    def add_model(self, model: LoadedModel) -> None:
        """Take in a model; it is not kept alive."""
        self._models.append(model)

    def calls(self) -> tuple[LoadedCall, ...]:
        """Return what is loaded, the most frequent calls first."""
        rows = [row for loaded in self._living() for row in loaded.loaded()]
        return tuple(sorted(rows, key=lambda row: (-(row.calls or 0), row.function, row.inputs)))

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Time every call inside of it, to the end of its work on the device.

        A call returns before its work is done otherwise, so that its time would say nothing.
        """
        self.is_timing = True
        self._time(is_timed=True)
        try:
            yield
        finally:
            self.is_timing = False
            self._time(is_timed=False)

    @contextmanager
    def without_kernels(self) -> Iterator[None]:
        """Give all models their own code back inside of it; afterwards everything is as it was."""
        with ExitStack() as around:
            self._living()
            for model in self._models:
                around.enter_context(model.without_kernels())
            yield

    def _living(self) -> list[Loaded]:
        self._models = [model for model in self._models if model.is_alive]
        return [*self._loaded, *self._models]

    def _time(self, *, is_timed: bool) -> None:
        for loaded in self._living():
            loaded.time_calls(is_timed=is_timed)


registry = Registry()
"""The process's own."""
