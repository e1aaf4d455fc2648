"""Capturing keeps exactly what MLX's tracer reports, and says clearly what it cannot capture."""

import functools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.linear import Linear

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir import Dtype, Graph, TensorType, canonicalize, capture, interpret
from kernelwright.ir.graph import Attribute
from kernelwright.ir.trace.arguments import rebuild
from kernelwright.ir.trace.array import is_array
from kernelwright.ir.trace.primitive import translate

X = mx.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def test_inputs_are_named_after_the_parameters() -> None:
    graph = capture(lambda x, *, scale, bias: x * scale + bias, X, scale=X, bias=X[0])
    assert graph.input_names() == ("x", "bias", "scale")
    assert graph.keywords == ("bias", "scale")


def test_keyword_inputs_do_not_depend_on_the_order_of_the_call() -> None:
    def fn(x: mx.array, *, a: mx.array, b: mx.array) -> mx.array:
        return x * a - b

    graph = capture(fn, X, b=X[0], a=X)
    assert graph == capture(fn, X, a=X, b=X[0])
    assert mx.array_equal(interpret(graph, X, b=X[0], a=X)[0], X * X - X[0])


def test_nests_of_arrays_are_flattened_and_named() -> None:
    def fn(x: mx.array, cache: dict[str, list[mx.array]], scale: float) -> dict[str, mx.array]:
        return {"sum": x + cache["keys"][0], "product": x * cache["keys"][1] * scale}

    cache = {"keys": [X, X + 1]}
    graph = capture(fn, X, cache, 2.0)
    assert graph.input_names() == ("x", "cache.keys.0", "cache.keys.1")
    replayed = interpret(graph, X, cache, 2.0)
    assert mx.array_equal(replayed[1], X * (X + 1) * 2.0)


def test_parameters_of_a_module_are_constants_not_their_initialisation() -> None:
    layer = Linear(3, 4)
    graph = capture(layer, X)
    assert [n.op for n in graph.nodes] == ["transpose", "broadcast", "addmm"]
    assert len(graph.constants) == 2


def test_parameters_behind_closures_methods_and_partials_are_constants_too() -> None:
    class Block:
        def __init__(self) -> None:
            self.inner = Linear(3, 4)

        def forward(self, x: mx.array, scale: float) -> mx.array:
            return self.inner(x) * scale

    layer = Linear(3, 4)

    def inner(x: mx.array) -> mx.array:
        return layer(x)

    def outer(x: mx.array) -> mx.array:
        return inner(x)

    block = Block()
    for fn in (outer, functools.partial(block.forward, scale=2.0)):
        assert not {"random_bits", "arange"} & {n.op for n in capture(fn, X).nodes}


def test_numpy_arrays_serve_as_examples() -> None:
    graph = capture(lambda x: x + 1, np.ones((2, 2), np.float16))
    assert str(graph.input_types[0]) == "f16[2,2]"


def test_an_output_may_be_an_input_or_a_constant() -> None:
    graph = capture(lambda x: (x, mx.array([1, 2])), X)
    first, second = interpret(graph, X)
    assert mx.array_equal(first, X)
    assert second.tolist() == [1, 2]


def test_a_compiled_function_is_traced_through() -> None:
    def fn(x: mx.array) -> mx.array:
        return mx.exp(x) * 2

    graph = capture(mx.compile(fn), X)
    assert [n.op for n in graph.nodes] == ["exp", "broadcast", "multiply"]


@pytest.mark.parametrize("enabled", [True, False])
def test_compilation_stays_as_it_was(enabled: bool) -> None:
    from kernelwright.ir.trace.tracing import _compile_is_enabled

    (mx.enable_compile if enabled else mx.disable_compile)()
    try:
        capture(lambda x: x + 1, X)
        assert _compile_is_enabled() is enabled
    finally:
        mx.enable_compile()


def test_shapes_are_recorded_and_not_the_minus_one_that_was_written() -> None:
    graph = capture(lambda x: x.reshape(3, -1), X)
    assert graph.nodes[0].attribute("shape") == (3, 2)


def test_a_dtype_attribute_is_kept() -> None:
    graph = capture(lambda x: x.astype(mx.bfloat16), X)
    assert graph.nodes[0].attribute("dtype") is Dtype.BFLOAT16


def test_an_unknown_primitive_is_kept_by_its_own_name() -> None:
    assert translate("NewOp", (1, 2.5), TensorType((2,), Dtype.FLOAT32)) == (
        "NewOp",
        (("argument_0", 1), ("argument_1", 2.5)),
    )


@pytest.mark.parametrize(
    ("primitive", "arguments"),
    [
        ("Reduce", (6, 0)),
        ("Scan", (9, 0, False, True)),
        ("Sqrt", (2,)),
        ("ArgReduce", ("max", 0)),
        ("Scatter", (5, 0)),
        ("ScatterAxis", (2, 0)),
        ("QuantizedMatmul", (64, 4, 4, True)),
        ("QuantizedMatmul", (64, 4)),
    ],
)
def test_an_unknown_variant_of_a_primitive_is_refused_in_a_sentence(
    primitive: str, arguments: tuple[Attribute, ...]
) -> None:
    said = rf"variants of MLX's {primitive} \(.*; leave that op outside the function, or use"
    with pytest.raises(UnsupportedError, match=said):
        translate(primitive, arguments, TensorType((2,), Dtype.FLOAT32))


def test_a_kernel_call_is_kept_and_never_replayed() -> None:
    kernel = mx.fast.metal_kernel(
        name="k", input_names=["a"], output_names=["b"], source="b[0] = a[0];"
    )

    def fn(x: mx.array) -> mx.array:
        return kernel(  # type: ignore[operator,no-any-return]
            inputs=[x],
            output_shapes=[x.shape],
            output_dtypes=[x.dtype],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            init_value=1.5,
        )[0]

    graph = capture(fn, X)
    assert graph.nodes[0].op == "custom_kernel"
    with pytest.raises(UnsupportedError, match="custom_kernel"):
        interpret(graph, X)


def test_graphs_survive_json() -> None:
    graph = capture(lambda x: mx.where(x > 0, x, -mx.inf).astype(mx.float16), X)
    assert Graph.from_json(graph.to_json()) == graph


def _branches(x: mx.array) -> mx.array:
    return x if x.sum() > 0 else -x


def _leaves_mlx(x: mx.array) -> mx.array:
    return mx.array(np.array(x))


@pytest.mark.parametrize(
    ("fn", "arrays", "message"),
    [
        (_branches, [X], "looks at the values of an array"),
        (_leaves_mlx, [X], "looks at the values of an array"),
        (lambda x, y: x, [X], r"cannot be called with 1 positional .*'y'"),
        (lambda x: x.shape[0], [X], r"returns int \(2\), expected MLX arrays"),
        (lambda x: None, [X], "returns no arrays; return what it computes"),
        (lambda x: {"x": [None]}, [X], "returns no arrays"),
        (lambda x: x, [3], "returns int"),
        (lambda x: x @ x, [X], "raised ValueError while it was traced"),
        ("not a function", [X], "expected a function of MLX arrays"),
    ],
)
def test_what_cannot_be_captured_is_said_in_a_sentence(
    fn: Callable[..., object], arrays: list[object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        capture(fn, *arrays)


def test_a_primitive_that_mlx_cannot_export_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"BitwiseInvert, which MLX cannot export; write x"):
        capture(lambda x: ~x, mx.array([1, 2]))


def test_replay_refuses_other_arrays_than_it_was_captured_for() -> None:
    graph = capture(lambda x: x + 1, X)
    with pytest.raises(InputError, match=r"x was captured as f32\[2,3\], found f16\[2,3\]"):
        interpret(graph, X.astype(mx.float16))
    with pytest.raises(InputError, match=r"takes 1 arrays \(x\), found 2"):
        interpret(graph, X, X)


def test_weights_are_not_copied_and_survive_what_happens_to_them() -> None:
    weight = mx.random.normal((256, 256), key=mx.random.key(0)).astype(mx.bfloat16)
    before = mx.array(weight)
    mx.eval(before)
    graph = capture(lambda x: x @ weight, mx.ones((2, 256), mx.bfloat16))
    assert isinstance(graph.constants[0][1].data, memoryview)
    weight[0] = 7.0
    mx.eval(weight)
    found = interpret(graph, mx.ones((2, 256), mx.bfloat16))[0]
    assert mx.array_equal(found, mx.ones((2, 256), mx.bfloat16) @ before)
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert Graph.from_json(graph.to_json()).fingerprint == graph.fingerprint


@dataclass(slots=True)
class _Pair:
    first: mx.array
    second: mx.array
    scale: float = 2.0


def test_a_dataclass_with_slots_goes_in_and_comes_out() -> None:
    def function(pair: _Pair) -> _Pair:
        return _Pair(mx.exp(pair.first) * pair.scale, pair.second + 1)

    graph = capture(function, _Pair(mx.zeros(4), mx.zeros(4)))
    assert len(graph.inputs) == len(graph.outputs) == 2
    made = rebuild(_Pair(mx.zeros(4), mx.zeros(4)), [mx.ones(4), mx.ones(4)], is_array)
    assert isinstance(made, _Pair)
    assert made.scale == 2.0
    assert made.first.sum().item() == 4


def _flipped(bits: mx.array) -> mx.array:
    shifted = bits << 1
    kept = ~shifted
    return kept & 7


def _named(bits: mx.array) -> mx.array:
    more = bits + 1
    small = _flipped(more)
    return small * 2


def _unnamed(bits: mx.array) -> mx.array:
    more = bits + 1
    return (~more) * 2


@pytest.mark.parametrize(
    ("function", "where", "after"), [(_named, _flipped, 2), (_unnamed, _unnamed, 2)]
)
def test_what_mlx_cannot_export_is_refused_with_the_line_that_makes_it(
    function: Callable[[mx.array], mx.array], where: FunctionType, after: int
) -> None:
    line = where.__code__.co_firstlineno + after
    with pytest.raises(UnsupportedError, match=rf"test_capture\.py:{line}\) uses MLX's primitive"):
        capture(function, mx.array([1, 2], mx.int32))


async def _coroutine(x: mx.array) -> mx.array:
    return mx.exp(x)


def _generator(x: mx.array) -> Iterator[mx.array]:
    yield mx.exp(x)


class _Asynchronous:
    async def __call__(self, x: mx.array) -> mx.array:
        return mx.exp(x)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_coroutine, "_coroutine is a coroutine"),
        (functools.partial(_coroutine), "partial is a coroutine"),
        (_Asynchronous(), "_Asynchronous is a coroutine"),
        (_generator, "_generator is a generator"),
    ],
)
def test_what_computes_nothing_when_it_is_called_is_not_called(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"{words}, which computes nothing"):
        capture(function, mx.zeros(4))


def test_a_capture_draws_nothing_from_the_programs_random_numbers() -> None:
    mx.random.seed(3)
    expected = mx.random.normal((4,))
    mx.random.seed(3)
    capture(lambda x: x * mx.random.normal((4,)), mx.ones((4,)))
    assert mx.array_equal(mx.random.normal((4,)), expected)


def test_examples_of_inputs_are_never_computed() -> None:
    example = mx.zeros((1 << 24, 1 << 12))
    before = mx.get_active_memory()
    capture(lambda x: x + 1, example)
    assert mx.get_active_memory() - before < 1 << 20


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: (-a, mx.stop_gradient(-a)),
        lambda a: (mx.stop_gradient(-a), -a, mx.stop_gradient(mx.stop_gradient(-a))),
        lambda a: (mx.exp(a), mx.stop_gradient(a), mx.stop_gradient(mx.exp(a))),
    ],
)
def test_results_that_are_one_behind_stop_gradient_are_all_kept(
    fn: Callable[[mx.array], tuple[mx.array, ...]],
) -> None:
    x = mx.array([[1.0, -2.0, 0.5]])
    graph = canonicalize(capture(fn, x))
    for found, wanted in zip(interpret(graph, x), fn(x), strict=True):
        assert mx.array_equal(found, wanted)
