"""Optimizer steps over trees of parameters, as training scripts write them by hand."""

# mypy: ignore-errors

import mlx.core as mx
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map, tree_unflatten

BETAS = (0.9, 0.95)
WEIGHT_DECAY = {"decay": 0.1, "no_decay": 0.0}


def adamw(params, grads, state, lr=1e-3, step=1):
    """One step of AdamW on dictionaries of arrays; vectors are not decayed."""
    b1, b2 = BETAS

    def one(p, g, m, v):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * mx.square(g)
        m_hat, v_hat = m / (1 - b1**step), v / (1 - b2**step)
        decay = WEIGHT_DECAY["decay" if p.ndim > 1 else "no_decay"]
        return p - lr * (m_hat / (mx.sqrt(v_hat) + 1e-8) + decay * p), m, v

    out = tree_map(one, params, grads, state["m"], state["v"])
    pick = lambda i: tree_map(lambda t: t[i], out, is_leaf=lambda t: isinstance(t, tuple))
    return pick(0), {"m": pick(1), "v": pick(2)}


def lion(params: list, grads: list, momenta: list, lr: float = 1e-4, wd: float = 1e-2):
    new_params, new_momenta = [], []
    for p, g, m in zip(params, grads, momenta):
        c = BETAS[0] * m + (1 - BETAS[0]) * g
        new_params.append(p * (1 - lr * wd) - lr * mx.sign(c))
        new_momenta.append(0.99 * m + (1 - 0.99) * g)
    return new_params, new_momenta


def clip_grads(grads, max_norm=1.0):
    norm_squared = sum(mx.square(g).sum() for _, g in tree_flatten(grads))
    total_norm = mx.sqrt(norm_squared)
    normalizer = mx.minimum(max_norm / (total_norm + 1e-6), 1.0)
    return tree_map(lambda g: g * normalizer, grads), total_norm


def ema(shadow, params, decay=0.999):
    flat = dict(tree_flatten(params))
    return tree_unflatten([(k, decay * v + (1 - decay) * flat[k]) for k, v in tree_flatten(shadow)])


def newton_schulz(G, steps: int = 3, eps=1e-7):
    """Muon's orthogonalisation."""
    assert len(G.shape) == 2
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G / (mx.linalg.norm(G) + eps)
    if transposed := G.shape[0] > G.shape[1]:
        X = X.T
    for _ in range(steps):
        A = X @ X.T
        B = b * A + c * A @ A
        X = a * X + B @ X
    return X.T if transposed else X


class Adafactorish:
    def __init__(self, lr=1e-2, eps=(1e-30, 1e-3), decay=0.8):
        self.lr, self.eps, self.decay = lr, eps, decay

    def update(self, p, g, row, col):
        square = mx.square(g) + self.eps[0]
        row = self.decay * row + (1 - self.decay) * square.mean(axis=-1)
        col = self.decay * col + (1 - self.decay) * square.mean(axis=-2)
        r = mx.rsqrt(row / row.mean(axis=-1, keepdims=True))
        u = g * r[..., None] * mx.rsqrt(col)[..., None, :]
        rms = mx.sqrt(mx.mean(u * u))
        u = u / mx.maximum(1.0, rms)
        scale = mx.maximum(self.eps[1], mx.sqrt(mx.mean(p * p)))
        return p - self.lr * scale * u, row, col


adafactor = Adafactorish()
schedule = optim.cosine_decay(1e-3, 1000)


def example_inputs():
    tree = {"layers": [{"w": mx.zeros((8, 12)), "b": mx.zeros((12,))}], "head": mx.zeros((12, 4))}
    pair = [mx.zeros((6, 10)), mx.zeros((30,))]
    return {
        "adamw": (tree, tree, {"m": tree, "v": tree}),
        "lion": (pair, pair, pair),
        "clip_grads": tree_args(tree),
        "ema": (tree, tree),
        "newton_schulz": mx.zeros((12, 8)),
        "adafactor.update": (mx.zeros((8, 12)), mx.zeros((8, 12)), mx.zeros((8,)), mx.zeros((12,))),
    }


def tree_args(tree):
    return (tree,)
