"""Rotary embeddings as people write them, and what only looks like one."""

# mypy: ignore-errors
# ruff: noqa

import mlx.core as mx

from tests.ir.naming.spelling import spelled

B, H, L, D = 2, 3, 5, 8
X = mx.random.normal((B, H, L, D), key=mx.random.key(0))
XT = mx.random.normal((B, L, H, D), key=mx.random.key(0))
T = mx.random.normal((L, D // 2), key=mx.random.key(1))
C, Sn = mx.cos(T), mx.sin(T)
F = mx.concatenate([T, T], -1)
CW, SW = mx.cos(F), mx.sin(F)
P = mx.arange(L)
INV = 1.0 / (10000 ** (mx.arange(0, D, 2) / D))
XH = X.astype(mx.float16)


def rh(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return mx.concatenate([-b, a], -1)


N = ("rope",)


@spelled("rope", X, CW, SW)
def hf(q, cos, sin):
    return q * cos + rh(q) * sin


@spelled("rope", X, mx.broadcast_to(CW, (B, L, D)), mx.broadcast_to(SW, (B, L, D)))
def hf_unsqueeze(q, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    return (q * cos) + (rh(q) * sin)


@spelled("rope", X, P)
def hf_full(q, pos):
    inv = 1.0 / (10000 ** (mx.arange(0, D, 2).astype(mx.float32) / D))
    f = pos[:, None].astype(mx.float32) * inv[None]
    emb = mx.concatenate([f, f], -1)
    return q * mx.cos(emb) + rh(q) * mx.sin(emb)


@spelled("rope", XH, P)
def hf_half(q, pos):
    f = mx.outer(pos.astype(mx.float32), INV)
    emb = mx.concatenate([f, f], -1)
    c, sn = mx.cos(emb).astype(q.dtype), mx.sin(emb).astype(q.dtype)
    return q * c + rh(q) * sn


@spelled("rope", X, P)
def einsum_freqs(q, pos):
    f = mx.einsum("i,j->ij", pos.astype(mx.float32), INV)
    c, sn = mx.cos(f), mx.sin(f)
    a, b = mx.split(q, 2, -1)
    return mx.concatenate([a * c - b * sn, b * c + a * sn], axis=-1)


@spelled("rope", XT, C, Sn)
def llama_real(x, c, sn):
    x = x.reshape(B, L, H, D // 2, 2)
    c = c[None, :, None, :]
    sn = sn[None, :, None, :]
    r, i = x[..., 0], x[..., 1]
    return mx.stack([r * c - i * sn, r * sn + i * c], -1).flatten(3)


@spelled("rope", XT, C, Sn)
def llama_split(x, c, sn):
    xs = x.reshape(*x.shape[:-1], -1, 2)
    r, i = (t.squeeze(-1) for t in mx.split(xs, 2, axis=-1))
    c, sn = mx.expand_dims(c, 1), mx.expand_dims(sn, 1)
    return mx.concatenate(
        [(r * c - i * sn)[..., None], (r * sn + i * c)[..., None]], axis=-1
    ).reshape(x.shape)


@spelled("rope", X, C, Sn)
def neox_out(x, c, sn):
    h = D // 2
    out = mx.zeros_like(x)
    out[..., :h] = x[..., :h] * c - x[..., h:] * sn
    out[..., h:] = x[..., :h] * sn + x[..., h:] * c
    return out


@spelled("rope", X, C, Sn)
def gptj(x, c, sn):
    x1, x2 = x[..., ::2], x[..., 1::2]
    rot = mx.stack([-x2, x1], -1).reshape(x.shape)
    return x * mx.repeat(c, 2, -1) + rot * mx.repeat(sn, 2, -1)


@spelled("rope", X, C, Sn)
def gptj_stack(x, c, sn):
    rot = mx.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    cc = mx.stack([c, c], -1).reshape(L, D)
    ss = mx.stack([sn, sn], -1).reshape(L, D)
    return x * cc + rot * ss


@spelled("rope", X, C, Sn)
def partial_rot(x, c, sn):
    r, p = x[..., : D // 2], x[..., D // 2 :]
    c, sn = c[:, : D // 4], sn[:, : D // 4]
    a, b = mx.split(r, 2, -1)
    return mx.concatenate([a * c - b * sn, b * c + a * sn, p], -1)


@spelled("rope", X, CW, SW)
def partial_hf(x, c, sn):
    n = D // 2
    c, sn = c[:, :n], sn[:, :n]
    r, p = x[..., :n], x[..., n:]
    return mx.concatenate([r * c + rh(r) * sn, p], -1)


@spelled("rope", X, CW, SW)
def partial_last(x, c, sn):
    n = D // 2
    c, sn = c[:, :n], sn[:, :n]
    p, r = x[..., :n], x[..., n:]
    return mx.concatenate([p, r * c + rh(r) * sn], -1)


@spelled("rope", X, mx.stack([C, Sn], -1))
def torchtune(x, cache):
    xs = x.reshape(*x.shape[:-1], -1, 2)
    c, sn = cache[..., 0], cache[..., 1]
    out = mx.stack([xs[..., 0] * c - xs[..., 1] * sn, xs[..., 1] * c + xs[..., 0] * sn], -1)
    return out.flatten(3)


@spelled("rope", XT, C, Sn)
def transposed(x, c, sn):
    y = x.swapaxes(1, 2)
    a, b = y[..., : D // 2], y[..., D // 2 :]
    return mx.concatenate([a * c - b * sn, a * sn + b * c], -1).transpose(0, 2, 1, 3)


@spelled("rope", XT, C, Sn)
def moveaxis(x, c, sn):
    y = mx.moveaxis(x, 2, 1)
    a, b = mx.split(y, 2, axis=3)
    return mx.concatenate((b * (-sn) + a * c, b * c + sn * a), 3)


@spelled("rope", XH, C, Sn)
def f32_inside(x, c, sn):
    y = x.astype(mx.float32)
    a, b = mx.split(y, 2, -1)
    return mx.concatenate([a * c - b * sn, a * sn + b * c], -1).astype(x.dtype)


@spelled("rope", XH, C, Sn)
def f32_parts(x, c, sn):
    a, b = x[..., : D // 2].astype(mx.float32), x[..., D // 2 :].astype(mx.float32)
    return mx.concatenate([(a * c - b * sn).astype(x.dtype), (a * sn + b * c).astype(x.dtype)], -1)


@spelled("rope", X, C, Sn)
def roll(x, c, sn):
    sign = mx.concatenate([-mx.ones(D // 2), mx.ones(D // 2)])
    return x * mx.tile(c, (1, 2)) + mx.roll(x, D // 2, axis=-1) * sign * mx.tile(sn, (1, 2))


@spelled("rope", X, C, Sn)
def einsum_rot(x, c, sn):
    R = mx.zeros((D, D))
    R = mx.concatenate(
        [
            mx.concatenate([mx.zeros((4, 4)), mx.eye(4)], 1),
            mx.concatenate([-mx.eye(4), mx.zeros((4, 4))], 1),
        ],
        0,
    )
    return x * mx.tile(c, (1, 2)) + mx.einsum("bhld,de->bhle", x, R) * mx.tile(sn, (1, 2))


@spelled("rope", X, C, Sn)
def flux(x, c, sn):
    R = mx.stack([c, -sn, sn, c], -1).reshape(1, 1, L, D // 2, 2, 2)
    xs = x.reshape(B, H, L, D // 2, 1, 2)
    return (R[..., 0] * xs[..., 0] + R[..., 1] * xs[..., 1]).reshape(x.shape)


@spelled("rope", X, C, Sn)
def addsub(x, c, sn):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate(
        [
            mx.subtract(mx.multiply(a, c), mx.multiply(b, sn)),
            mx.add(mx.multiply(b, c), mx.multiply(a, sn)),
        ],
        -1,
    )


@spelled("rope", X, mx.zeros((B, 1, L, D // 2)), mx.zeros((B, 1, L, D // 2)))
def batched_tables(x, c, sn):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * sn, a * sn + b * c], -1)


@spelled("rope", X, mx.concatenate([C, Sn], -1))
def vllm_cache(x, cs):
    c, sn = mx.split(cs, 2, -1)
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * sn, b * c + a * sn], -1)


@spelled("rope", X, mx.concatenate([C, Sn], -1))
def vllm_gather(x, cs):
    cs = cs[mx.arange(L)]
    c, sn = cs[:, : D // 2], cs[:, D // 2 :]
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * sn, b * c + a * sn], -1)


@spelled("rope", mx.zeros((B * L, H * D)), C, Sn)
def flat_heads(x, c, sn):
    y = x.reshape(B, L, H, D)
    c, sn = c[:, None], sn[:, None]
    a, b = y[..., : D // 2], y[..., D // 2 :]
    return mx.concatenate([a * c - b * sn, a * sn + b * c], -1).reshape(B * L, H * D)


@spelled("rope", X, C, Sn)
def where_even(x, c, sn):
    even = mx.arange(D) % 2 == 0
    left, right = mx.roll(x, -1, -1), mx.roll(x, 1, -1)
    return x * mx.repeat(c, 2, -1) + mx.where(even, -left, right) * mx.repeat(sn, 2, -1)


@spelled("rope", X, CW, SW)
def scaled_attn(x, c, sn):
    # yarn: both tables scaled by one factor
    return x * (c * 1.2) + rh(x) * (sn * 1.2)


@spelled("rope", X, CW, SW)
def minus_neg(x, c, sn):
    a, b = mx.split(x, 2, -1)
    return x * c - mx.concatenate([b, -a], -1) * sn


@spelled("rope", X, mx.array(3))
def fast(x, o):
    return mx.fast.rope(x, D, traditional=False, base=1e4, scale=1.0, offset=o)


@spelled("rope", X)
def fast_trad(x):
    return mx.fast.rope(x, D, traditional=True, base=1e4, scale=1.0, offset=0)


@spelled("rope", X)
def fast_part(x):
    return mx.fast.rope(x, D // 2, traditional=False, base=1e4, scale=1.0, offset=0)


@spelled(N, X, CW, SW)
def no_reflect(x, c, sn):
    return x * c + mx.concatenate([x[..., 4:], x[..., :4]], -1) * sn


@spelled(N, X, C, Sn)
def no_cross(x, c, sn):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * sn, a * c + b * sn], -1)


@spelled(N, X, C, Sn)
def no_same(x, c, sn):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * sn, a * sn + b * sn], -1)


@spelled(N, X, C, Sn)
def no_hyper(x, c, sn):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c + b * sn, a * sn + b * c], -1)


@spelled(N, X, C, Sn)
def no_mixed_layout(x, c, sn):
    a, b = x[..., ::2], x[..., 1::2]
    return mx.concatenate([a * c - b * sn, a * sn + b * c], -1)


@spelled(N, X, CW, SW)
def no_other_row(x, c, sn):
    return x * c + rh(x[:, :, ::-1]) * sn


@spelled(N, X, CW, SW)
def no_squared(x, c, sn):
    return x * c + rh(x * x) * sn
