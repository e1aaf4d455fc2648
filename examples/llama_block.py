"""One transformer block of mlx-lm's Llama, with random weights; needs `pip install mlx-lm`."""

import mlx.core as mx
from mlx_lm.models.llama import ModelArgs, TransformerBlock

ARGS = ModelArgs(
    model_type="llama",
    hidden_size=256,
    num_hidden_layers=1,
    intermediate_size=512,
    num_attention_heads=4,
    num_key_value_heads=2,
    rms_norm_eps=1e-5,
    vocab_size=1024,
)
BLOCK = TransformerBlock(ARGS)
BLOCK.set_dtype(mx.bfloat16)


def llama_block(x):
    return BLOCK(x, mask="causal")


def example_inputs():
    return mx.zeros((1, 32, 256), mx.bfloat16)
