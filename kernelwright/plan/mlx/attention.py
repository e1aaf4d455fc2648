"""Which attentions MLX has a kernel of its own for, and what it moves where it has none."""

from kernelwright.ir.ops import Call

_FEW_QUERIES = 8
"""Queries up to which MLX walks along keys with vectors, beyond which with tiles."""
# mlx 0.32.4, mlx/backend/metal/scaled_dot_product_attention.cpp: use_fallback().
_HEADS_OF_VECTORS = frozenset({64, 96, 128, 256})
_HEADS_OF_TILES = frozenset({64, 80, 128})
_MOST_VECTORS = 32
"""Queries that share a key head up to which MLX's vector kernel takes them."""
WIDEST_HEAD = 256
"""Features of a head up to which a tile of queries stays on chip."""
_WORTH = 2
"""How many times the keys in sight there have to be before skipping the others pays."""


def has_mlx_kernel(call: Call) -> bool:
    """Say whether `mx.fast.scaled_dot_product_attention` computes an attention in one kernel.

    It has no soft cap, and beside a mask it knows no positions: a window is a mask that it reads.
    """
    query, key, value = (t.shape for t in call.inputs[:3])
    if call.number("soft_cap") or query[3] != value[3]:
        return False
    if query[2] > _FEW_QUERIES:
        return query[3] in _HEADS_OF_TILES
    shared = query[2] * query[1] // key[1]
    return query[3] in _HEADS_OF_VECTORS and shared <= _MOST_VECTORS and query[2] <= key[2]


def is_worth_tiling(call: Call, *, makes_bias: bool = False) -> bool:
    """Say whether tiles of many queries win against what MLX does.

    Its own kernel is as good a walk along all keys. Where it has none it writes the scores to
    memory, where few keys are in sight it multiplies all the others in vain, and a bias a head
    that is made for it is written and read as scores would be.
    """
    query, key, value = (t.shape for t in call.inputs[:3])
    if max(query[3], value[3]) > WIDEST_HEAD:
        return False
    window = call.integer("window")
    is_short = bool(window and key[2] >= _WORTH * window)
    return not has_mlx_kernel(call) or is_short or makes_bias


def unseen_flops(call: Call) -> int:
    """Count the arithmetic that MLX spends on keys out of their query's sight.

    Its kernel skips what comes after a query; without one nothing is skipped.
    """
    query, key, value = (t.shape for t in call.inputs[:3])
    is_causal, window = call.flag("is_causal"), call.integer("window")
    whole = query[2] * key[2]
    seen = whole
    if is_causal:
        seen -= query[2] * (query[2] - 1) // 2
    if window:
        seen = min(seen, query[2] * window * (1 if is_causal else 2))
    multiplied = seen if has_mlx_kernel(call) and not window else whole
    return 2 * query[0] * query[1] * (query[3] + value[3]) * (multiplied - seen)


def steps_apart(call: Call) -> tuple[int, int, int]:
    """Return bytes read, bytes written and launches that an attention without a kernel adds.

    The scores are written by one product and read by another, and each step between them, a
    softmax, a cap, a mask, reads them and writes them again.
    """
    if has_mlx_kernel(call):
        return 0, 0, 0
    query, key = call.inputs[0], call.inputs[1].shape
    scores = query.size // query.shape[3] * key[2] * query.dtype.itemsize
    masks = len(call.inputs) - 3 - call.flag("has_sinks")
    hides = call.flag("is_causal") or bool(call.integer("window"))
    steps = 1 + bool(call.number("soft_cap")) + masks + hides
    return scores * (steps + 1), scores * (steps + 1), steps + 1
