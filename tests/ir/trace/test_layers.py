"""MLX's layers, losses and their gradients replay exactly, before and after canonicalisation."""

from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.nn import losses
from mlx.nn.layers import activations
from mlx.nn.layers.base import Module
from mlx.nn.utils import value_and_grad

from kernelwright import ir
from kernelwright.plan import legality, partition
from tests.ir.functions import flat

Layer = Callable[[], Module]


def _image() -> mx.array:
    return mx.random.normal((2, 6, 6, 4), key=mx.random.key(1))


def _sequence() -> mx.array:
    return mx.random.normal((2, 5, 8), key=mx.random.key(2))


def layer(name: str, *arguments: object, **named: object) -> Layer:
    def make() -> Module:
        found: Module = getattr(nn, name)(*arguments, **named)
        return found

    make.__name__ = name
    return make


ACTIVATIONS = (
    "CELU ELU GELU GLU HardShrink HardTanh Hardswish Identity LeakyReLU LogSigmoid LogSoftmax "
    "Mish PReLU ReLU ReLU2 ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign "
    "Step Tanh"
)
SEQUENCE_LAYERS: tuple[Layer, ...] = (
    *(layer(name) for name in ACTIVATIONS.split()),
    layer("Linear", 8, 6),
    layer("LayerNorm", 8),
    layer("RMSNorm", 8),
    layer("GroupNorm", 2, 8),
    layer("InstanceNorm", 8, affine=True),
    layer("BatchNorm", 8),
    layer("RoPE", 8),
    layer("RoPE", 8, traditional=True),
    layer("Conv1d", 8, 6, 3, padding=1),
    layer("ConvTranspose1d", 8, 6, 3, stride=2),
    layer("AvgPool1d", 2),
    layer("MaxPool1d", 2),
    layer("RNN", 8, 6),
    layer("GRU", 8, 6),
    layer("LSTM", 8, 6),
    layer("Upsample", 2.0, mode="linear", align_corners=True),
)
IMAGE_LAYERS: tuple[Layer, ...] = (
    layer("Conv2d", 4, 6, 3, stride=2, padding=1),
    layer("Conv2d", 4, 8, 3, groups=2, dilation=2),
    layer("ConvTranspose2d", 4, 6, 3, stride=2, output_padding=1),
    layer("AvgPool2d", 2),
    layer("MaxPool2d", 3, stride=2, padding=1),
    layer("Upsample", 2.0, mode="nearest"),
    layer("Upsample", 2.0, mode="cubic"),
    layer("BatchNorm", 4),
)
CASES = [(make, _sequence) for make in SEQUENCE_LAYERS] + [(make, _image) for make in IMAGE_LAYERS]


def assert_exact(function: Callable[..., object], *inputs: mx.array) -> ir.Graph:
    mx.disable_compile()
    try:
        expected = flat(function(*inputs))
        mx.eval(expected)
    finally:
        mx.enable_compile()
    graph = ir.capture(function, *inputs)
    canonical = ir.canonicalize(graph)
    ir.verify(canonical)
    for candidate in (graph, canonical):
        for found, wanted in zip(ir.interpret(candidate, *inputs), expected, strict=True):
            assert found.dtype == wanted.dtype
            assert mx.array_equal(found, wanted, equal_nan=True)
    for region in partition(canonical):
        assert legality(region).is_legal
    return canonical


@pytest.mark.parametrize(("make", "inputs"), CASES, ids=lambda case: case.__name__)
def test_a_layer_replays_exactly(make: Layer, inputs: Callable[[], mx.array]) -> None:
    mx.random.seed(3)
    module = make()
    module.eval()
    assert_exact(lambda x: module(x), inputs())


@pytest.mark.parametrize(("make", "inputs"), CASES, ids=lambda case: case.__name__)
def test_the_gradient_of_a_layer_replays_exactly(
    make: Layer, inputs: Callable[[], mx.array]
) -> None:
    mx.random.seed(3)
    module = make()
    module.eval()

    def loss(x: mx.array) -> mx.array:
        made = module(x)
        return mx.square(flat([*made] if isinstance(made, tuple) else made)[0]).sum()

    assert_exact(lambda x: list(mx.value_and_grad(loss)(x)), inputs())


def _pair(seed: int = 0) -> tuple[mx.array, mx.array]:
    keys = mx.random.split(mx.random.key(seed), 2)
    return mx.random.normal((6, 8), key=keys[0]), mx.random.normal((6, 8), key=keys[1])


CLASSES = mx.array([0, 3, 7, 1, 2, 5])
LOSSES: dict[str, Callable[[mx.array, mx.array], mx.array]] = {
    "cross entropy": lambda x, y: losses.cross_entropy(x, CLASSES, reduction="mean"),
    "smoothed": lambda x, y: losses.cross_entropy(x, CLASSES, label_smoothing=0.1),
    "soft targets": lambda x, y: losses.cross_entropy(x, mx.softmax(y, axis=-1)),
    "binary": lambda x, y: losses.binary_cross_entropy(x, mx.sigmoid(y)),
    "l1": lambda x, y: losses.l1_loss(x, y),
    "mse": lambda x, y: losses.mse_loss(x, y),
    "nll": lambda x, y: losses.nll_loss(x, CLASSES),
    "gaussian": lambda x, y: losses.gaussian_nll_loss(x, y, mx.abs(y) + 1),
    "kl": lambda x, y: losses.kl_div_loss(activations.log_softmax(x), activations.log_softmax(y)),
    "smooth l1": lambda x, y: losses.smooth_l1_loss(x, y),
    "triplet": lambda x, y: losses.triplet_loss(x, y, x + y),
    "hinge": lambda x, y: losses.hinge_loss(x, mx.sign(y)),
    "huber": lambda x, y: losses.huber_loss(x, y),
    "log cosh": lambda x, y: losses.log_cosh_loss(x, y),
    "cosine": lambda x, y: losses.cosine_similarity_loss(x, y),
    "margin": lambda x, y: losses.margin_ranking_loss(x[0], y[0], mx.sign(x[1])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient_replay_exactly(name: str) -> None:
    loss = LOSSES[name]
    assert_exact(loss, *_pair())
    gradient = mx.value_and_grad(lambda x, y: loss(x, y).sum(), argnums=(0, 1))
    assert_exact(lambda x, y: flat([[gradient(x, y)[0]], [*gradient(x, y)[1]]]), *_pair(1))


def test_the_gradient_of_parameters_replays_exactly() -> None:
    mx.random.seed(5)
    block = layer("TransformerEncoderLayer", 8, 2, 16, dropout=0.0)()

    def loss(model: Module, x: mx.array) -> mx.array:
        return mx.square(model(x, None)).mean()

    both = value_and_grad(block, loss)
    graph = assert_exact(lambda x: both(block, x), _sequence())
    assert len(graph.outputs) > 10
