"""The ways to call a model: a prompt, a batch of two, and a decode step behind a cached prompt."""

from collections.abc import Callable

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

Step = Callable[..., mx.array]


def steps(model: object) -> list[tuple[str, Step, list[mx.array]]]:
    """Return the ways to call a model: a prompt, a batch of two, and a cached decode step."""
    call: Step = model  # type: ignore[assignment]
    prompt = mx.array([[5, 17, 42, 3, 9, 1]])

    def decode(tokens: mx.array, following: mx.array) -> mx.array:
        cache = make_prompt_cache(model)
        call(tokens, cache=cache)
        return call(following, cache=cache)

    return [
        ("prompt", call, [prompt]),
        ("batch", call, [mx.concatenate([prompt, prompt[:, ::-1]])]),
        ("decode", decode, [prompt, mx.array([[7]])]),
    ]
