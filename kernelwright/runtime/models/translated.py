"""mlx-lm's functions with Metal kernels of their own, run on a GPU that is not Apple's.

There mlx-lm falls back to many small ops. Its module is executed once more as on a Mac, and its
kernels are handed to our translator. A function that is so replaced is compared with the fallback
on the arrays of a real call, and timed against it, before it serves.
"""

import builtins
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.executable import Device
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.runtime.derivative import have_values
from kernelwright.runtime.first_use import is_close, poison_freed
from kernelwright.runtime.models.nest import Key, arrays_of, call_key
from kernelwright.runtime.models.tree import all_modules, own_class
from kernelwright.runtime.running import runner

NAMES = {"ssm_update": "mlx_lm.models.ssm", "gated_delta_update": "mlx_lm.models.gated_delta"}
"""Functions that models import by these names, and where they come from."""
_FAILURES = (KernelwrightError, RuntimeError, ValueError, TypeError)
"""What cannot be translated, compiled or launched raises one of these, and stays mlx-lm's own."""
_MOST_SHAPES = 64
_REPEATS = 16
_LEAST_SPEEDUP = 1.02
Function = Callable[..., object]


class TranslatedKernel:
    """What `mx.fast.metal_kernel` would return on a Mac."""

    def __init__(
        self,
        device: Device,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
        ensure_row_contiguous: bool = True,
        atomic_outputs: bool = False,
    ) -> None:
        """Keep the text; it is compiled for each combination of types."""
        self._device = device
        self._made: dict[Key, Callable[[Sequence[mx.array]], Sequence[mx.array]]] = {}
        self._inputs = tuple(input_names)
        self._kernel = Kernel(
            name=name,
            inputs=self._inputs,
            outputs=tuple(output_names),
            source=source,
            header=header,
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            ensure_row_contiguous=ensure_row_contiguous,
            atomic_outputs=atomic_outputs,
        )

    def __call__(
        self,
        *,
        inputs: Sequence[object],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, object]] = (),
        init_value: float | None = None,
        verbose: bool = False,
        stream: object = None,
    ) -> list[mx.array]:
        """Launch the kernel.

        Raises:
            KernelwrightError: this device cannot run it.
        """
        arrays = [a if isinstance(a, mx.array) else mx.array(a) for a in inputs]  # type: ignore[arg-type]
        options = tuple((name, str(value)) for name, value in template)
        shapes = tuple(tuple(shape) for shape in output_shapes)
        key = (*call_key(tuple(arrays), {}), options, shapes, grid, threadgroup)
        run = self._made.get(key)
        if run is None:
            outputs = [TensorType(s, _dtype(d)) for s, d in zip(shapes, output_dtypes, strict=True)]
            run = self._compiled(arrays, outputs, grid, threadgroup, dict(template), init_value)
            self._made[key] = run
        return list(run(arrays))

    def _compiled(
        self,
        arrays: Sequence[mx.array],
        outputs: Sequence[TensorType],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: dict[str, object],
        init_value: float | None,
    ) -> Callable[[Sequence[mx.array]], Sequence[mx.array]]:
        kernel = self._kernel.model_copy(
            update={
                "grid": grid,
                "threadgroup": threadgroup,
                "init_value": init_value,
                "template": {
                    name: _dtype(value) if isinstance(value, mx.Dtype) else value
                    for name, value in template.items()
                },
            }
        )
        types = [TensorType(tuple(a.shape), _dtype(a.dtype)) for a in arrays]
        program = Program(
            inputs=_tensors(self._inputs, types),
            outputs=_tensors(self._kernel.outputs, outputs),
            kernels=(kernel,),
        )
        return runner(self._device.compile(program.bind(types)))


def _tensors(names: Sequence[str], types: Sequence[TensorType]) -> tuple[Tensor, ...]:
    pairs = zip(names, types, strict=True)
    return tuple(Tensor(name=name, dtype=t.dtype, shape=t.shape) for name, t in pairs)


def _dtype(dtype: mx.Dtype) -> ir.Dtype:
    return ir.Dtype.parse(str(dtype).rpartition(".")[2])


class _AsOnAMac:
    """`mlx.core` with Metal, whose kernels are translated; without a device, one without Metal."""

    def __init__(self, device: Device | None) -> None:
        def metal_kernel(**kwargs: object) -> TranslatedKernel:
            assert device is not None
            return TranslatedKernel(device, **kwargs)  # type: ignore[arg-type]

        self.metal = SimpleNamespace(is_available=lambda: device is not None)
        self.fast = _Instead(mx.fast, metal_kernel=metal_kernel)

    def default_device(self) -> object:
        return mx.gpu

    def __getattr__(self, name: str) -> object:
        return getattr(mx, name)


class _Instead:
    """A module with some names replaced."""

    def __init__(self, module: object, **names: object) -> None:
        vars(self).update(names)
        self._module = module

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)


def functions_of(module: str, device: Device | None) -> dict[str, object]:
    """Execute a module of mlx-lm as on a Mac whose Metal is our translator, or has none."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or spec.loader is None:
        return {}
    source = spec.loader.get_source(module)  # type: ignore[attr-defined]
    core = _AsOnAMac(device)

    def import_as_on_a_mac(name: str, *args: object, **kwargs: object) -> object:
        if name == "mlx.core":
            return SimpleNamespace(core=core)
        return builtins.__import__(name, *args, **kwargs)  # type: ignore[arg-type]

    names: dict[str, object] = {
        "__name__": module,
        "__package__": module.rpartition(".")[0],
        "__builtins__": {**vars(builtins), "__import__": import_as_on_a_mac},
    }
    exec(compile(source, spec.origin, "exec"), names)
    return names


class Translation:
    """Replaces functions of mlx-lm on one device."""

    def __init__(self, device: Device | None) -> None:
        """Replace nothing where there is Metal, or no GPU at all."""
        self._device = None if mx.metal.is_available() else device
        self._modules: dict[str, dict[str, object]] = {}
        self._replaced: dict[object, Function] = {}
        self._ops: dict[object, Function] = {}

    def serves(self, model: Module) -> bool:
        """Say whether a module of a model is written with a function that is replaced."""
        if self._device is None:
            return False
        kinds = {own_class(module) for _, module in all_modules(model)}
        return any(NAMES.keys() & vars(sys.modules[kind.__module__]).keys() for kind in kinds)

    def of(self, function: Function) -> Function:
        """Return what runs in a function's place; itself, where there is nothing better."""
        found = self._replaced.get(function)
        if found is None:
            found = self._replaced[function] = self._replacement(function) or function
        return found

    def as_ops(self, function: Function) -> Function:
        """Return a function as it is where there is no Metal: what any device can trace."""
        found = self._ops.get(function)
        if found is None:
            made = functions_of(function.__module__, None).get(function.__name__, function)
            found = self._ops[function] = made if callable(made) else function
        return found

    def _replacement(self, function: Function) -> Function | None:
        if self._device is None or not isinstance(function, FunctionType):
            return None
        module = function.__module__
        if NAMES.get(function.__name__) != module:
            return None
        if module not in self._modules:
            self._modules[module] = functions_of(module, self._device)
        other = self._modules[module].get(function.__name__)
        if not callable(other):
            return None
        # What measures no time runs through NumPy.
        is_gpu = self._device.info.measures_time
        return FunctionTrial(function, other, measures_time=is_gpu, is_lazy=is_gpu)


class FunctionTrial:
    """A function that runs another's kernels where these have passed on a real call."""

    def __init__(
        self, original: Function, other: Function, *, measures_time: bool, is_lazy: bool = True
    ) -> None:
        """Compare on each new combination of shapes, at the first call that has values.

        What is not lazy needs the values of arrays: no transformation can record it.
        """
        self.is_lazy = is_lazy
        self.name = str(getattr(original, "__name__", original))
        self._original = original
        self._other = other
        self._measures_time = measures_time
        self._kept: dict[Key, bool] = {}

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Answer a call; what is not tried yet is the original's."""
        key = call_key(args, kwargs)
        kept = self._kept.get(key)
        if kept is None and have_values(arrays_of((args, kwargs))):
            if len(self._kept) >= _MOST_SHAPES:
                self._kept.clear()
            kept = self._kept[key] = self._passes(args, kwargs)
        return self._answer(key, args, kwargs)

    @property
    def original(self) -> Function:
        """The function as mlx-lm has it."""
        return self._original

    def as_tried(self, *args: object, **kwargs: object) -> object:
        """Answer without a trial: by the kernels where they have passed, by the original else."""
        return self._answer(call_key(args, kwargs), args, kwargs)

    def _answer(self, key: Key, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if not self._kept.get(key) or not (self.is_lazy or have_values(arrays_of((args, kwargs)))):
            return self._original(*args, **kwargs)
        try:
            return self._other(*args, **kwargs)
        except _FAILURES:
            self._kept[key] = False
            return self._original(*args, **kwargs)

    def _passes(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        try:
            right = arrays_of(_run(self._original, args, kwargs))
            poison_freed(right)
            found = arrays_of(_run(self._other, args, kwargs))
        except _FAILURES:
            return False
        if len(found) != len(right) or not all(map(_is_alike, found, right)):
            return False
        if not self._measures_time:
            return True
        return self._us(self._original, args, kwargs) >= _LEAST_SPEEDUP * self._us(
            self._other, args, kwargs
        )

    def _us(self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> float:
        times = []
        for _ in range(3):
            mx.synchronize()
            begun = time.perf_counter()
            for _ in range(_REPEATS):
                mx.async_eval(arrays_of(function(*args, **kwargs)))  # type: ignore[no-untyped-call]
            mx.synchronize()
            times.append(time.perf_counter() - begun)
        return min(times) / _REPEATS * 1e6


def _run(function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    made = function(*args, **kwargs)
    mx.eval(arrays_of(made))
    return made


def _is_alike(found: mx.array, right: mx.array) -> bool:
    if found.shape != right.shape or found.dtype != right.dtype:
        return False
    coarsest = max(
        (Tolerance.of(_dtype(d)) for d in (right.dtype, mx.bfloat16)), key=lambda t: t.relative
    )
    return is_close(found, right, coarsest)
