"""A copy of a module that is traced in its place, so that nobody sees placeholders in weights."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Protocol, cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.runtime.models.heir import heir
from kernelwright.runtime.models.rotary import CoreWithRope, core_name
from kernelwright.runtime.models.translated import NAMES as TRANSLATED
from kernelwright.runtime.models.tree import SITE, Path, own_class

_SHADOW = "_kernelwright_shadow"
ATTENTION = "scaled_dot_product_attention"
"""mlx-lm's function that chooses by the kind of a cache; models import it by this name."""


_RECORDED = frozenset({ATTENTION, *TRANSLATED})


class Recorder(Protocol):
    """Hears the calls of a shadow's modules."""

    def child(self, shadow: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Answer a call of a module of the shadow."""

    def function(self, original: Callable[..., object]) -> Callable[..., object]:
        """Return what stands for a function that may be given state."""

    def rope(self, x: mx.array, *args: object, **kwargs: object) -> object:
        """Answer a call of `mx.fast.rope`."""


@dataclass(frozen=True)
class _Info:
    recorder: Recorder
    path: Path


@dataclass
class Shadow:
    """The copy, and everything in it that a call could change."""

    module: Module
    kept: list[tuple[object, object]]
    """Containers and what they held."""

    @property
    def is_unchanged(self) -> bool:
        """False once a call has put anything into the module or one below."""
        return all(_same(holder, copy) for holder, copy in self.kept)

    def put(self, module: Module, name: str, value: object) -> None:
        """Let a module of the copy have an attribute; that is no change by a call."""
        fields = vars(module)
        fields[name] = value
        self.kept = [
            (holder, dict(fields) if holder is fields else copy) for holder, copy in self.kept
        ]


def make_shadow(module: Module, arrays: Iterator[mx.array], recorder: Recorder) -> Shadow:
    """Copy a module and all below it, with other arrays in the order of `array_paths`."""
    kept: list[tuple[object, object]] = []
    made: dict[int, Module] = {}

    def copied(value: object, path: Path) -> object:
        if isinstance(value, Module):
            return _module(value, path)
        if isinstance(value, mx.array):
            return next(arrays)
        if isinstance(value, dict):
            new: object = {k: copied(v, (*path, k)) for k, v in value.items()}
        elif isinstance(value, list | tuple):
            items = [copied(v, (*path, i)) for i, v in enumerate(value)]
            new = items if isinstance(value, list) else tuple(items)
        else:
            return value
        kept.append((new, _copy(new)))
        return new

    def _module(value: Module, path: Path) -> Module:
        known = made.get(id(value))
        kind = _shadow_class(own_class(value))
        new = kind.__new__(kind)
        made.setdefault(id(value), new)
        fields = {k: v for k, v in vars(value).items() if k != SITE}
        vars(new).update(fields)
        vars(new)[_SHADOW] = _Info(recorder, path) if known is None else vars(known)[_SHADOW]
        for key, item in list(value.items()):
            dict.__setitem__(new, key, copied(item, (*path, key)))
        kept.extend([(vars(new), dict(vars(new))), (new, dict(new))])
        return new

    return Shadow(_module(module, ()), kept)


def path_of(shadow: Module) -> Path:
    """Return a shadow's path from the module that is traced."""
    info: _Info = vars(shadow)[_SHADOW]
    return info.path


def rotates(shadow: Module) -> bool:
    """Say whether a module's own code calls MLX's rotary embedding."""
    return bool(core_name(own_class(shadow).__call__))


def call_inside(shadow: Module, method: str, recorder: Recorder) -> Callable[..., object]:
    """Return a module's own method, for the shadow, with functions that take state replaced."""
    function = _patched(getattr(own_class(shadow), method), recorder)
    return lambda *args, **kwargs: function(shadow, *args, **kwargs)


def _looked_up(function: object) -> tuple[str, ...]:
    """Name the functions in question that a method looks up among its globals."""
    if not isinstance(function, FunctionType):
        return ()
    names = set(function.__code__.co_names) & _RECORDED
    found = sorted(name for name in names if name in function.__globals__)
    return (*found, *filter(None, [core_name(function)]))


def _patched(function: Callable[..., object], recorder: Recorder) -> Callable[..., object]:
    """Return a method whose globals hold the recorder's functions in the place of mlx-lm's."""
    replaced = _looked_up(function)
    if not replaced:
        return function
    assert isinstance(function, FunctionType)
    names = dict(function.__globals__)
    names |= {
        name: CoreWithRope(recorder.rope) if names[name] is mx else recorder.function(names[name])
        for name in replaced
    }
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


@cache
def _shadow_class(kind: type[Module]) -> type[Module]:
    def call(self: Module, *args: object, **kwargs: object) -> object:
        info: _Info = vars(self)[_SHADOW]
        return info.recorder.child(self, args, kwargs)

    def other(function: Callable[..., object]) -> Callable[..., object]:
        def method(self: Module, *args: object, **kwargs: object) -> object:
            info: _Info = vars(self)[_SHADOW]
            return _patched(function, info.recorder)(self, *args, **kwargs)

        return method

    methods = {name: getattr(kind, name) for name in dir(kind) if name != "__call__"}
    body: dict[str, object] = {n: other(f) for n, f in methods.items() if _looked_up(f)}
    body |= {"__call__": call, "__module__": kind.__module__}
    return heir(kind, body)


def _copy(value: object) -> object:
    return dict(value) if isinstance(value, dict) else list(cast("list[object]", value))


def _same(holder: object, copy: object) -> bool:
    if isinstance(holder, dict):
        assert isinstance(copy, dict)
        return len(holder) == len(copy) and all(
            key in copy and copy[key] is value for key, value in holder.items()
        )
    now, then = cast("list[object]", holder), cast("list[object]", copy)
    return len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True))
