"""Decode steps that nobody waits for: kernels are tried, compiled and weighed before the first."""

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.errors import InputError
from kernelwright.runtime.models.install import is_settled

_LEAST_STEPS, _MOST_STEPS = 8, 640
"""A kernel is looked up, tried, compiled and then timed in a few hundred steps at most."""


def warm_up(model: Module) -> None:
    """Decode with a language model's own caches until it is known which kernels stay.

    Raises:
        InputError: it is no language model of mlx-lm.
    """
    from mlx_lm.models.cache import make_prompt_cache

    try:
        cache = make_prompt_cache(model)
        tokens = mx.zeros((1, 1), dtype=mx.uint32)
        mx.eval(model(tokens, cache=cache))
    except Exception as e:
        raise InputError(
            f"expected a language model of mlx-lm with warm=True, found {type(model).__name__} "
            f"({type(e).__name__}: {e}); leave warm out, and call the model once yourself."
        ) from e
    for number in range(_MOST_STEPS):
        tokens = mx.argmax(model(tokens, cache=cache)[:, -1], axis=-1)[:, None]
        mx.eval(tokens)
        if number >= _LEAST_STEPS and is_settled(model):
            return
