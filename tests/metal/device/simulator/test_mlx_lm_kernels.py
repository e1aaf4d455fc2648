"""The kernels that mlx-lm gives to `mx.fast.metal_kernel` against their references."""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from unittest.mock import patch

import ml_dtypes
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.nn.layers.normalization import RMSNorm

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.diagnostic import ReportKind, SanitizerReport
from kernelwright.metal.kernel import Kernel, Program, Tensor

_METAL_KERNEL = mx.fast.metal_kernel

Import = Callable[[str], ModuleType]


def _dtype(dtype: mx.Dtype) -> Dtype:
    return Dtype.parse(str(dtype).removeprefix("mlx.core."))


def _numpy(array: mx.array) -> Array:
    mx.eval(array)
    if array.dtype == mx.bfloat16:
        return np.array(array.astype(mx.float32)).astype(ml_dtypes.bfloat16)
    return np.array(array)


def _mlx(array: Array, dtype: Dtype) -> mx.array:
    if dtype is Dtype.BFLOAT16:
        return mx.array(array.astype(np.float32)).astype(mx.bfloat16)
    return mx.array(array)


@dataclass
class SimulatedKernel:
    """Stands for what `mx.fast.metal_kernel` returns and runs it on the simulator."""

    name: str
    input_names: Sequence[str]
    output_names: Sequence[str]
    source: str
    header: str = ""
    ensure_row_contiguous: bool = True
    atomic_outputs: bool = False
    options: RunOptions = field(default_factory=RunOptions)
    reports: tuple[SanitizerReport, ...] = ()

    def __call__(
        self,
        *,
        inputs: Sequence[mx.array | int | float],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        output_shapes: Sequence[tuple[int, ...]],
        output_dtypes: Sequence[mx.Dtype],
        template: Sequence[tuple[str, mx.Dtype | bool | int]] = (),
        init_value: float | None = None,
    ) -> list[mx.array]:
        arrays = [a if isinstance(a, mx.array) else mx.array(a) for a in inputs]
        tensors = [
            Tensor(name=n, dtype=_dtype(a.dtype), shape=tuple(a.shape))
            for n, a in zip(self.input_names, arrays, strict=True)
        ]
        outputs = [
            Tensor(name=n, dtype=_dtype(d), shape=tuple(s))
            for n, d, s in zip(self.output_names, output_dtypes, output_shapes, strict=True)
        ]
        kernel = Kernel(
            name=self.name,
            inputs=tuple(self.input_names),
            outputs=tuple(self.output_names),
            source=self.source,
            header=self.header,
            template={n: _dtype(v) if isinstance(v, mx.Dtype) else v for n, v in template},
            grid=grid,
            threadgroup=threadgroup,
            ensure_row_contiguous=self.ensure_row_contiguous,
            atomic_outputs=self.atomic_outputs,
            init_value=init_value,
        )
        program = Program(inputs=tuple(tensors), outputs=tuple(outputs), kernels=(kernel,))
        types = [TensorType(tuple(a.shape), _dtype(a.dtype)) for a in arrays]
        # The device asks MLX itself for the text around the body.
        with patch.object(mx.fast, "metal_kernel", _METAL_KERNEL):
            executable = SimulatorDevice().compile(program.bind(types))
        result = executable.run([_numpy(a) for a in arrays], self.options)
        self.reports = result.reports
        return [_mlx(a, t.dtype) for a, t in zip(result.outputs, outputs, strict=True)]


@pytest.fixture
def import_simulated(monkeypatch: pytest.MonkeyPatch) -> Import:
    """Import a module of mlx-lm anew, with its Metal kernels on the simulator."""
    monkeypatch.setattr(mx.fast, "metal_kernel", SimulatedKernel)
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    mx.set_default_device(mx.cpu)

    def load(name: str) -> ModuleType:
        utils = importlib.import_module("mlx_lm.utils")
        monkeypatch.setattr(utils, "can_run_metal", lambda: True)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def _random(*shape: int, seed: int = 0, dtype: mx.Dtype = mx.float32) -> mx.array:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return mx.array(values).astype(dtype)


def _close(found: mx.array, expected: mx.array, tolerance: float = 1e-5) -> None:
    a, b = (_numpy(each.astype(mx.float32)).astype(np.float64) for each in (found, expected))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float32, 1e-5), (mx.bfloat16, 2e-2)])
def test_head_norms(import_simulated: Import, dtype: mx.Dtype, tolerance: float) -> None:
    module = import_simulated("mlx_lm.kernels.qk_norm")
    heads, kv_heads, width = 4, 2, 80
    x = _random(3, 2 * (heads + kv_heads) * width, dtype=dtype)
    q, k = module.qk_norm(
        x, n_heads=heads, n_kv_heads=kv_heads, head_dim=width, eps=1e-5, query_scale=0.5
    )
    parts = x[:, : (heads + kv_heads) * width].reshape(3, -1, width)
    normed = mx.fast.rms_norm(parts, None, 1e-5)
    _close(q, normed[:, :heads] * 0.5, tolerance)
    _close(k, normed[:, heads:], tolerance)


def test_head_norms_with_rotation(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.kernels.qk_norm_rope")
    heads, kv_heads, width, length = 2, 1, 64, 5
    x = _random(1, length, 2 * (heads + kv_heads) * width)
    q, k = module.qk_norm_rope(
        x, n_heads=heads, n_kv_heads=kv_heads, head_dim=width, eps=1e-5,
        query_scale=0.5, rope_base=10000.0, offset=3,
    )  # fmt: skip
    parts = x[..., : (heads + kv_heads) * width].reshape(1, length, -1, width)
    normed = mx.fast.rms_norm(parts, None, 1e-5).swapaxes(1, 2)
    rope = mx.fast.rope(normed, width, traditional=True, base=10000.0, scale=1.0, offset=3)
    rope = rope.swapaxes(1, 2)
    _close(q, rope[:, :, :heads] * 0.5)
    _close(k, rope[:, :, heads:])


def test_expert_routing(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.kernels.expert_routing")
    logits, bias = _random(6, 40), _random(40, seed=1)
    inds, weights = module.expert_routing(
        logits, bias, top_k=4, multiplier=1.5, score_eps=1e-6, route_scale=2.0
    )
    scores = mx.sigmoid(logits * 1.5)
    expected = mx.argsort(-(scores + bias), axis=-1)[:, :4]
    chosen = mx.take_along_axis(scores, expected, axis=-1)
    np.testing.assert_array_equal(_numpy(inds), _numpy(expected))
    _close(weights, chosen / (chosen.sum(axis=-1, keepdims=True) + 1e-6) * 2.0)


def test_combination_of_normed_experts(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.kernels.post_expert_norm_combine")
    experts, weights, norm = _random(3, 4, 600), _random(3, 4, seed=1), _random(600, seed=2)
    found = module.post_expert_norm_combine(experts, weights, norm_weight=norm, eps=1e-5)
    normed = mx.fast.rms_norm(experts * norm, None, 1e-5)
    _close(found, (normed * weights[..., None]).sum(axis=-2))


def test_sigmoid_gate_of_a_transposed_norm(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.kernels.rms_norm_sigmoid_gate")
    x, gate = _random(2, 5, 3, 64).swapaxes(1, 2), _random(2, 5, 3 * 64, seed=1)
    found = module.rms_norm_sigmoid_gate(x, gate, eps=1e-5)
    normed = mx.fast.rms_norm(x, None, 1e-5).swapaxes(1, 2).reshape(2, 5, -1)
    _close(found, normed * mx.sigmoid(gate))


def test_norm_add_norm(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.kernels.norm_add_norm")
    branch, stream = _random(3, 500), _random(3, 500, seed=1)
    alpha, beta, weight = (_random(500, seed=s) for s in (2, 3, 4))
    norm = RMSNorm(500, eps=1e-6)
    found, normed = module.norm_add_norm(
        branch, stream, alpha=alpha, beta=beta, post_weight=weight, post_eps=1e-5, next_norm=norm
    )
    expected = alpha * stream + beta * mx.fast.rms_norm(weight * branch, None, 1e-5)
    _close(found, expected)
    _close(normed, norm(expected))
    _close(module.pre_norm(expected, norm, dtype=mx.float32), norm(expected))


@pytest.mark.parametrize(("width", "gates"), [(128, 3), (64, 3), (64, 4)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.sampled(2)
def test_gated_delta_rule(import_simulated: Import, width: int, gates: int, masked: bool) -> None:
    module = import_simulated("mlx_lm.models.gated_delta")
    batch, length, key_heads, heads, values = 1, 4, 2, 4, 16
    q, k = (_random(batch, length, key_heads, width, seed=s) * 0.1 for s in (1, 2))
    v = _random(batch, length, heads, values, seed=3)
    g_shape = (batch, length, heads) if gates == 3 else (batch, length, heads, width)
    g = mx.sigmoid(_random(*g_shape, seed=4))
    beta = mx.sigmoid(_random(batch, length, heads, seed=5))
    state = _random(batch, heads, values, width, seed=6)
    mask = mx.array([[True, True, False, True]]) if masked else None
    y, final = module.gated_delta_kernel(q, k, v, g, beta, state, mask)
    expected, expected_state = module.gated_delta_ops(q, k, v, g, beta, state, mask)
    if mask is not None:
        y, expected = y * mask[..., None, None], expected * mask[..., None, None]
    _close(y, expected)
    _close(final, expected_state)


def test_state_space_step(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.models.ssm")
    heads, width, groups, states = 4, 16, 2, 64
    x = _random(2, 1, heads, width)
    a_log, d, bias = (_random(heads, seed=s) for s in (1, 2, 3))
    b, c = (_random(2, 1, groups, states, seed=s) for s in (4, 5))
    dt, state = _random(2, 1, heads, seed=6), _random(2, heads, width, states, seed=7)
    arguments = (x, a_log, b, c, d, dt, bias)
    y, final = module.ssm_update_kernel(*arguments, state, (0.001, 100.0))
    expected, expected_state = module.ssm_attn(*arguments, state, (0.001, 100.0))
    _close(y, expected, 1e-4)
    _close(final, expected_state, 1e-4)


def test_rwkv7_recurrence(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.models.rwkv7")
    parts = [_random(1, 3, 2, 64, seed=s) * 0.2 for s in range(6)]
    state = _random(1, 2, 64, 64, seed=9)
    y, final = module.wkv7_kernel(*parts, state)
    expected = []
    for t in range(3):
        step, state = module._wkv7_step_ops(*(p[:, t] for p in parts), state)
        expected.append(step)
    _close(y, mx.stack(expected, axis=1).reshape(y.shape), 1e-4)
    _close(final, state, 1e-4)


def test_attention_over_residual_blocks(
    import_simulated: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_simulated("mlx_lm.models.kimi_k3")
    blocks = module.ResidualBlocks(1e-6)
    for seed in range(3):
        blocks.append(_random(2, 5, 96, seed=seed))
    partial, weight = _random(2, 5, 96, seed=5), _random(96, seed=6)
    expected = module._attn_res_mix(blocks, partial, weight, 1e-6, use_kernel=False)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    _close(module._attn_res_mix(blocks, partial, weight, 1e-6), expected)


def test_sinkhorn_iterations(import_simulated: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_simulated("mlx_lm.models.deepseek_v41")
    matrices, eps = mx.exp(_random(7, 4, 4)), mx.array([1e-6])
    expected = module._sinkhorn(matrices, iters=3, eps=eps)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    _close(module._sinkhorn(matrices, iters=3, eps=eps), expected)


def test_ternary_weights(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.models.bitlinear_layers")
    layer = module.BitLinear(256, 64, bias=False)
    ternary = np.random.default_rng(1).integers(0, 3, (4, 16, 256)).astype(np.uint8)
    layer.weight = mx.array(sum(ternary[i] << (2 * i) for i in range(4)))
    layer.weight_scale = mx.array([2.0])
    x = _random(3, 256)
    weight = mx.array(ternary.reshape(64, 256).astype(np.float32) - 1)
    _close(layer(x), x @ weight.T * 2.0, 1e-4)


@dataclass
class RepairedKernel(SimulatedKernel):
    """The divergence kernels of mlx-lm 0.32.2 with the barriers that they lack."""

    def __post_init__(self) -> None:
        barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
        shares = "// Share the sum_exp across the threadgroup"
        self.source = self.source.replace("mem_flags::mem_none", "mem_flags::mem_threadgroup")
        self.source = self.source.replace(shares, barrier)


@pytest.mark.parametrize("size", [1000, 5000])
def test_divergence_losses_and_their_gradients(
    import_simulated: Import, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(mx.fast, "metal_kernel", RepairedKernel)
    module = import_simulated("mlx_lm.tuner.losses")
    q, p = _random(2, size), _random(2, size, seed=1)

    def reference(q: mx.array, p: mx.array) -> mx.array:
        a, b = (each - mx.logsumexp(each, axis=-1, keepdims=True) for each in (q, p))
        return nn.losses.kl_div_loss(a, b, axis=-1, reduction="none")

    _close(module.kl_div_loss(q, p), reference(q, p), 1e-4)
    (found,) = mx.vjp(lambda q: module.kl_div_loss(q, p), [q], [mx.ones(2)])[1]
    (expected,) = mx.vjp(lambda q: reference(q, p), [q], [mx.ones(2)])[1]
    _close(found, expected, 1e-5)


def test_the_sanitizer_sees_the_race_in_the_divergence_losses(import_simulated: Import) -> None:
    module = import_simulated("mlx_lm.tuner.losses")
    kernel = module._kl_forward_kernel
    kernel.options = RunOptions(sanitize=True)
    module.kl_div_loss(_random(2, 1000), _random(2, 1000, seed=1))
    races = {r.line for r in kernel.reports if r.kind is ReportKind.THREADGROUP_RACE}
    lines = kernel.source.split("\n")
    assert any("max_q = shared" in lines[line - 1] for line in races)
