"""Sees calls that Python's profiler does not report: functions of nanobind, Cython and ctypes.

`mx.load` is one of them. While a function is watched, such functions stand behind wrappers in the
namespaces that its code names; the wrappers tell of the call and pass it on.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType

import mlx.core as mx

Tell = Callable[[str, FrameType], None]
"""Hears what a function does, as in `reads a file (mx.load)`, and the frame that does it."""

_WRITES = "writes a file"
_SETS = "sets what all of MLX shares"
_MEMORY = "asks how much memory is in use"
_OF_MLX: Mapping[str, str] = {
    **dict.fromkeys(("load", "import_function"), "reads a file"),
    **dict.fromkeys(
        (
            *("save", "savez", "savez_compressed", "save_safetensors", "save_gguf"),
            *("export_function", "exporter", "export_to_dot"),
        ),
        _WRITES,
    ),
    **dict.fromkeys(
        (
            *("set_default_device", "set_default_stream", "set_memory_limit", "set_cache_limit"),
            *("set_wired_limit", "clear_cache", "reset_peak_memory", "random.seed"),
        ),
        _SETS,
    ),
    **dict.fromkeys(("get_active_memory", "get_peak_memory", "get_cache_memory"), _MEMORY),
    **dict.fromkeys(
        (
            *("random.bernoulli", "random.categorical", "random.gumbel", "random.laplace"),
            *("random.multivariate_normal", "random.normal", "random.permutation"),
            *("random.randint", "random.truncated_normal", "random.uniform"),
        ),
        "draws random numbers without a key",
    ),
}
_COMPILED_KINDS = frozenset({"nb_func", "nb_method", "cython_function_or_method", "fortran"})
_KNOWN_LIBRARIES = frozenset({"mlx", "numpy"})


@dataclass
class UnseenCalls:
    """The wrappers that stand in namespaces meanwhile."""

    tell: Tell
    _put: list[tuple[dict[str, object], str, object, object]] = field(default_factory=list)
    _known: set[CodeType] = field(default_factory=set)
    _thread: int = field(default_factory=threading.get_ident)

    def entered(self, frame: FrameType) -> None:
        """Put wrappers wherever a piece of code names such a function."""
        code, space = frame.f_code, frame.f_globals
        if code in self._known:
            return
        self._known.add(code)
        for name in code.co_names:
            value = space.get(name)
            if isinstance(value, ModuleType):
                self._in_module(value, code, 0)
            elif _is_library(value):
                for function in set(code.co_names).intersection(vars(value)):
                    self._replace(vars(value), function, vars(value)[function])
            elif value is not None:
                self._replace(space, name, value)

    def _in_module(self, module: ModuleType, code: CodeType, depth: int) -> None:
        # Attributes of a module that are not in its namespace are imported when they are read.
        for name in code.co_names:
            value = vars(module).get(name)
            if isinstance(value, ModuleType):
                if depth < 3 and value is not module:
                    self._in_module(value, code, depth + 1)
            elif value is not None:
                self._replace(vars(module), name, value)

    def _replace(self, space: dict[str, object], name: str, value: object) -> None:
        value = getattr(value, "__unseen__", value) if isinstance(value, _Wrapper) else value
        what = effect_of_compiled(value)
        if not what:
            return
        assert callable(value)
        wrapper = _Wrapper(value, what, self)
        self._put.append((space, name, value, wrapper))
        space[name] = wrapper

    def heard(self, what: str, arguments: tuple[object, ...]) -> None:
        """Tell of a call, of the watched thread's own."""
        if threading.get_ident() != self._thread:
            return
        if "without a key" in what and _has_key(arguments):
            return
        self.tell(what, sys._getframe(2))

    def restore(self) -> None:
        """Take the wrappers away; those of another thread's watch stay."""
        for space, name, value, wrapper in reversed(self._put):
            if space.get(name) is wrapper:
                space[name] = value


class _Wrapper:
    """Stands for a function; another watch takes the function itself out of it."""

    def __init__(self, function: Callable[..., object], what: str, calls: UnseenCalls) -> None:
        self.__unseen__, self._what, self._calls = function, what, calls
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(self, name, getattr(function, name, ""))

    def __call__(self, *arguments: object, **keywords: object) -> object:
        self._calls.heard(self._what, (*arguments, *keywords.values()))
        return self.__unseen__(*arguments, **keywords)

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["__unseen__"], name)


@contextmanager
def unseen_calls(tell: Tell) -> Iterator[UnseenCalls]:
    """Hear of such calls of this thread meanwhile."""
    calls = UnseenCalls(tell)
    try:
        yield calls
    finally:
        calls.restore()


def _is_library(value: object) -> bool:
    """Say whether a value is a library that ctypes opened; it keeps what was called before."""
    return any(k.__module__ == "ctypes" and k.__name__ == "CDLL" for k in type(value).__mro__)


def _has_key(values: tuple[object, ...]) -> bool:
    """Say whether a call of `mx.random` was given a key: two words of 32 bits."""
    return any(
        isinstance(v, mx.array) and v.dtype == mx.uint32 and v.shape[-1:] == (2,) for v in values
    )


def effect_of_compiled(value: object) -> str:
    """Say what a function does that a kernel does not; nothing where it only computes."""
    kind = type(value)
    if any(base.__module__ == "_ctypes" and base.__name__ == "CFuncPtr" for base in kind.__mro__):
        return "calls compiled code that cannot be looked into (ctypes)"
    if kind.__module__.startswith("_cffi_backend"):
        return "calls compiled code that cannot be looked into (cffi)"
    owner = getattr(value, "__self__", None)
    if type(owner).__module__ == "numpy.random.mtrand" and _is_shared_by_numpy(owner):
        return f"draws from NumPy's random numbers ({getattr(value, '__name__', '')})"
    if kind.__name__ not in _COMPILED_KINDS:
        return ""
    module = str(getattr(value, "__module__", "") or "")
    name = str(getattr(value, "__name__", ""))
    if module.partition(".")[0] == "mlx":
        path = f"{module.removeprefix('mlx.core').removeprefix('.')}.{name}".lstrip(".")
        said = _OF_MLX.get(path)
        return f"{said} (mx.{path})" if said else ""
    if module.partition(".")[0] in _KNOWN_LIBRARIES:
        return ""
    return f"calls compiled code that cannot be looked into ({module or kind.__module__}.{name})"


def _is_shared_by_numpy(owner: object) -> bool:
    random = sys.modules.get("numpy.random.mtrand")
    return random is not None and owner is getattr(random, "_rand", None)
