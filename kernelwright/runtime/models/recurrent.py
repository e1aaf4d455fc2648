"""Caches that keep arrays by number, such as the states of Mamba and of gated deltas."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from kernelwright.runtime.models.nest import map_leaves


@dataclass(frozen=True)
class KeptArrays:
    """What such a cache holds: types of arrays, and whether its sequences differ in length."""

    items: tuple[tuple[tuple[int, ...], mx.Dtype] | None, ...]
    is_plain: bool
    """No lengths and no padding: nothing is counted."""


@cache
def kind() -> type:
    """Return mlx-lm's class of such caches."""
    from mlx_lm.models.cache import ArraysCache

    return ArraysCache


def kept_arrays(value: object) -> KeptArrays | None:
    """Describe a cache of exactly that class; None for anything else."""
    if type(value).__name__ != "ArraysCache" or type(value) is not kind():
        return None
    items = tuple(
        None if item is None else (tuple(item.shape), item.dtype)
        for item in value.cache  # type: ignore[attr-defined]
    )
    is_plain = value.lengths is None and value.left_padding is None  # type: ignore[attr-defined]
    return KeptArrays(items, is_plain)


def snapshot(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return a call's arguments with such caches as they are now; the call will change them."""

    def kept(leaf: object) -> object:
        if kept_arrays(leaf) is None:
            return leaf
        copied: object = object.__new__(kind())
        vars(copied).update(vars(leaf))
        vars(copied)["cache"] = list(leaf.cache)  # type: ignore[attr-defined]
        return copied

    return map_leaves((args, dict(kwargs)), kept)  # type: ignore[return-value]
