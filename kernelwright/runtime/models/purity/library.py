"""What calls of Python's, NumPy's and MLX's own functions do besides computing."""

import builtins
import sys
from collections import defaultdict
from collections.abc import Mapping
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)

import numpy as np
from mlx.nn.layers.base import Module

from kernelwright.ir.trace.refusal import is_library_file
from kernelwright.runtime.effect import effect_of_builtin, effect_of_code
from kernelwright.runtime.unseen_call import effect_of_compiled

_READING_METHODS = frozenset(
    {"get", "items", "keys", "values", "copy", "index", "count", "union", "intersection"}
    | {"difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "fromkeys"}
    | {"most_common", "elements", "total", "__getitem__", "__contains__", "__len__", "__iter__"}
)
"""Methods of lists, dicts, sets and their like that change nothing."""
_BUILTINS = frozenset(
    {"abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr"}
    | {"classmethod", "complex", "dict", "divmod", "enumerate", "filter", "float", "format"}
    | {"frozenset", "getattr", "hasattr", "hash", "hex", "id", "int", "isinstance", "issubclass"}
    | {"iter", "len", "list", "map", "max", "memoryview", "min", "next", "object", "oct", "ord"}
    | {"pow", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted"}
    | {"staticmethod", "str", "sum", "super", "tuple", "type", "zip", "setattr", "delattr"}
    | {"aiter", "anext"}
)
_PURE_MODULES = frozenset(
    {"math", "cmath", "_operator", "operator", "functools", "_functools", "itertools", "typing"}
    | {"copy", "collections", "_collections", "dataclasses", "enum", "re", "_sre", "string"}
    | {"numbers", "fractions", "decimal", "_decimal", "types", "abc", "_abc", "statistics"}
    | {"contextlib", "struct", "_struct", "collections.abc", "_collections_abc", "builtins"}
)
_IN_PLACE = frozenset(
    {f"i{name}" for name in ("add", "and", "concat", "floordiv", "lshift", "matmul", "mod")}
    | {f"i{name}" for name in ("mul", "or", "pow", "rshift", "sub", "truediv", "xor")}
)
_CHANGING = _IN_PLACE | frozenset(
    {
        "setitem",
        "delitem",
        "methodcaller",
        "redirect_stdout",
        "redirect_stderr",
        "chdir",
        "register",
    }
)
_FILES_OF_NUMPY = frozenset(
    {"load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt", "memmap"}
    | {"fromfile", "tofile", "seterr", "set_printoptions"}
)
_CHANGING_METHODS_OF_NUMPY = frozenset(
    {"at", "byteswap", "fill", "itemset", "partition", "put", "resize", "setfield", "setflags"}
    | {"sort", "__setitem__", "__setstate__"}
    | {f"__{name}__" for name in _IN_PLACE}
)
_CHANGING_FUNCTIONS_OF_NUMPY = frozenset(
    {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
)
_LIBRARIES = ("mlx", "numpy", "kernelwright", "nanobind", "cython")
_CONTAINERS = ("builtins", "collections", "_collections", "types")
Function = FunctionType | BuiltinFunctionType | MethodType


def is_library(module: object) -> bool:
    """Say whether a module of that name is Python's, NumPy's, MLX's or ours.

    A user's file may have the name of one of Python's: where it lies tells them apart.
    """
    if not isinstance(module, str):
        return True
    root = module.partition(".")[0]
    if module == "__main__" or root not in sys.stdlib_module_names:
        return root in _LIBRARIES
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is None or is_library_file(file)


def effect_of(called: object, *, has_key: bool) -> str:
    """Say what a call of a library's function or class does besides computing; often nothing."""
    owner = getattr(called, "__self__", None)
    if type(called).__module__ == "nanobind" and getattr(called, "__module__", None) is None:
        # What mx.fast.metal_kernel returns has neither a module nor a name.
        return ""
    if said := effect_of_compiled(called):
        return "" if has_key and "without a key" in said else said
    if said := effect_of_builtin(called):
        return said
    function = getattr(called, "__func__", called)
    if isinstance(function, FunctionType) and (said := effect_of_code(function.__code__)):
        return said
    name = str(getattr(called, "__name__", type(called).__name__))
    if owner is not None and not isinstance(owner, type | type(sys)):
        return _method(owner, name)
    return _function(str(getattr(called, "__module__", "") or type(called).__module__), name)


def effect_of_operator(value: object) -> str:
    """Say what an operator on an object of a library's class does besides computing."""
    kind = type(value)
    is_inert = kind.__module__.partition(".")[0] in ("builtins", "mlx", "numpy", "kernelwright")
    if hasattr(kind, "__next__"):
        return "takes from an iterator that outlives the call"
    if isinstance(value, defaultdict):
        return "may add to a defaultdict that outlives the call"
    if is_inert or kind.__module__ in _PURE_MODULES or isinstance(value, list | dict | set | tuple):
        return ""
    if kind.__module__ == "nanobind" or not is_library(kind.__module__):
        return ""
    return f"reads what a {kind.__name__} holds, which may be another at each call"


def effect_of_arguments(
    called: object, args: tuple[tuple[object, ...], ...], named: Mapping[str, tuple[object, ...]]
) -> str:
    """Say what a call of a library's function changes of what it is given; often nothing."""
    given = [value for values in (*args, *named.values()) for value in values]
    if any(hasattr(type(value), "__next__") for value in given):
        return "takes from an iterator that outlives the call"
    root = str(getattr(called, "__module__", "") or type(called).__module__).partition(".")[0]
    name = str(getattr(called, "__name__", ""))
    if root == "numpy" or isinstance(getattr(called, "__self__", None), np.ndarray):
        outs = args[called.nin :] if isinstance(called, np.ufunc) else ()
        if named.get("out") or any(outs) or name in _CHANGING_FUNCTIONS_OF_NUMPY:
            return f"writes into an array of NumPy's ({name})"
    unbound = isinstance(called, MethodDescriptorType | WrapperDescriptorType)
    if unbound and args:
        return next(filter(None, (_method(v, name) for v in args[0])), "")
    return ""


def views(called: object, given: tuple[object, ...]) -> tuple[object, ...]:
    """Return the arrays of NumPy's that the result of a library's function may be a view of."""
    is_plain = getattr(called, "__module__", "") == "builtins" and called is not memoryview
    owner = getattr(called, "__self__", None)
    seen = () if is_plain else (*given, owner)
    return tuple(v for v in seen if isinstance(v, np.ndarray))


def _method(owner: object, name: str) -> str:
    kind = type(owner)
    module = kind.__module__
    if module.partition(".")[0] == "mlx" or isinstance(owner, Module):
        # What changes a module, a trace sees: it works on a copy.
        return ""
    if module == "random":
        return f"draws from Python's random numbers ({name})"
    if module.startswith("numpy.random"):
        return f"draws from NumPy's random numbers ({name})"
    if isinstance(owner, str | bytes | int | float | complex | tuple | frozenset | range):
        return ""
    if module in _CONTAINERS or isinstance(owner, list | dict | set):
        return "" if name in _READING_METHODS else f"changes a {kind.__name__} ({name})"
    if module == "numpy" and name in _CHANGING_METHODS_OF_NUMPY:
        return f"changes a {kind.__name__} ({name})"
    if module in _PURE_MODULES or module == "numpy":
        return ""
    return f"calls {name} of a {kind.__name__}, whose state may be another at each call"


def _function(module: str, name: str) -> str:
    root = module.partition(".")[0]
    if root == "mlx" or root == "kernelwright":
        return ""
    if root == "numpy":
        if module.startswith("numpy.random"):
            return f"draws from NumPy's random numbers ({name})"
        return f"uses a file or changes all of NumPy ({name})" if name in _FILES_OF_NUMPY else ""
    if module == "builtins":
        kind = getattr(builtins, name, None)
        is_error = isinstance(kind, type) and issubclass(kind, BaseException)
        is_pure = name in _BUILTINS or is_error or not hasattr(builtins, name)
        return "" if is_pure else f"looks at what may be another at each call ({name})"
    if name in _CHANGING or module not in _PURE_MODULES:
        return f"calls {module}.{name}, which may do or read anything"
    return ""
