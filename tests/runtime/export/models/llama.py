"""A decoder as its inference code is written: dataclass of sizes, cache, grouped heads."""

# mypy: ignore-errors

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn


@dataclass
class ModelArgs:
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    hidden: int = 48
    vocab: int = 40
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    tied: bool = True

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.args = args
        self.n_heads = args.n_heads
        self.n_kv_heads = args.n_kv_heads
        self.repeats = self.n_heads // self.n_kv_heads
        self.scale = args.head_dim**-0.5
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=False)
        self.rope = nn.RoPE(args.head_dim, traditional=True, base=args.rope_theta)

    def __call__(
        self,
        x: mx.array,
        mask: mx.array | None = None,
        cache: tuple[mx.array, mx.array] | None = None,
    ) -> tuple[mx.array, tuple[mx.array, mx.array]]:
        B, L, _ = x.shape

        queries, keys, values = self.wq(x), self.wk(x), self.wv(x)
        queries = queries.reshape(B, L, self.n_heads, -1).transpose(0, 2, 1, 3)
        keys = keys.reshape(B, L, self.n_kv_heads, -1).transpose(0, 2, 1, 3)
        values = values.reshape(B, L, self.n_kv_heads, -1).transpose(0, 2, 1, 3)

        def repeat(a):
            a = mx.concatenate([mx.expand_dims(a, 2)] * self.repeats, axis=2)
            return a.reshape([B, self.n_heads, L, -1])

        if self.repeats > 1:
            keys, values = map(repeat, (keys, values))

        if cache is not None:
            key_cache, value_cache = cache
            queries = self.rope(queries, offset=key_cache.shape[2])
            keys = self.rope(keys, offset=key_cache.shape[2])
            keys = mx.concatenate([key_cache, keys], axis=2)
            values = mx.concatenate([value_cache, values], axis=2)
        else:
            queries = self.rope(queries)
            keys = self.rope(keys)

        scores = (queries * self.scale) @ keys.transpose(0, 1, 3, 2)
        if mask is not None:
            scores += mask
        scores = mx.softmax(scores.astype(mx.float32), axis=-1).astype(scores.dtype)
        output = (scores @ values).transpose(0, 2, 1, 3).reshape(B, L, -1)
        return self.wo(output), (keys, values)


class FeedForward(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.w1 = nn.Linear(args.dim, args.hidden, bias=False)
        self.w2 = nn.Linear(args.hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, args.hidden, bias=False)

    def __call__(self, x) -> mx.array:
        return self.w2(nn.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention = Attention(args)
        self.feed_forward = FeedForward(args=args)
        self.attention_norm = nn.RMSNorm(args.dim, eps=args.norm_eps)
        self.ffn_norm = nn.RMSNorm(args.dim, eps=args.norm_eps)

    def __call__(self, x, mask=None, cache=None):
        r, cache = self.attention(self.attention_norm(x), mask, cache)
        h = x + r
        r = self.feed_forward(self.ffn_norm(h))
        return h + r, cache


class Llama(nn.Module):
    def __init__(self, args: ModelArgs, n_layers: int = 2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(args.vocab, args.dim)
        self.layers = [TransformerBlock(args) for _ in range(n_layers)]
        self.norm = nn.RMSNorm(args.dim, eps=args.norm_eps)
        self.args = args
        if not args.tied:
            self.output = nn.Linear(args.dim, args.vocab, bias=False)

    def __call__(self, tokens):
        mask = nn.MultiHeadAttention.create_additive_causal_mask(tokens.shape[1])
        x = self.tok_embeddings(tokens)
        mask = mask.astype(x.dtype)
        for layer in self.layers:
            x, _ = layer(x, mask)
        x = self.norm(x)
        return self.tok_embeddings.as_linear(x) if self.args.tied else self.output(x)

    def logprobs(self, tokens: mx.array, *, temperature: float = 1.0) -> mx.array:
        """Log probability of each token given those before it."""
        logits = self(tokens[:, :-1]) / temperature
        normalised = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        return mx.take_along_axis(normalised, tokens[:, 1:, None], axis=-1).squeeze(-1)


args = ModelArgs()
block = TransformerBlock(args)
model = Llama(ModelArgs(tied=False), n_layers=2)
tiny = Llama(args, 1)


def sample_top_p(logits, noise, top_p: float = 0.9, temp: float = 0.7):
    probs = mx.softmax(logits / temp, axis=-1)
    order = mx.argsort(probs, axis=-1)
    sorted_probs = mx.take_along_axis(probs, order, axis=-1)
    cumulative = mx.cumsum(sorted_probs, axis=-1)
    kept = mx.where(cumulative > 1 - top_p, sorted_probs, 0.0)
    gumbel = -mx.log(-mx.log(noise))
    best = mx.argmax(mx.log(kept) + gumbel, axis=-1, keepdims=True)
    return mx.take_along_axis(order, best, axis=-1).squeeze(-1)


def example_inputs():
    x = mx.zeros((1, 6, args.dim))
    heads = mx.zeros((1, args.n_heads, 4, args.head_dim))
    return {
        "block": (x, mx.zeros((6, 6))),
        "block.attention": (x, None, (heads, heads)),
        "block.feed_forward": (x,),
        "model": (mx.zeros((2, 5), mx.int32),),
        "tiny.logprobs": (mx.zeros((2, 6), mx.int32),),
        "sample_top_p": (mx.zeros((3, 40)), mx.ones((3, 40)) * 0.5),
    }
