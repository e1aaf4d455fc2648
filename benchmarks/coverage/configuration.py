"""Tiny configurations for mlx-lm's architectures, derived from their own argument records."""

import dataclasses
import importlib
import pkgutil
import typing
from collections.abc import Mapping
from types import ModuleType, UnionType

import mlx_lm.models

Value = object

LAYERS = 4

# A size for every name that several architectures give the same meaning.
_SIZES: dict[str, Value] = {
    "vocab_size": 128,
    "vocab_size_per_layer_input": 128,
    "num_vocab": 128,
    "hidden_size": 64,
    "hidden_dim": 64,
    "model_dim": 64,
    "d_model": 64,
    "n_embd": 64,
    "n_inner": 128,
    "intermediate_size": 128,
    "ffn_hidden_size": 128,
    "ff_intermediate_size": 128,
    "intermediate_size_mlp": 128,
    "shared_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 64,
    "moe_intermediate_size": 32,
    "expert_ffn_hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_transformer_layers": LAYERS,
    "num_layers": LAYERS,
    "n_layer": LAYERS,
    "n_layers": LAYERS,
    "num_attention_heads": 4,
    "num_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_key_value_heads": 2,
    "num_kv_heads": 2,
    "n_kv_heads": 2,
    "num_attention_groups": 2,
    "head_dim": 16,
    "head_size": 16,
    "global_head_dim": 16,
    "kv_channels": 16,
    "max_position_embeddings": 256,
    "original_max_position_embeddings": 128,
    "model_max_length": 256,
    "n_positions": 256,
    "n_ctx": 256,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "num_experts_per_token": 2,
    "moe_topk": 2,
    "moe_top_k": 2,
    "top_k_experts": 2,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "num_shared_expert": 1,
    "share_expert_dim": 32,
    "n_group": 1,
    "topk_group": 1,
    "num_expert_group": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "o_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "qk_head_dim": 24,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "decoder_sparse_step": 1,
    "sliding_window": 8,
    "sliding_window_size": 8,
    "attention_window_size": 8,
    "window_size": 8,
    "loop_window_size": 8,
    "sliding_window_pattern": 2,
    "full_attention_interval": 2,
    "layer_group_size": 2,
    "no_rope_layer_interval": 2,
    "rope_theta": 10000.0,
    "swa_rope_theta": 10000.0,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.5,
    "rotary_dim": 8,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "layernorm_epsilon": 1e-5,
    "index_head_dim": 16,
    "index_n_heads": 2,
    "index_topk": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "conv_kernel": 4,
    "conv_L_cache": 3,
    "conv1d_width": 4,
    "state_size": 16,
    "ssm_state_size": 16,
    "time_step_rank": 4,
    "n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_d_state": 16,
    "mamba_expand": 2,
    "mamba_d_head": 16,
    "mamba_n_heads": 8,
    "mamba_d_ssm": 128,
    "mamba_n_groups": 1,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "chunk_size": 16,
    "mamba_chunk_size": 16,
    "time_step_limit": (0.001, 100.0),
    "time_step_min": 0.001,
    "time_step_max": 0.1,
    "hidden_act": "silu",
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "num_nextn_predict_layers": 0,
    "mlp_only_layers": [],
    "hidden_size_per_layer_input": 16,
    "num_kv_shared_layers": 0,
}

_FULL, _SLIDING = "full_attention", "sliding_attention"
_PATTERN = [_SLIDING, _FULL] * (LAYERS // 2)
_ROPE: dict[str, Value] = {"rope_theta": 10000.0, "rope_type": "default", "type": "default"}
_YARN: dict[str, Value] = {
    "rope_theta": 10000.0,
    "type": "yarn",
    "rope_type": "yarn",
    "factor": 2.0,
    "original_max_position_embeddings": 128,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "llama_4_scaling_beta": 0.1,
}

_KIMI_LINEAR: dict[str, Value] = {
    "kda_layers": [1, 2, 3],
    "full_attn_layers": [4],
    "num_heads": 4,
    "head_dim": 32,
    "short_conv_kernel_size": 4,
}

# What an architecture needs beyond its argument names: patterns of layers, mostly.
_SPECIAL: dict[str, dict[str, Value]] = {
    "afmoe": {"layer_types": _PATTERN},
    "baichuan_m1": {"conv_window": 2, "sliding_window_layers": [1, 3]},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
    },
    "deepseek_v2": {"rope_scaling": _YARN},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {"layer_types": _PATTERN, "is_moe_layer": [False, True] * 2},
    "gear": {"layer_types": _PATTERN},
    "glm_moe_dsa": {"rope_parameters": _ROPE},
    "hunyuan": {"rope_scaling": {"alpha": 2.0, "factor": 1.0, "type": "dynamic"}},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
    },
    "kimi_linear": {"linear_attn_config": _KIMI_LINEAR},
    "lfm2": {"block_ff_dim": 128, "block_dim": 64, "full_attn_idxs": [1, 3]},
    "lfm2_moe": {"layer_types": ["conv", _FULL] * 2, "num_dense_layers": 1},
    "llama4": {"num_experts_per_tok": 1},
    "llama4_text": {"no_rope_layers": [1, 0] * 2},
    "longcat_flash": {
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "zero_expert_num": 2,
        "zero_expert_type": "identity",
    },
    "longcat_flash_ngram": {
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "zero_expert_num": 2,
        "zero_expert_type": "identity",
    },
    "mellum": {
        "layer_types": _PATTERN,
        "rope_parameters": {_FULL: _ROPE, _SLIDING: _ROPE},
    },
    "mimo_v2_flash": {
        "moe_layer_freq": [0, 1, 1, 1],
        "hybrid_layer_pattern": [0, 1, 0, 1],
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 16,
        "swa_v_head_dim": 16,
    },
    "minicpm3": {"rope_scaling": {**_YARN, "long_factor": [1.0] * 4, "short_factor": [1.0] * 4}},
    "ministral3": {"rope_parameters": _YARN},
    "mistral4": {"rope_parameters": _YARN},
    "minimax_m3_vl": {"moe_layer_freq": [0, 1, 1, 1]},
    "nemotron_h": {"hybrid_override_pattern": ["M", "*", "-", "E"], "routed_scaling_factor": 1.0},
    "openelm": {
        "num_query_heads": [4] * LAYERS,
        "num_kv_heads": [2] * LAYERS,
        "ffn_multipliers": [2.0] * LAYERS,
        "ffn_dim_divisor": 16,
    },
    # It writes to fixed places of the vocabulary.
    "phi3small": {"vocab_size": 100352, "dense_attention_every_n_layers": 2},
    "plamo": {"n_shared_head": 2},
    "qwen3": {"rope_theta": 10000.0},
    "gemma3n": {
        "layer_types": _PATTERN,
        "activation_sparsity_pattern": [0.5, 0.0] * 2,
        "altup_num_inputs": 4,
        "altup_active_idx": 0,
    },
    "kimi_k3": {
        "hidden_act": "situ",
        "moe_router_activation_func": "sigmoid",
        "linear_attn_config": _KIMI_LINEAR,
    },
    "muse_spark": {
        "layer_types": _PATTERN,
        "layer_rope_theta": [10000.0, 0.0] * 2,
        "rope_parameters": _ROPE,
        "num_shared_experts": 0,
        "moe_hidden_size": 64,
    },
    "nemotron-nas": {
        "block_configs": [
            {
                "attention": {"no_op": False, "n_heads_in_group": 2},
                "ffn": {"no_op": False, "ffn_mult": 2.0},
            }
        ]
        * LAYERS
    },
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "spark2_5": {
        "hidden_act": "gelu",
        "rope_parameters": {_FULL: _ROPE, _SLIDING: _ROPE},
    },
}

# Modules that hold parts of models rather than an architecture.
_PARTS = frozenset({"olmo"})


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One model family of mlx-lm."""

    name: str
    module: ModuleType

    def build(self) -> object:
        """Make the model with a tiny configuration and random weights."""
        arguments = self.module.ModelArgs
        model: object = self.module.Model(arguments.from_dict(tiny(arguments, self.name)))
        return model


def architectures() -> list[Architecture]:
    """List the families that mlx-lm can build by itself."""
    found = []
    for info in pkgutil.iter_modules(mlx_lm.models.__path__):
        if info.name in _PARTS:
            continue
        module = importlib.import_module(f"mlx_lm.models.{info.name}")
        if hasattr(module, "ModelArgs") and hasattr(module, "Model"):
            found.append(Architecture(info.name, module))
    return found


def tiny(record: type, name: str) -> dict[str, Value]:
    """Return small values for a record's fields; what has a harmless default keeps it."""
    values: dict[str, Value] = {"model_type": name}
    hints = typing.get_type_hints(record)
    for field in dataclasses.fields(record):
        if field.name == "model_type":
            continue
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if field.name in _SIZES:
            # A field that defaults to None switches something on, unless it is a plain size.
            if not (has_default and field.default is None) or _is_size(field.name):
                values[field.name] = _SIZES[field.name]
        elif not has_default:
            values[field.name] = _blank(hints[field.name], name)
        if field.name == "text_config":
            values[field.name] = tiny(_text_record(record), name)
    family = record.__module__.rsplit(".", 1)[-1]
    return {**values, **_SPECIAL.get(family, {})}


def _is_size(name: str) -> bool:
    return name == "head_dim" or name.startswith(("num_", "n_", "moe_", "q_", "kv_", "qk_", "v_"))


def _text_record(record: type) -> type:
    """Find the record of a multimodal model's text part: its own, or its module's neighbour's."""
    module = importlib.import_module(record.__module__)
    for child in vars(module).values():
        if isinstance(child, ModuleType) and hasattr(child, "ModelArgs"):
            neighbour: type = child.ModelArgs
            return neighbour
    for base in module.Model.__mro__:
        home = importlib.import_module(base.__module__)
        if home is not module and hasattr(home, "TextModelArgs"):
            inherited: type = home.TextModelArgs
            return inherited
    for name in ("TextArgs", "TextConfig", "TextModelArgs"):
        if hasattr(module, name):
            own: type = getattr(module, name)
            return own
    raise LookupError(f"{record.__module__} has a text_config of unknown fields")


def _blank(hint: object, name: str) -> Value:
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    for kind in kinds:
        origin = typing.get_origin(kind) or kind
        if isinstance(origin, type) and dataclasses.is_dataclass(origin):
            return tiny(origin, name)
    first = typing.get_origin(kinds[0]) or kinds[0]
    blanks: Mapping[object, Value] = {
        int: 1,
        float: 1.0,
        bool: False,
        str: "",
        list: [],
        dict: {},
        tuple: (),
    }
    return blanks.get(first)


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in (typing.Union, UnionType)
