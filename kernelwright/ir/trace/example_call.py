"""A call of a function, seen as a function of a flat list of arrays."""

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import cast

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.ir.graph.nest import Tree, nest_of
from kernelwright.ir.trace.arguments import Leaf, leaves, rebuild
from kernelwright.ir.trace.array import is_array, to_mlx
from kernelwright.ir.trace.refusal import check_returns_results

Function = Callable[..., object]
_PLAIN = (bool, int, float, complex, str, bytes, enum.Enum, mx.Dtype)


@dataclass(frozen=True)
class ExampleCall:
    """A call of the function, seen as a function of a flat list of arrays."""

    fn: Function
    positional: tuple[object, ...]
    named: Mapping[str, object]
    arrays: list[mx.array]
    names: tuple[str, ...]
    keywords: tuple[str, ...]
    shows_arguments: bool = False
    """True where the arrays are returned as well, as the function leaves them."""
    is_apart: bool = False
    """True where each result is a view of its own.

    MLX's exporter (0.32.4) names a result that it never reports where it merges what is behind
    `mx.stop_gradient` with another result, as in `(-x, mx.stop_gradient(-x))`.
    """
    nests: list[Tree] = field(default_factory=list)
    """What each call returned."""

    @classmethod
    def of(
        cls,
        fn: Function,
        arrays: tuple[object, ...],
        keyword_arrays: Mapping[str, object],
        *,
        shows_arguments: bool = False,
    ) -> "ExampleCall":
        """Look at a call; arrays are MLX's or NumPy's.

        Raises:
            InputError: it is no function, cannot be called so, or yields its results.
        """
        if not callable(fn):
            raise InputError(f"expected a function of MLX arrays, found {fn!r}.")
        check_returns_results(fn, name_of(fn))
        parameters = _parameter_names(fn, arrays, keyword_arrays)
        found = input_leaves(arrays, keyword_arrays)
        count = sum(len(leaves(tree, "", is_array)) for tree in arrays)
        names = [
            leaf.path
            for name, tree in zip(parameters, arrays, strict=True)
            for leaf in leaves(tree, name, is_array)
        ]
        keywords = tuple(leaf.path for leaf in found[count:])
        return cls(
            fn,
            arrays,
            {name: keyword_arrays[name] for name in sorted(keyword_arrays)},
            [to_mlx(leaf.array) for leaf in found],
            (*names, *keywords),
            keywords,
            shows_arguments,
        )

    def call(self, *traced: mx.array) -> list[mx.array]:
        """Call the function with other arrays, and list those that it returns."""
        nest = rebuild((self.positional, self.named), traced, is_array)
        positional, named = cast("tuple[tuple[object, ...], dict[str, object]]", nest)
        result = self.fn(*positional, **named)
        found = result_arrays(result, name_of(self.fn))
        self.nests.append(nest_of(result, lambda value: isinstance(value, mx.array)))
        if self.is_apart:
            found = [mx.squeeze(mx.expand_dims(array, 0), 0) for array in found]
        if self.shows_arguments:
            return [*found, *traced]
        if not found:
            raise returns_nothing(self.fn)
        return found


def input_leaves(arrays: Sequence[object], keyword_arrays: Mapping[str, object]) -> list[Leaf]:
    """List the arrays of a call in the order of a graph's inputs."""
    positional = [leaf for i, tree in enumerate(arrays) for leaf in leaves(tree, f"x{i}", is_array)]
    named = [
        leaf
        for name in sorted(keyword_arrays)
        for leaf in leaves(keyword_arrays[name], name, is_array)
    ]
    return [*positional, *named]


def result_arrays(result: object, name: str) -> list[mx.array]:
    """List the arrays that a function called `name` returned, in the order of a graph's outputs.

    Raises:
        InputError: something else is among them.
    """
    if isinstance(result, mx.array):
        return [result]
    if isinstance(result, Mapping):
        return _flat_children(list(result.values()), name)
    if isinstance(result, list | tuple):
        return _flat_children(result, name)
    if result is None:
        return []
    if is_dataclass(result) and not isinstance(result, type):
        return _flat_children([getattr(result, f.name) for f in fields(result)], name)
    raise InputError(
        f"{name} returns {type(result).__name__} ({result!r:.40}), "
        f"expected MLX arrays or nests of them."
    )


def _flat_children(children: Sequence[object], name: str) -> list[mx.array]:
    # Beside arrays, plain values are part of the nest, as None is.
    arrays = [c for c in children if not isinstance(c, _PLAIN)]
    return [a for child in arrays for a in result_arrays(child, name)]


def returns_nothing(fn: Function) -> InputError:
    """Say of a function that no array comes out of it."""
    return InputError(
        f"{name_of(fn)} returns no arrays; return what it computes, or change an array in place "
        "that it is given."
    )


def _parameter_names(
    fn: Function, arrays: tuple[object, ...], keyword_arrays: Mapping[str, object]
) -> list[str]:
    numbered = [f"x{i}" for i in range(len(arrays))]
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        # A built-in of MLX has no signature that Python can read.
        return numbered
    try:
        signature.bind(*arrays, **keyword_arrays)
    except TypeError as e:
        raise InputError(
            f"{name_of(fn)}{signature} cannot be called with {len(arrays)} positional and "
            f"{len(keyword_arrays)} keyword inputs: {e}."
        ) from e
    positional = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return [*positional, *numbered[len(positional) :]][: len(arrays)]


def name_of(fn: Function) -> str:
    """Return what messages call a function, or an object that is called like one."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__
