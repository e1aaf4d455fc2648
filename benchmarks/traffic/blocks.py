"""Counts the bytes that real transformer blocks move: eager, under mx.compile, and fused by a plan.

Run `python benchmarks/traffic/blocks.py`; it writes docs/traffic.md. Nothing is timed: a count
depends on the graph and on nothing else.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map
from mlx_lm.models import llama, mamba2, qwen3_moe

from kernelwright import ir
from kernelwright.metal.family.classify import is_index_arithmetic
from kernelwright.plan import Traffic, compiled_traffic, eager_traffic, partition, planned_traffic

PAGE = Path(__file__).parents[2] / "docs" / "traffic.md"
TOKENS = 512
_FUSIBLE = frozenset({ir.Kind.ELEMENTWISE, ir.Kind.REDUCTION, ir.Kind.VIEW})

_LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 1,
    "intermediate_size": 5632,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "vocab_size": 256,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
_MOE: dict[str, object] = {
    "model_type": "qwen3_moe",
    "hidden_size": 1024,
    "num_hidden_layers": 1,
    "intermediate_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "vocab_size": 256,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 512,
    "norm_topk_prob": True,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
_MAMBA: dict[str, object] = {
    "model_type": "mamba2",
    "num_heads": 32,
    "head_dim": 64,
    "vocab_size": 256,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "state_size": 64,
    "num_hidden_layers": 1,
    "layer_norm_epsilon": 1e-5,
    "conv_kernel": 4,
    "n_groups": 1,
    "use_bias": False,
    "use_conv_bias": True,
    "tie_word_embeddings": True,
    "time_step_limit": (0.001, 100.0),
    "time_step_rank": "auto",
}


@dataclass(frozen=True)
class Block:
    """A block by name, and its graph."""

    name: str
    graph: ir.Graph


@dataclass(frozen=True)
class Row:
    """The traffic of the fusible part of a block, three ways."""

    name: str
    eager: Traffic
    compiled: Traffic
    planned: Traffic
    region_count: int

    @property
    def share(self) -> float:
        """Planned bytes over those of `mx.compile`."""
        return self.planned.nbytes / self.compiled.nbytes


def blocks() -> list[Block]:
    """Build the blocks, in float16, and capture each on a prompt."""
    x = mx.zeros((1, TOKENS, 2048), mx.float16)
    half = x[..., :1024]
    logits, targets = mx.zeros((TOKENS, 32000), mx.float16), mx.zeros((TOKENS,), mx.int32)
    return [
        _block("Llama block", _layer(llama, _LLAMA), x),
        _block("mixture-of-experts block (Qwen3)", _layer(qwen3_moe, _MOE), half),
        _block("state-space block (Mamba 2)", _mixer(), half),
        _block("cross-entropy and its gradient", _loss, logits, targets),
        _block("AdamW step", _adamw, *([mx.zeros((2048, 2048))] * 4)),
    ]


def measure(block: Block) -> Row:
    """Count what the elementwise, norm, softmax and loss parts of a block move."""
    graph = block.graph
    chosen = [i for i, node in enumerate(graph.nodes) if _counts(graph, node)]
    regions = partition(graph)
    inside = set(chosen)
    kept = [ir.Region(graph, r.indices) for r in regions if inside.issuperset(r.indices)]
    return Row(
        block.name,
        eager_traffic(graph, chosen),
        compiled_traffic(graph, chosen),
        planned_traffic(graph, kept, chosen),
        len(kept),
    )


def _counts(graph: ir.Graph, node: ir.Node) -> bool:
    return ir.op_named(node.op).kind in _FUSIBLE or is_index_arithmetic(graph, node)


def _block(name: str, fn: Callable[..., object], *arrays: mx.array) -> Block:
    graph = ir.canonicalize(ir.capture(fn, *arrays))
    return Block(name, replace(graph))


def _half(module: nn.Module) -> nn.Module:
    module.update(tree_map(lambda p: p.astype(mx.float16), module.parameters()))
    mx.eval(module.parameters())
    return module


def _layer(family: ModuleType, configuration: dict[str, object]) -> Callable[..., object]:
    model = _half(family.Model(family.ModelArgs.from_dict(configuration)))
    block = model.model.layers[0]
    return lambda x: block(x, mask="causal")


def _mixer() -> Callable[..., object]:
    model = _half(mamba2.Model(mamba2.ModelArgs.from_dict(_MAMBA)))
    block = model.backbone.layers[0]
    return lambda x: block(x, None)


def _loss(logits: mx.array, targets: mx.array) -> tuple[mx.array, mx.array]:
    def loss(z: mx.array) -> mx.array:
        return nn.losses.cross_entropy(z.astype(mx.float32), targets, reduction="mean")

    return mx.value_and_grad(loss)(logits)


def _adamw(w: mx.array, g: mx.array, m: mx.array, v: mx.array) -> tuple[mx.array, ...]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * mx.square(g)
    return w * (1 - 1e-5) - 1e-3 * m / (mx.sqrt(v) + 1e-8), m, v


def page(rows: list[Row]) -> str:
    """Render the table."""
    lines = [
        f"| {row.name} | {_amount(row.eager)} | {_amount(row.compiled)} | {_amount(row.planned)} "
        f"| {row.share:.0%} | {row.region_count} |"
        for row in rows
    ]
    head = f"""# Memory traffic, counted

Written by `python benchmarks/traffic/blocks.py`: float16, {TOKENS} tokens. Only the elementwise,
norm, softmax and loss parts count; products of matrices, sorts and scans are MLX's own either
way. `mx.compile` is modelled by its own limits (depth 11, 24 arrays, elementwise only).
These are counts of bytes and launches, not times.

| block | eager | mx.compile | plan | plan / mx.compile | regions |
|---|---:|---:|---:|---:|---:|
"""
    return head + "\n".join(lines) + "\n"


def _amount(traffic: Traffic) -> str:
    return f"{traffic.nbytes / 1e6:.1f} MB, {traffic.launches} launches"


def main() -> int:
    """Count every block and write the page."""
    mx.set_default_device(mx.cpu)
    rows = [measure(block) for block in blocks()]
    PAGE.write_text(page(rows))
    print(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
