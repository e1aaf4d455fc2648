"""The workloads: what dominates inference and training of today's models outside their GEMMs."""

import mlx.core as mx

from benchmarks.suite.workload import Workload, from_catalog

LLAMA = "Llama 3 8B, 2048 tokens"
GEMMA = "Gemma 2 9B, 2048 tokens"
QWEN_MOE = "Qwen3 30B-A3B, 4096 tokens"
MAMBA = "Mamba 2.8B, 4 x 2048 tokens"
BERT = "BERT large, 16 x 512 tokens"
DIFFUSION = "Stable Diffusion 3, 4096 tokens"
TRAINING = "a 4096 x 4096 weight"


def llama_block(
    x: mx.array,
    norm1: mx.array,
    norm2: mx.array,
    wqkv: mx.array,
    wo: mx.array,
    wgu: mx.array,
    wd: mx.array,
) -> mx.array:
    """A Llama block with packed projections: norm, rope, attention, norm, gated MLP."""
    batch, length, hidden = x.shape
    qkv = mx.fast.rms_norm(x, norm1, 1e-5) @ wqkv
    q, k, v = mx.split(qkv, [hidden, hidden + hidden // 4], axis=-1)

    def heads(t: mx.array) -> mx.array:
        return t.reshape(batch, length, -1, 128).transpose(0, 2, 1, 3)

    q, k, v = heads(q), heads(k), heads(v)
    q = mx.fast.rope(q, 128, traditional=False, base=500000.0, scale=1.0, offset=0)
    k = mx.fast.rope(k, 128, traditional=False, base=500000.0, scale=1.0, offset=0)
    a = mx.fast.scaled_dot_product_attention(q, k, v, scale=128**-0.5, mask="causal")
    h = x + a.transpose(0, 2, 1, 3).reshape(batch, length, hidden) @ wo
    gate, up = mx.split(mx.fast.rms_norm(h, norm2, 1e-5) @ wgu, 2, axis=-1)
    return h + (gate * mx.sigmoid(gate) * up) @ wd


def moe_block(
    x: mx.array, norm: mx.array, router: mx.array, w1: mx.array, w2: mx.array
) -> mx.array:
    """A mixture-of-experts block evaluated densely over eight experts, four of them weighted."""
    h = mx.fast.rms_norm(x, norm, 1e-5)
    p = mx.softmax((h @ router).astype(mx.float32), axis=-1)
    kept = mx.where(p >= mx.sort(p, axis=-1)[:, -4:-3], p, 0)
    weights = (kept / mx.sum(kept, axis=-1, keepdims=True)).astype(x.dtype)
    gate, up = mx.split(mx.matmul(h[None], w1), 2, axis=-1)
    y = mx.matmul(gate * mx.sigmoid(gate) * up, w2)
    return x + mx.sum(y * weights.T[..., None], axis=0)


def sliding_window_attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """Causal attention that sees 256 positions back."""
    rows = mx.arange(q.shape[2])[:, None]
    columns = mx.arange(k.shape[2])[None]
    mask = (columns <= rows) & (columns > rows - 256)
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)


WORKLOADS: tuple[Workload, ...] = (
    from_catalog("bias_gelu_tanh", "T[2048,14336]", "T[14336]", model=GEMMA),
    from_catalog("bias_gelu_residual", "T[8192,4096]", "T[4096]", "T[8192,4096]", model=BERT),
    from_catalog("swiglu", "T[2048,14336]", "T[2048,14336]", model=LLAMA),
    from_catalog("swiglu_packed", "T[2048,28672]", model=LLAMA),
    from_catalog("geglu", "T[2048,14336]", "T[2048,14336]", model=GEMMA),
    from_catalog("swiglu_clipped", "T[4096,2880]", "T[4096,2880]", model="GPT-OSS 20B"),
    from_catalog("relu_squared", "T[4096,16384]", model="Nemotron 8B"),
    from_catalog("rms_norm", "T[4096,4096]", "T[4096]", model=LLAMA),
    from_catalog("residual_rms_norm", "T[4096,4096]", "T[4096,4096]", "T[4096]", model=LLAMA),
    from_catalog("rms_norm_gated", "T[8192,5120]", "T[5120]", "T[8192,5120]", model=MAMBA),
    from_catalog("rms_norm_quantize", "T[4096,4096]", "T[4096]", model=LLAMA),
    from_catalog("head_rms_norm", "T[4096,32,128]", "T[128]", model=QWEN_MOE),
    from_catalog("layer_norm", "T[8192,1024]", "T[1024]", "T[1024]", model=BERT),
    from_catalog(
        "residual_layer_norm", "T[8192,1024]", "T[8192,1024]", "T[1024]", "T[1024]", model=BERT
    ),
    from_catalog(
        "adaptive_layer_norm", "T[8192,1536]", "T[8192,1536]", "T[8192,1536]", model=DIFFUSION
    ),
    from_catalog("softmax", "T[32768,2048]", model=LLAMA),
    from_catalog("masked_softmax", "T[32,1024,1024]", "bool[1024,1024]", model=LLAMA),
    from_catalog("biased_softmax", "T[32,1024,1024]", "T[1024,1024]", model=BERT),
    from_catalog("softmax_with_sink", "T[64,512,1024]", "T[64,1,1]", model="GPT-OSS 20B"),
    from_catalog("log_softmax", "T[1024,32000]", model="Llama 2 7B"),
    from_catalog("softmax_soft_cap", "T[512,256000]", model=GEMMA),
    from_catalog("cross_entropy", "T[1024,128256]", "i32[1024]<128256", model=LLAMA),
    from_catalog("cross_entropy_grad", "T[1024,32000]", "i32[1024]<32000", model="Llama 2 7B"),
    from_catalog("rope_tables", "T[32,4096,128]", "T[4096,64]", "T[4096,64]", model=LLAMA),
    from_catalog(
        "head_norm_rope",
        "T[4096,32,64]",
        "T[64]",
        "T[4096,1,32]",
        "T[4096,1,32]",
        model=QWEN_MOE,
    ),
    from_catalog(
        "qkv_split_rope", "T[8192,1536]", "T[8192,1,32]", "T[8192,1,32]", model="Qwen2.5 0.5B"
    ),
    from_catalog("cache_append", "T[64,4096,128]", "T[64,1,128]", model=LLAMA),
    from_catalog("gate_softmax_top2", "T[16384,64]", model=QWEN_MOE),
    from_catalog("gate_sigmoid_norm", "T[16384,256]", model="DeepSeek V3"),
    from_catalog("moe_combine", "T[4096,8,2048]", "T[4096,8]", model=QWEN_MOE),
    from_catalog(
        "moe_combine_residual", "T[4096,8,2048]", "T[4096,8]", "T[4096,2048]", model=QWEN_MOE
    ),
    from_catalog("top_4_values", "T[16384,128]", model=QWEN_MOE),
    from_catalog("quantize_int8", "T[8192,4096]", model=LLAMA),
    from_catalog("dequantize_int8", "i8[8192,4096]", "T[8192,1]", model=LLAMA),
    from_catalog(
        "dequantize_blockwise", "i8[8192,64,64]", "T[8192,64,1]", "T[8192,64,1]", model=LLAMA
    ),
    from_catalog(
        "dequantize_int4_by_hand", "u32[8192,512]", "T[8192,64]", "T[8192,64]", model=LLAMA
    ),
    from_catalog(
        "quantized_matvec", "T[1,4096]", "u32[14336,512]", "T[14336,64]", "T[14336,64]", model=LLAMA
    ),
    from_catalog("causal_conv1d_silu", "T[4,2048,5120]", "T[4,5120]", "T[5120]", model=MAMBA),
    from_catalog("average_pool_2x2", "T[16,128,128,256]", model="ResNet-50"),
    from_catalog(
        "state_space_step",
        "T[256,5120,16]",
        "T[256,5120]",
        "T[5120,16]",
        "T[256,16]",
        "T[256,16]",
        "T[256,5120]",
        model=MAMBA,
    ),
    from_catalog("cumulative_sum", "T[8192,4096]", model=MAMBA),
    from_catalog("decay_weights", "T[8192,4096]", model="RWKV-7"),
    from_catalog("sum_rows", "T[8192,8192]", model=TRAINING),
    from_catalog("sum_columns", "T[8192,8192]", model=TRAINING),
    from_catalog("mean_middle", "T[64,1024,1024]", model=BERT),
    from_catalog("argmax_rows", "T[512,128256]", model=LLAMA),
    from_catalog("mean_and_variance", "T[8192,8192]", model=TRAINING),
    from_catalog(
        "attention_decode_gqa",
        "T[32,32,1,128]",
        "T[32,8,4096,128]",
        "T[32,8,4096,128]",
        model=LLAMA,
    ),
    from_catalog(
        "attention_decode_sinks",
        "T[32,64,1,64]",
        "T[32,8,4096,64]",
        "T[32,8,4096,64]",
        "T[64]",
        model="GPT-OSS 20B",
    ),
    from_catalog(
        "attention_decode_int8_cache",
        "T[32,32,1,64]",
        "i8[32,8,4096,64]",
        "i8[32,8,4096,64]",
        "T[32,8,1,64]",
        "T[32,8,1,64]",
        model="Llama 3.2 1B",
    ),
    from_catalog("swiglu_projection", "T[1,4096]", "T[14336,4096]", "T[14336,4096]", model=LLAMA),
    from_catalog("linear_residual", "T[4,14336]", "T[14336,4096]", "T[4,4096]", model=LLAMA),
    from_catalog(
        "attention_causal",
        "T[1,32,2048,128]",
        "T[1,32,2048,128]",
        "T[1,32,2048,128]",
        model=LLAMA,
        is_memory_bound=False,
    ),
    Workload(
        "sliding_window_attention",
        "attention",
        sliding_window_attention,
        ("T[1,32,2048,64]", "T[1,32,2048,64]", "T[1,32,2048,64]"),
        "GPT-OSS 20B",
        False,
    ),
    from_catalog(
        "attention_prefill_soft_cap",
        "T[1,32,2048,128]",
        "T[1,16,2048,128]",
        "T[1,16,2048,128]",
        model="Gemma 2 27B",
        is_memory_bound=False,
    ),
    from_catalog(
        "attention_prefill_alibi",
        "T[1,32,2048,128]",
        "T[1,32,2048,128]",
        "T[1,32,2048,128]",
        "T[32]",
        model="MPT 7B",
        is_memory_bound=False,
    ),
    from_catalog(
        "merge_partial_attention",
        "T[4,32,2048,128]",
        "T[4,32,2048,128]",
        "T[4,32,2048]",
        "T[4,32,2048]",
        model=LLAMA,
    ),
    from_catalog(
        "adamw_step",
        "T[4096,4096]",
        "T[4096,4096]",
        "f32[4096,4096]",
        "f32[4096,4096]",
        model=TRAINING,
    ),
    from_catalog("lion_step", "T[4096,4096]", "T[4096,4096]", "T[4096,4096]", model=TRAINING),
    from_catalog("swiglu_grad", "T[2048,14336]", "T[2048,14336]", "T[2048,14336]", model=LLAMA),
    from_catalog("softmax_grad", "T[32768,1024]", "T[32768,1024]", model=BERT),
    from_catalog("rms_norm_grad", "T[4096,4096]", "T[4096]", "T[4096,4096]", model=LLAMA),
    from_catalog("layer_norm_grad", "T[8192,1024]", "T[1024]", "T[8192,1024]", model=BERT),
    Workload(
        "llama_block",
        "block",
        llama_block,
        (
            "T[1,2048,4096]",
            "T[4096]",
            "T[4096]",
            "T[4096,6144]",
            "T[4096,4096]",
            "T[4096,28672]",
            "T[14336,4096]",
        ),
        LLAMA,
        False,
    ),
    Workload(
        "moe_block",
        "block",
        moe_block,
        ("T[2048,2048]", "T[2048]", "T[2048,8]", "T[8,2048,1536]", "T[8,768,2048]"),
        QWEN_MOE,
        False,
    ),
)
