"""One function of a user's file at one choice of example inputs, as arrays."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.annotation import Example
from kernelwright.campaign.spec.input_nest import replaced, values_in
from kernelwright.campaign.spec.input_text import is_type, read_type, written
from kernelwright.campaign.spec.target_module import package_of
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype

Function = Callable[..., object]


@dataclass(frozen=True)
class Subject:
    """One function of a user's file at one choice of example inputs."""

    name: str
    function: Function
    inputs: tuple[object, ...]
    keywords: Mapping[str, object]
    file: str
    written: tuple[str, ...] = ()
    """The inputs as somebody typed them, or may type them; empty where they have no text."""

    @property
    def place(self) -> str:
        """Where it is, as on the command line."""
        return f"{self.file}:{self.name}"

    @property
    def origin(self) -> str:
        """Where it is, wherever one stands."""
        path = Path(self.file)
        return f"{path.absolute() if path.is_file() else path}:{self.name}"

    @property
    def origins(self) -> tuple[str, ...]:
        """Its origin, then that by its module or file, where a package makes it both."""
        path = Path(self.file)
        module = sys.modules.get(self.file)
        package = package_of(path.absolute()) if path.is_file() else None
        other = package.module if package else getattr(module, "__file__", None)
        return (self.origin, *([f"{other}:{self.name}"] if other else []))


@dataclass(frozen=True)
class NamedFunction:
    """Something that can be called, and the name by which it was found."""

    name: str
    function: Function
    module: str = ""
    """Whose classes the records among its inputs are."""


def subject_at(named: NamedFunction, path: Path, call: Example) -> Subject:
    """Return a function of a file at the inputs of an example."""
    subject = Subject(
        name=named.name,
        function=named.function,
        inputs=tuple(map(_array, call.inputs)),
        keywords={name: _array(value) for name, value in call.keywords},
        file=str(path),
    )
    return replace(subject, written=written(call))


def subject_of(name: str, function: Function, file: str, call: Example) -> Subject:
    """Return a function that is at hand, as one that was read from a file."""
    return subject_at(NamedFunction(name, function), Path(file), call)


def _array_of_type(leaf: object) -> object:
    return _array(leaf) if is_type(leaf) else leaf


def _array(value: object) -> object:
    """Make an array of a type; its values do not matter, only its shape and dtype are used."""
    if isinstance(value, str):
        value = read_type(value)
    if type(value) is tuple:
        return tuple(map(_array, value))
    if type(value) is list:
        return list(map(_array, value))
    if type(value) is dict:
        return {key: _array(item) for key, item in value.items()}
    if not isinstance(value, TensorType):
        # A record keeps what it is; one with types, such as of a text, gets its arrays.
        is_typed = any(map(is_type, values_in(value)))
        return replaced(value, _array_of_type) if is_typed else value
    import mlx.core as mx

    dtype = getattr(mx, "bool_" if value.dtype is Dtype.BOOL else value.dtype.value)
    with mx.stream(mx.cpu):
        return mx.zeros(value.shape, dtype)
