"""A function with copies of everything that it keeps, so that tracing touches nothing live."""

import copy
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import cast

import mlx.core as mx

from kernelwright.annotation import original_of
from kernelwright.runtime.code_names import _has, _is_module
from kernelwright.runtime.state import global_names, is_the_users

Function = Callable[..., object]


def replica_of(function: Function) -> Function:
    """Copy a function and what it reaches by its variables, names and parameters.

    Arrays are shared, for nobody writes into them; what holds them is not.
    """
    return cast("Function", _Copying().of(function))


class _Copying:
    def __init__(self) -> None:
        self._made: dict[int, object] = {}
        self._kept: list[object] = []
        self._spaces: dict[int, dict[str, object]] = {}

    def of(self, value: object) -> object:
        if callable(value):
            value = original_of(value)
        if id(value) in self._made:
            return self._made[id(value)]
        # An id is an object's own only while it lives.
        self._kept.append(value)
        if isinstance(value, mx.array):
            return value
        if isinstance(value, MethodType):
            return self._note(
                value,
                MethodType(cast("Function", self.of(value.__func__)), self.of(value.__self__)),
            )
        if isinstance(value, FunctionType):
            # What mx.vmap and its like return passes for the function that it was given.
            is_python = issubclass(type(value), FunctionType)
            return self._function(value) if is_python and is_the_users(value) else value
        if isinstance(value, partial):
            func = cast("Function", self.of(value.func))
            made = partial(func, *self._all(value.args), **self._named(value.keywords))
            return self._note(value, made)
        if type(value) is tuple:
            return self._note(value, tuple(self._all(value)))
        if type(value) is list:
            made_list: list[object] = []
            self._note(value, made_list)
            made_list.extend(self._all(value))
            return made_list
        if type(value) is dict:
            made_dict: dict[object, object] = {}
            self._note(value, made_dict)
            made_dict.update((k, self.of(v)) for k, v in value.items())
            return made_dict
        if _is_module(value) or (is_the_users(type(value)) and _has(value, "__dict__")):
            return self._object(value)
        return value

    def _note(self, value: object, made: object) -> object:
        self._made[id(value)] = made
        return made

    def _all(self, values: "tuple[object, ...] | list[object]") -> list[object]:
        return [self.of(value) for value in values]

    def _named(self, values: dict[str, object]) -> dict[str, object]:
        return {name: self.of(value) for name, value in values.items()}

    def _object(self, value: object) -> object:
        if isinstance(value, type):
            return value
        made = copy.copy(value)
        self._note(value, made)
        vars(made).update(self._named(vars(value)))
        if isinstance(value, dict) and isinstance(made, dict):
            for key, item in value.items():
                dict.__setitem__(made, key, self.of(item))
        return made

    def _function(self, value: FunctionType) -> object:
        space = self._spaces.get(id(value.__globals__))
        if space is None:
            space = self._spaces[id(value.__globals__)] = dict(value.__globals__)
        cells = tuple(CellType() for _ in value.__closure__ or ())
        made = FunctionType(value.__code__, space, value.__name__, value.__defaults__, cells)
        self._note(value, made)
        made.__kwdefaults__ = value.__kwdefaults__
        made.__qualname__, made.__module__ = value.__qualname__, value.__module__
        if value.__defaults__:
            made.__defaults__ = tuple(self._all(value.__defaults__))
        for old, new in zip(value.__closure__ or (), cells, strict=True):
            try:
                new.cell_contents = self.of(old.cell_contents)
            except ValueError:
                # A variable that is not bound yet.
                continue
        for name in global_names(value.__code__):
            if name in value.__globals__:
                space[name] = self.of(value.__globals__[name])
        return made
