"""The models that are measured: public architectures in their published sizes, random weights."""

from dataclasses import dataclass

Config = dict[str, object]

_LLAMA_1B: Config = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
_QWEN3: Config = {
    "model_type": "qwen3",
    "head_dim": 128,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "vocab_size": 151936,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 40960,
}
_QWEN3_SMALL: Config = {
    **_QWEN3,
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "tie_word_embeddings": True,
}
_QWEN3_8B: Config = {
    **_QWEN3,
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "tie_word_embeddings": False,
}
_QWEN3_MOE: Config = {
    **_QWEN3,
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "intermediate_size": 6144,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
}
_MAMBA2: Config = {
    "model_type": "mamba2",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_heads": 64,
    "head_dim": 64,
    "state_size": 128,
    "n_groups": 1,
    "conv_kernel": 4,
    "expand": 2,
    "intermediate_size": 4096,
    "layer_norm_epsilon": 1e-5,
    "vocab_size": 50288,
    "time_step_limit": [0.0, 1e9],
    "time_step_rank": 128,
    "use_bias": False,
    "use_conv_bias": True,
    "chunk_size": 256,
    "tie_word_embeddings": True,
    "ssm_state_size": 128,
    "max_position_embeddings": 2056,
}
_FOUR_BITS: Config = {"quantization": {"group_size": 64, "bits": 4}}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    config: Config


ROWS = (
    Row("llama-1b", _LLAMA_1B),
    Row("llama-1b-4bit", {**_LLAMA_1B, **_FOUR_BITS}),
    Row("qwen3-0.6b", _QWEN3_SMALL),
    Row("qwen3-0.6b-4bit", {**_QWEN3_SMALL, **_FOUR_BITS}),
    Row("qwen3-8b", _QWEN3_8B),
    Row("qwen3-8b-4bit", {**_QWEN3_8B, **_FOUR_BITS}),
    Row("qwen3-moe", _QWEN3_MOE),
    Row("qwen3-moe-4bit", {**_QWEN3_MOE, **_FOUR_BITS}),
    Row("mamba2-1.3b", _MAMBA2),
)


def small(config: Config) -> Config:
    """Return the same architecture in a size for a test of the script itself."""
    sizes: Config = {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": 1100,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "state_size": 16,
        "ssm_state_size": 16,
        "num_heads": 8,
        "torch_dtype": "float32",
    }
    return {**config, **{k: v for k, v in sizes.items() if k in config or k == "torch_dtype"}}
