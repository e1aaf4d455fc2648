"""How far a model's logits are from those of the same model in float32, with kernels and without.

A step may run as one function, so that no layer can be looked at alone; logits hold what all layers
have lost. Every arm is given the same tokens, one by one through its caches.
"""

import copy
import functools
from collections.abc import Callable, Iterator

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.models.toggle import without_kernels

_MOST_COPIED_BYTES = 40e9
"""Of parameters in float32, beside the model itself."""
_LEAST_LARGER = 1.1
"""An error counts as larger from here on: with other roundings it would be another one."""


class Accuracy(Record):
    """Errors of logits against a float32 model, relative to the size of its logits (L2)."""

    tokens: int
    untouched: float
    tuned: float

    @property
    def holds(self) -> bool:
        """Say whether kernels lose no more than the untouched model does."""
        return self.tuned <= _LEAST_LARGER * self.untouched


Exact = Callable[[], Module | None]
"""Returns a model's copy in float32, or None; it is made once, when it is first asked for."""


def compare_accuracy(
    model: Module,
    *,
    prompts: int = 4,
    tokens: int = 32,
    length: int = 32,
    seed: int = 0,
    exact_of: Exact | None = None,
) -> Accuracy | None:
    """Compare logits with a float32 model's, over random prompts and the tokens that follow.

    Returns:
        None where the model computes in float32 already, or its float32 copy takes over 40 GB.
    """
    exact = (exact_of or float32_once(model))()
    if exact is None:
        return None
    off = {"untouched": 0.0, "tuned": 0.0}
    size = 0.0
    for number in range(prompts):
        key = mx.random.key(seed + number)
        ids = mx.random.randint(0, 1000, (1, length + tokens), key=key).astype(mx.uint32)
        right = exact(ids)[0, length - 1 :].astype(mx.float32)
        size += _energy(right)
        with without_kernels(model):
            off["untouched"] += _energy(_stepwise(model, ids, length) - right)
        off["tuned"] += _energy(_stepwise(model, ids, length) - right)
    errors = {arm: (energy / size) ** 0.5 for arm, energy in off.items()}
    return Accuracy(tokens=prompts * (tokens + 1), **errors)


def float32_once(model: Module) -> Exact:
    """Return what copies a model in float32 at its first call, for all who ask."""
    return functools.cache(functools.partial(_in_float32, model))


def _in_float32(model: Module) -> Module | None:
    """Return a copy that computes in float32; None where the model does, or it takes over 40 GB."""
    leaves = _leaves(model.parameters())  # type: ignore[no-untyped-call]
    arrays = [a for a in leaves if isinstance(a, mx.array) and mx.issubdtype(a.dtype, mx.floating)]
    if 4 * sum(a.size for a in arrays) > _MOST_COPIED_BYTES:
        return None
    if all(a.dtype == mx.float32 for a in arrays):
        return None
    with without_kernels(model):
        exact = copy.deepcopy(model)
    exact.set_dtype(mx.float32)
    return exact


def _leaves(tree: object) -> Iterator[object]:
    """Yield what a nest of dicts and lists holds."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _leaves(branch)
    else:
        yield tree


def _stepwise(model: Module, ids: mx.array, length: int) -> mx.array:
    """Return the logits behind a prompt and behind each token after it."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    logits = [model(ids[:, :length], cache=cache)[0, -1:]]
    for place in range(length, ids.shape[1]):
        logits.append(model(ids[:, place : place + 1], cache=cache)[0, -1:])
        mx.eval(logits[-1])
    return mx.concatenate(logits).astype(mx.float32)


def _energy(array: mx.array) -> float:
    return float(str(mx.sum(mx.square(array)).item()))
