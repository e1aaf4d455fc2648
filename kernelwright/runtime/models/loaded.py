"""A model with kernels in place, as the registry lists it."""

import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from kernelwright.errors import KernelwrightError
from kernelwright.runtime.models.install import calls_of, explain_model
from kernelwright.runtime.models.toggle import without_kernels
from kernelwright.runtime.registry import LoadedCall


class Module(Protocol):
    """An `mlx.nn.Module`."""


class LoadedModel:
    """Says what an optimized model runs, as long as it lives and is optimized."""

    def __init__(self, model: Module) -> None:
        self._model = weakref.ref(model)

    @property
    def is_alive(self) -> bool:
        """False once nobody holds the model."""
        return self._model() is not None

    def loaded(self) -> Iterable[LoadedCall]:
        """Return one row, or none where the model has its own code back."""
        model = self._model()
        if model is None:
            return ()
        try:
            reason = explain_model(model, (), {})  # type: ignore[arg-type]
        except KernelwrightError:
            return ()
        path = "original" if reason.startswith("MLX runs") else "kernels"
        return (
            LoadedCall(
                function=type(model).__name__,
                inputs=(),
                path=path,
                reason=reason,
                calls=calls_of(model),  # type: ignore[arg-type]
            ),
        )

    def without_kernels(self) -> AbstractContextManager[None]:
        """Let the model run its own code for a while."""
        model = self._model()
        return nullcontext() if model is None else without_kernels(model)  # type: ignore[arg-type]

    def time_calls(self, *, is_timed: bool) -> None:
        """Calls of models are not timed."""
