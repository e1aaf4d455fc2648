"""Prints the types of an exported package, for type checkers and editors."""

import inspect
from collections.abc import Callable

from kernelwright.runtime.export.function.arguments_code import imported_name
from kernelwright.runtime.export.function.module_code import FunctionModule
from kernelwright.runtime.export.function.result_nest import is_one_array

_FUNCTION = '''\
"""Types of {name}: it takes what the original takes."""

from typing import Any

import mlx.core as mx

class _Exported:
    @staticmethod
    def __call__({parameters}) -> {result}: ...
    @staticmethod
    def reference({parameters}) -> {result}:
        """Compute the same with MLX alone."""
    @staticmethod
    def serves({parameters}) -> bool:
        """Say whether kernels serve such a call where there is a GPU that runs Metal."""

{name}: _Exported
'''
_OBJECT = '''\
"""Types of {name}: it is an object as in the original."""

from typing import Any

{name}: Any
'''


def stub_text(module: FunctionModule, function: Callable[..., object]) -> str:
    """Return the stub file of a package: parameters by name, the result where it is one array."""
    name = imported_name(module.source)
    if module.source.attributes:
        return _OBJECT.format(name=name)
    is_array = all(is_one_array(variant.traced.result) for variant in module.variants)
    return _FUNCTION.format(
        name=name, parameters=_parameters(function), result="mx.array" if is_array else "Any"
    )


def _parameters(function: Callable[..., object]) -> str:
    parameters = [
        p.replace(
            annotation="Any", default=p.default if p.default is inspect.Parameter.empty else ...
        )
        for p in inspect.signature(function).parameters.values()
    ]
    text = str(inspect.Signature(parameters)).removeprefix("(").removesuffix(")")
    return text.replace("'Any'", "Any").replace("Ellipsis", "...")
