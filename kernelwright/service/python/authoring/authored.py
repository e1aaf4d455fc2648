"""Authored functions: kernels where they are verified, MLX everywhere else."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import mlx.core as mx

from kernelwright.campaign import Captured
from kernelwright.campaign.planning.given_graph import captured_graphs
from kernelwright.campaign.spec.input_value import Inputs
from kernelwright.errors import DeviceError, InputError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceName
from kernelwright.runtime.explanation import Explanation
from kernelwright.runtime.optimize import Optimized, Route
from kernelwright.runtime.server import KernelServer, Service
from kernelwright.search.spec import SearchSpec
from kernelwright.service.python.authoring.meaning import Meaning
from kernelwright.service.python.progress import Silent
from kernelwright.service.python.request import DeviceChoice, device_of, store_of
from kernelwright.service.python.search import run_search
from kernelwright.service.python.target import subjects
from kernelwright.store import KernelStore, ServedProgram

R = TypeVar("R")
CANDIDATES = 4
"""Schedules that are tried before the best is verified."""


class AuthoringServer(KernelServer):
    """Serves what the store has, and has a kernel written and verified where it has none.

    A kernel that somebody wrote down is wanted for itself: it runs where it is verified and no
    measurement found MLX as fast; a prediction does not count against it.
    """

    def __init__(self, name: str, store: str | None, device: DeviceName | None) -> None:
        super().__init__(store, device)
        self._name = name
        self.may_write = True
        """True until a kernel was written: what other sizes need is asked for by `prepare`."""

    def is_worthwhile(self, champion: ServedProgram) -> bool:
        """Say whether a champion runs."""
        return champion.beats_mlx or not champion.evaluation.device.measures_time

    def serve(self, graph: Graph) -> Service:
        """Find or make verified kernels for a canonical graph; never fails."""
        service = super().serve(graph)
        if service.programs or self.is_off or self.device is None or not self.may_write:
            return service
        self.may_write = False
        self._write(captured_graphs({self._name: graph}, "<expression>"))
        self.__dict__.pop("store", None)
        return super().serve(graph)

    def _write(self, functions: Captured) -> None:
        """Have the offline team write kernels, and the evaluator judge them."""
        assert self.device is not None
        spec = SearchSpec(
            name=self._name, device=self.device.info.name, candidates_per_task=CANDIDATES, jobs=1
        )
        with KernelStore(self.url) as opened:
            run_search(opened, functions, spec, Silent())


class AuthoredFunction(Optimized, Generic[R]):
    """A function that an expression defines.

    Its meaning is MLX's: gradients, `vmap` and `jvp`, and every call at shapes and dtypes for
    which no kernel is verified.
    """

    def __init__(self, meaning: Meaning, server: AuthoringServer) -> None:
        self.meaning = meaning
        self._authoring = server
        super().__init__(_function_of(meaning), server)
        self._fallback = _compiled(self.function)

    def _original(self, types: tuple[str, ...], reason: str, graph: Graph | None) -> Route:
        route = super()._original(types, reason, graph)
        route.run = self._fallback
        return route

    if TYPE_CHECKING:

        def __call__(self, *args: object, **kwargs: object) -> R:
            """Compute it; see `Meaning`."""

    def prepare(self, *inputs: Inputs) -> Explanation:
        """Have a kernel written and verified for these inputs now; say what came of it.

        Args:
            inputs: arrays, types such as `"f16[8,512]"` and numbers, as it is called.

        Raises:
            InputError: the inputs are wrong, or this machine has no GPU and no device was named.
        """
        if self._authoring.device is None:
            raise InputError(
                f"expected a device for {self.meaning.name}'s kernels, found no GPU here; make it "
                "with device='simulator', which runs them slowly and judges them in full."
            )
        (subject, *_) = subjects(self.function, list(inputs))
        self._authoring.may_write = True
        self._routes.clear()
        return self.explain(*subject.inputs, **subject.keywords)

    def __repr__(self) -> str:
        names = ", ".join(self.meaning.parameters)
        return f"<{self.meaning.name}({names}), authored with kernelwright>"


def authored(
    meaning: Meaning,
    *,
    inputs: Inputs | None,
    device: DeviceChoice,
    store: str | Path | None,
) -> AuthoredFunction[R]:
    """Return the function of a meaning, with a kernel for `inputs` if there are some.

    Raises:
        InputError: the device is not known, or the inputs do not fit.
    """
    on = None if device == "auto" else device_of(device)
    function = AuthoredFunction[R](meaning, AuthoringServer(meaning.name, store_of(store), on))
    if on is not None and function._authoring.device is None:
        raise DeviceError(f"expected the device {on!r}, which this machine does not open.")
    if inputs is not None:
        listed = inputs if isinstance(inputs, tuple | list) else [inputs]
        function.prepare(*listed)
    return function


def _function_of(meaning: Meaning) -> Callable[..., object]:
    """Return a plain function, as everything that traces takes."""

    def function(*arguments: mx.array, **keywords: mx.array) -> object:
        return meaning(*arguments, **keywords)

    function.__name__ = function.__qualname__ = meaning.name
    function.__doc__ = "; ".join(result.text for result in meaning.results)
    function.__signature__ = meaning.signature  # type: ignore[attr-defined]
    return function


def _compiled(function: Callable[..., object]) -> Callable[..., object]:
    """Return MLX at its best: on a GPU one kernel of `mx.compile` where it fuses."""
    is_gpu = mx.metal.is_available() or mx.cuda.is_available()
    return mx.compile(function) if is_gpu else function


def checked_name(name: str) -> str:
    """Return a name for a function.

    Raises:
        InputError: Python would not take it.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"expected a name for the function such as 'swiglu', found {name!r}.")
    return name


def checked_names(names: Sequence[str] | None) -> Sequence[str] | None:
    """Return the parameters' names.

    Raises:
        InputError: they are no list of names.
    """
    if names is not None and (isinstance(names, str) or not all(isinstance(n, str) for n in names)):
        raise InputError(f"expected a list of parameters' names, found {names!r}.")
    return names
