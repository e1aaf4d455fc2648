"""A module that is watched, and answered by kernels where there are some."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol, cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.runtime.models.heir import heir, set_class
from kernelwright.runtime.models.nest import Key, call_key, is_fixed
from kernelwright.runtime.models.recurrent import snapshot
from kernelwright.runtime.models.rotary import StaleError
from kernelwright.runtime.models.straight_line import Run
from kernelwright.runtime.models.tree import SITE, own_class
from kernelwright.runtime.models.unpacked import PackedInputs, Unpacking, unpacking_call

METHODS = ("__call__", "as_linear")
"""What models call of a module: itself, and an embedding as the last projection."""
MOST_ROUTES = 64
_MOST_VALUES = 8
"""Of an attribute, for which a module is looked at again; more means that it always changes."""
_CHANGING = ("clear", "pop", "popitem", "setdefault", "__ior__")
"""What changes a module as the dict that it is; its `update` sets each parameter."""


class Owner(Protocol):
    """What a site belongs to: a model with kernels installed."""

    epoch: int
    """Grows whenever something of the model's structure changes."""
    calls: int
    """Of the whole model."""

    @property
    def unpacking(self) -> Unpacking | None:
        """What quantized layers ask in prefill; None where they run as they are."""

    def enter(
        self, module: Module, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Answer a call of the whole model."""

    def is_current(self) -> bool:
        """Say whether what routes were made for is what it was."""

    def is_plain(self) -> bool:
        """Say whether this thread is in a call of the model in which no part runs kernels."""

    def is_looking(self) -> bool:
        """Say whether this thread is looking at a call of the model."""

    def saw(self, call: "SeenCall") -> None:
        """Hear of a call that was answered by the module itself."""


@dataclass(frozen=True)
class SeenCall:
    """One call of a module, with its real arguments, states as before it, and its result."""

    module: Module
    method: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    result: object


@dataclass
class Site:
    """The routes of one module, at most so many; the least recently used is forgotten."""

    owner: Owner
    is_root: bool = False
    routes: OrderedDict[tuple[str, Key], Run] = field(default_factory=OrderedDict)
    epoch: int = -1
    passed: frozenset[object] | None = None
    """Arguments, by place or name, whose arrays are handed on alone: their shapes do not count."""
    watchers: tuple["weakref.ref[Owner]", ...] = ()
    """Other models that hold the module, too, and were there before."""
    packed_inputs: PackedInputs = field(default_factory=PackedInputs)
    """What a quantized layer need not ask about again."""
    varying: set[str] = field(default_factory=set)
    """Attributes that had too many values: the module runs its own code, whatever they hold."""
    _values: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many values an attribute had at calls of the model, and the last such call."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def after(self, other: "Site | None") -> "Site":
        """Return this site in the place of another, whose owner goes on hearing of changes."""
        if other is not None:
            self.watchers = (*other.watchers, weakref.ref(other.owner))
        return self

    def is_watched_by(self, owner: Owner) -> bool:
        """Say whether an owner hears of changes of the module."""
        return self.owner is owner or any(watcher() is owner for watcher in self.watchers)

    def touch(self) -> None:
        """Tell all who hold the module that it may compute something else by now."""
        self.owner.epoch += 1
        for watcher in self.watchers:
            owner = watcher()
            if owner is not None:
                owner.epoch += 1

    def changed(self, name: str) -> None:
        """Tell them that an attribute is another one, unless it is another one at every call."""
        if name in self.varying:
            return
        count, last = self._values.get(name, (0, -1))
        if last != self.owner.calls:
            self._values[name] = (count + 1, self.owner.calls)
        if count >= _MOST_VALUES:
            self.varying.add(name)
        self.touch()

    def add(self, call: SeenCall, passed: frozenset[object], run: Run) -> None:
        """Answer calls like one from now on; it hands on the arrays of the arguments `passed`."""
        with self._lock:
            self._renew()
            if self.passed is None:
                self.passed = passed
            elif self.passed != passed:
                self.routes.clear()
                self.passed &= passed
            self._keep((call.method, call_key(call.args, call.kwargs, self.passed)), run)

    def put(self, name: tuple[str, Key], run: Run) -> None:
        """Answer calls of a method and a key from now on."""
        with self._lock:
            self._renew()
            self.passed = self.passed or frozenset()
            self._keep(name, run)

    def _renew(self) -> None:
        """Forget routes of another structure."""
        if self.epoch != self.owner.epoch:
            self.routes.clear()
            self.epoch, self.passed = self.owner.epoch, None

    def _keep(self, name: tuple[str, Key], run: Run) -> None:
        self.routes[name] = run
        while len(self.routes) > MOST_ROUTES:
            self.routes.popitem(last=False)

    def find(
        self, method: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Run | None:
        """Return the answer for a call, if there is one of today's structure."""
        if self.epoch != self.owner.epoch or not self.routes:
            return None
        return self.routes.get((method, call_key(args, kwargs, self.passed)))

    def clear(self) -> None:
        """Forget every route."""
        with self._lock:
            self.routes.clear()


def own_method(module: Module, method: str) -> Callable[..., object]:
    """Return a method as the module's own class has it."""
    return cast("Callable[..., object]", getattr(own_class(module), method))


def _installed_method(module: Module, method: str) -> Callable[..., object]:
    """Return what a module runs that no route answers."""
    return cast("Callable[..., object]", getattr(_watched_class(own_class(module)), method))


def site_of(module: Module) -> Site | None:
    """Return what is installed in a module."""
    return vars(module).get(SITE)


def install(module: Module, site: Site, *, is_active: bool) -> None:
    """Give a module a class of ours that is a subclass of its own."""
    vars(module)[SITE] = site
    activate(module, is_active=is_active)


def activate(module: Module, *, is_active: bool) -> None:
    """Let a module's calls come to its site, or go straight to its own code."""
    kind = own_class(module)
    wanted = _active_class(kind) if is_active else _watched_class(kind)
    if type(module) is not wanted:
        set_class(module, wanted)


def uninstall(module: Module) -> None:
    """Give a module its own class back."""
    vars(module).pop(SITE, None)
    kind = own_class(module)
    if type(module) is not kind:
        set_class(module, kind)


def _touched(module: Module, name: object = None) -> None:
    site = site_of(module)
    if site is not None and isinstance(name, str):
        site.changed(name)
    elif site is not None:
        site.touch()


@cache
def _watched_class(kind: type[Module]) -> type[Module]:
    """Return a subclass that notices when what it computes may have changed."""

    def __setitem__(self: Module, key: object, value: object) -> None:  # noqa: N807
        before = self.get(key)
        dict.__setitem__(self, key, value)
        if not _is_same_type(before, value):
            _touched(self, key)

    def __setattr__(self: Module, name: str, value: object) -> None:  # noqa: N807
        before = vars(self).get(name, self)
        kind.__setattr__(self, name, value)
        if not isinstance(value, mx.array) and not _is_same_value(before, value):
            _touched(self, name)

    def __delitem__(self: Module, key: object) -> None:  # noqa: N807
        dict.__delitem__(self, key)
        _touched(self)

    def changing(name: str) -> Callable[..., object]:
        def change(self: Module, *args: object, **kwargs: object) -> object:
            # Setting an attribute takes away a parameter of its name; mostly there is none.
            if name != "pop" or not args or args[0] in self:
                _touched(self)
            return getattr(kind, name)(self, *args, **kwargs)

        return change

    def __reduce_ex__(self: Module, protocol: int) -> object:  # noqa: N807
        return _as_own_class(dict.__reduce_ex__(self, protocol), kind)

    body = {name: changing(name) for name in _CHANGING} | {
        "__setitem__": __setitem__,
        "__setattr__": __setattr__,
        "__delitem__": __delitem__,
        "__reduce_ex__": __reduce_ex__,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    unpacking = unpacking_call(kind)
    if unpacking is not None:
        body["__call__"] = unpacking
    return heir(kind, body)


def _as_own_class(reduced: object, kind: type[Module]) -> tuple[object, ...]:
    """Let copies and pickles be of the module's own class, without a site."""
    assert isinstance(reduced, tuple)
    _, _, state, *rest = reduced
    if isinstance(state, dict):
        state = {key: value for key, value in state.items() if key != SITE}
    return (_new, (kind,), state, *rest)


def _new(kind: type[Module]) -> Module:
    made: Module = kind.__new__(kind)
    return made


@cache
def _active_class(kind: type[Module]) -> type[Module]:
    """Return a subclass whose calls come to the site."""
    watched = _watched_class(kind)
    body = dict(vars(watched))
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    for method in METHODS:
        if hasattr(kind, method):
            body[method] = _method(method, kind)
    return heir(kind, body)


def _method(method: str, kind: type[Module]) -> Callable[..., object]:
    def call(self: Module, *args: object, **kwargs: object) -> object:
        site: Site | None = vars(self).get(SITE)
        if site is None:
            return getattr(kind, method)(self, *args, **kwargs)
        if site.is_root and method == "__call__":
            return site.owner.enter(self, args, kwargs)
        return answer(self, site, method, args, kwargs)

    call.__name__ = method
    return call


def answer(
    module: Module,
    site: Site,
    method: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> object:
    """Answer a call by its route, or by the module itself."""
    if site.owner.is_plain():
        return _installed_method(module, method)(module, *args, **kwargs)
    run = site.find(method, args, kwargs)
    if run is not None and site.owner.is_current():
        try:
            return run(args, kwargs)
        except StaleError:
            site.owner.epoch += 1
    if not site.owner.is_looking():
        return _installed_method(module, method)(module, *args, **kwargs)
    before, named = snapshot(args, kwargs)
    made = _installed_method(module, method)(module, *args, **kwargs)
    site.owner.saw(SeenCall(module, method, before, named, made))
    return made


def _is_same_value(before: object, value: object) -> bool:
    return before is value or (type(before) is type(value) and is_fixed(value) and before == value)


def _is_same_type(before: object, value: object) -> bool:
    if not isinstance(before, mx.array) or not isinstance(value, mx.array):
        return False
    return bool(before.shape == value.shape and before.dtype == value.dtype)
