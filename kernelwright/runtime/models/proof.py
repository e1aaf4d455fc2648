"""Whether a model with kernels says the same: greedy tokens, and the margins where they part."""

from collections.abc import Callable

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.models.accuracy import Exact, float32_once
from kernelwright.runtime.models.toggle import without_kernels


class Divergence(Record):
    """The first token of a prompt that differs, and how sure the model was of it."""

    prompt: int
    place: int
    untouched: int
    tuned: int
    untouched_margin: float
    """Between the two best logits of the untouched model."""
    tuned_margin: float
    rounding: float
    """How far the untouched model's own logits are from those of the same model in float32, and
    from its own when the same tokens come as one prompt: the larger of both."""

    @property
    def is_excused(self) -> bool:
        """Say whether the untouched model's own rounding could have chosen either token.

        Each of the two logits may be off by as much, in opposite directions.
        """
        return self.untouched_margin <= 2 * self.rounding


class Sameness(Record):
    """Greedy tokens with and without kernels."""

    prompts: int
    tokens: int
    identical: int
    """Prompts whose tokens are all the same."""
    same_bits: bool
    """Every logit of every step before a divergence was equal, bit for bit."""
    largest_difference: float
    """Of a logit, before the first divergence."""
    divergences: tuple[Divergence, ...] = ()

    @property
    def holds(self) -> bool:
        """Say whether tokens are identical wherever the untouched model is sure."""
        return all(divergence.is_excused for divergence in self.divergences)


def compare_tokens(
    model: Module,
    *,
    prompts: int = 16,
    tokens: int = 256,
    length: int = 32,
    seed: int = 0,
    exact_of: Exact | None = None,
) -> Sameness:
    """Decode greedily with and without kernels from random prompts, and compare."""
    divergences: list[Divergence] = []
    largest, bits, identical = 0.0, True, 0
    exact = exact_of or float32_once(model)
    for number in range(prompts):
        key = mx.random.key(seed + number)
        ids = mx.random.randint(0, 1000, (1, length), key=key).astype(mx.uint32)
        with without_kernels(model):
            expected, sure = _decode(model, ids, tokens)
        found, other = _decode(model, ids, tokens)
        differ = [i for i in range(tokens) if expected[i] != found[i]]
        until = differ[0] + 1 if differ else tokens
        distance = mx.abs(sure[:until] - other[:until]).max().item()
        largest = max(largest, float(str(distance)))
        bits &= bool(mx.array_equal(sure[:until], other[:until], equal_nan=True))
        identical += not differ
        if differ:
            place = differ[0]
            with without_kernels(model):
                rounding = max(
                    _rounding(measure, ids, expected, sure, place)
                    for measure in (model, exact())
                    if measure is not None
                )
            divergences.append(
                Divergence(
                    prompt=number,
                    place=place,
                    untouched=expected[place],
                    tuned=found[place],
                    untouched_margin=_margin(sure[place]),
                    tuned_margin=_margin(other[place]),
                    rounding=rounding,
                )
            )
    return Sameness(
        prompts=prompts,
        tokens=tokens,
        identical=identical,
        same_bits=bits,
        largest_difference=largest,
        divergences=tuple(divergences),
    )


def _decode(
    model: Callable[..., mx.array], ids: mx.array, count: int
) -> tuple[list[int], mx.array]:
    """Return greedy tokens, and the logits of each step in float32."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    chosen: list[mx.array] = []
    logits: list[mx.array] = []
    token = ids
    for _ in range(count):
        last = model(token, cache=cache)[0, -1].astype(mx.float32)
        token = mx.argmax(last).reshape(1, 1)
        mx.async_eval(token, last)  # type: ignore[no-untyped-call]
        chosen.append(token)
        logits.append(last)
    tokens = mx.concatenate(chosen, axis=1)[0].tolist()
    return [int(t) for t in tokens], mx.stack(logits)  # type: ignore[arg-type,union-attr]


def _margin(logits: mx.array) -> float:
    best = mx.sort(logits)[-2:]
    return float(str((best[1] - best[0]).item()))


def _rounding(
    model: Callable[..., mx.array],
    ids: mx.array,
    tokens: list[int],
    logits: mx.array,
    place: int,
) -> float:
    """Return how far logits are from those that a model gives for the same tokens at once."""
    from mlx_lm.models.cache import make_prompt_cache

    given = mx.array([tokens[:place]], dtype=ids.dtype) if place else ids[:, :0]
    whole = mx.concatenate([ids, given], axis=1)
    last = model(whole, cache=make_prompt_cache(model))[0, -1].astype(mx.float32)
    return float(str(mx.abs(last - logits[place]).max().item()))
