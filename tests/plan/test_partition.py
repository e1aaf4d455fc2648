"""Regions are legal, disjoint and deterministic, and say why they are not larger."""

from collections.abc import Callable

import mlx.core as mx
import pytest
from hypothesis import given, settings
from mlx.nn import losses

from kernelwright import ir
from kernelwright.ir import Graph, Region, canonicalize, capture
from kernelwright.metal.family import Pattern, classify
from kernelwright.plan import Profile, legality, partition
from tests.ir.programs import Program, example, programs

X = mx.random.normal((4, 8), key=mx.random.key(0))
W = mx.ones((8,))
LABELS = mx.array([1, 0, 7, 3])


def graph_of(function: Callable[..., object], *arrays: mx.array) -> Graph:
    return canonicalize(capture(function, *arrays))


def gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x / 2**0.5)) / 2


def layer_norm_gelu(x: mx.array, w: mx.array) -> mx.array:
    return gelu(mx.fast.layer_norm(x, w, w, 1e-5))


def residual_norm(x: mx.array, r: mx.array, w: mx.array) -> list[mx.array]:
    h = x + r
    return [mx.fast.rms_norm(h, w, 1e-5), h]


def written_softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def loss_gradient(x: mx.array, labels: mx.array) -> mx.array:
    return mx.grad(lambda x: mx.mean(losses.cross_entropy(x, labels)))(x)  # type: ignore[no-any-return]


def slice_gradient(x: mx.array) -> mx.array:
    return mx.grad(lambda x: mx.sum(mx.tanh(x[:, 2:4]) * x[:, 1::5]))(x)  # type: ignore[no-any-return]


def updated(x: mx.array) -> mx.array:
    y = mx.softmax(x, axis=-1)
    y[:, 0] = 0
    y[:, 1::2] += 1
    return y


@pytest.mark.parametrize(
    ("function", "arrays", "pattern"),
    [
        (loss_gradient, [X, LABELS], Pattern.ROWWISE),
        (slice_gradient, [X], Pattern.ELEMENTWISE),
        (updated, [X], Pattern.ROWWISE),
        (lambda x, w: mx.sigmoid(x + w) * x, [X, W], Pattern.ELEMENTWISE),
        (residual_norm, [X, X, W], Pattern.ROWWISE),
        (layer_norm_gelu, [X, W], Pattern.ROWWISE),
        (written_softmax, [X], Pattern.ROWWISE),
        (lambda x: mx.softmax(mx.where(x > 0, x, -mx.inf), axis=-1), [X], Pattern.ROWWISE),
        (lambda x: mx.softmax(x.T * 2, axis=-1), [X], Pattern.ROWWISE),
        (lambda x: mx.mean((x * 2) ** 2), [X], Pattern.ROWWISE),
        (lambda x: mx.softmax(x * 2, axis=0), [X], Pattern.ROWWISE),
        (lambda x: mx.exp(mx.cumsum(-mx.abs(x), axis=-1)), [X], Pattern.SCAN),
        (lambda x, w: x * mx.rsqrt(mx.var(x, 0) + 1) * w, [X, W], Pattern.ROWWISE),
        (lambda x, w: mx.sum(x[..., None] * w, axis=1), [X, W], Pattern.ROWWISE),
    ],
)
def test_one_region_covers_what_one_kernel_can_do(
    function: Callable[..., object], arrays: list[mx.array], pattern: Pattern
) -> None:
    graph = graph_of(function, *arrays)
    (region,) = partition(graph)
    family = classify(region.extract())
    assert family.pattern is pattern
    assert legality(region).is_legal
    left = set(range(len(graph.nodes))) - set(region.indices)
    assert all(ir.op_named(graph.nodes[i].op).kind is ir.Kind.VIEW for i in left)


def test_a_row_family_says_what_a_row_is() -> None:
    family = classify(graph_of(residual_norm, X, X, W))
    assert (family.shape, family.axes) == ((4, 8), (1,))
    assert (family.row_count, family.row_length) == (4, 8)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: mx.tile(x, (20, 1)) @ x.T, "a product of more than 64 rows is left to MLX"),
        (lambda x: mx.sort(x * 2, axis=-1), "sort is a sort op"),
        (
            lambda x: x.mean(axis=0) + x.mean(axis=1)[0],
            r"mean over axes \(1,\) of \(4, 8\) has other",
        ),
        (lambda x: mx.softmax(x, axis=-1).mean(axis=0), r"mean over axes \(0,\) .* has other rows"),
        (lambda x: x * x.mean(axis=0)[::-1], r"slice from \(8,\) to \(8,\) mixes rows"),
        (lambda x: x.max(axis=-1).sum() * x, r"sum over axes \(0,\) of \(4,\) has other rows"),
        (lambda x: mx.softmax(x, axis=-1)[::-1], "mixes rows"),
        (lambda x: mx.cumsum(x, axis=-1)[:, ::-1], "slice moves what a scan made"),
        (lambda x: mx.cumsum(x - mx.max(x), axis=-1), "max and a scan are not one kernel yet"),
        (lambda x: [x + 1, x[:2, :3] * 2], "differ in size"),
        (
            lambda x: x.T.at[1:3].add(mx.exp(x[:, 1:3].T))[None],
            "slice_update alone is done in place",
        ),
        (lambda x: mx.put_along_axis(x, mx.argmin(x, 1, True), x[:, :1], 1), "is done in place"),
        (lambda x: mx.fft.fft(x), "Metal has no complex64"),
        (
            lambda x: (x[:, 8:] + 1, mx.exp(x)),
            r"an array without elements, f\d+\[4,0\]",
        ),
    ],
)
def test_what_no_family_computes_has_a_reason(
    function: Callable[[mx.array], object], reason: str
) -> None:
    import re

    family = classify(graph_of(function, X))
    assert family.pattern is Pattern.NONE
    assert re.search(reason, family.reason)


def test_a_part_without_elements_is_served_within_a_graph() -> None:
    graph = graph_of(lambda x: mx.concatenate([x[:, 8:], mx.exp(x)], axis=1), X)
    assert classify(graph).pattern is Pattern.ELEMENTWISE


def test_a_region_that_waits_for_itself_is_illegal() -> None:
    graph = graph_of(lambda x: mx.exp(x) + mx.sort(mx.exp(x), axis=-1), X)
    names = [n.op for n in graph.nodes]
    around = Region(graph, (names.index("exp"), names.index("add")))
    assert str(legality(around)) == "its result comes back through sort, which is not in it"


def test_nodes_that_share_nothing_are_not_a_region() -> None:
    graph = graph_of(lambda x, y: [mx.exp(x), mx.sin(y)], X, X)
    assert "share no value" in str(legality(Region(graph, (0, 1))))


def test_a_barrier_is_never_inside() -> None:
    graph = graph_of(lambda x: mx.exp(mx.fft.fft(x).real) * 2, X)
    fused = {n.op for region in partition(graph) for n in region.nodes}
    assert "fft" not in fused
    assert "exp" in fused


def test_too_many_buffers_are_refused() -> None:
    inputs = [X * i for i in range(40)]
    graph = graph_of(lambda *xs: sum(xs[1:], xs[0]), *inputs)
    whole = Region(graph, tuple(range(len(graph.nodes))))
    assert "a Metal function takes 31" in str(legality(whole))
    regions = partition(graph)
    assert len(regions) > 1
    assert all(legality(region).is_legal for region in regions)


def test_a_single_op_is_a_region_only_when_there_is_no_better() -> None:
    assert len(partition(graph_of(lambda x: mx.softmax(x, axis=-1), X))) == 1
    graph = graph_of(lambda x: mx.softmax(x @ x.T, axis=-1) @ mx.sigmoid(x * 2), X)
    assert [r.nodes[-1].op for r in partition(graph)] == ["sigmoid"]


def test_views_that_mlx_copies_are_a_region_only_when_there_is_no_other() -> None:
    (region,) = partition(graph_of(lambda x: mx.repeat(mx.repeat(x, 2, axis=0), 2, axis=1), X))
    assert {n.op for n in region.nodes} == {"reshape", "broadcast"}
    assert classify(region.extract()).pattern is Pattern.ELEMENTWISE
    assert partition(graph_of(lambda x: x.T, X)) == []


@given(program=programs(14))
@settings(max_examples=60, deadline=None)
def test_regions_are_legal_disjoint_and_replaceable(program: Program) -> None:
    inputs = example(0)
    graph = graph_of(program, *inputs)
    regions = partition(graph)
    assert [r.indices for r in partition(graph)] == [r.indices for r in regions]
    seen: set[int] = set()
    for region in regions:
        assert legality(region).is_legal, ir.describe(region.extract())
        assert seen.isdisjoint(region.indices)
        seen.update(region.indices)
        ir.verify(region.extract())
    _run_by_regions(graph, regions, inputs)


def _run_by_regions(graph: Graph, regions: list[Region], inputs: list[mx.array]) -> None:
    """Run each region as one unit as soon as its inputs exist: no cut may deadlock.

    Bits stay, but where a region's graph says its pattern in other ops than the whole.
    """
    from kernelwright.ir.trace.interpret import constant_array

    values = dict(zip(graph.inputs, inputs, strict=True))
    values.update({v: constant_array(c) for v, c in graph.constants})
    inside = {i for region in regions for i in region.indices}
    single = [Region(graph, (i,)) for i in range(len(graph.nodes)) if i not in inside]
    waiting, is_reworded = [*regions, *single], False
    while waiting:
        ready = [r for r in waiting if all(v in values for v in r.inputs)]
        assert ready, "regions wait for each other"
        for region in ready:
            extracted = region.extract()
            is_reworded |= [n.op for n in extracted.nodes] != [n.op for n in region.nodes]
            made = ir.interpret(extracted, *[values[v] for v in region.inputs])
            values.update(zip(region.outputs, made, strict=True))
            waiting.remove(region)
    expected = ir.interpret(graph, *inputs)
    for value, array in zip(graph.outputs, expected, strict=True):
        if is_reworded:
            assert mx.allclose(values[value], array, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert mx.array_equal(values[value], array, equal_nan=True)


@given(program=programs(12))
@settings(max_examples=25, deadline=None)
def test_a_beam_is_legal_deterministic_and_never_slower(program: Program) -> None:
    inputs = example(0)
    graph = graph_of(program, *inputs)
    greedy, beam = partition(graph), partition(graph, width=4)
    assert [r.indices for r in partition(graph, width=4)] == [r.indices for r in beam]
    assert all(legality(region).is_legal for region in beam)
    times = [_estimated_us(graph, regions) for regions in (beam, greedy)]
    assert times[0] <= times[1] + 1e-6
    _run_by_regions(graph, beam, inputs)


def _estimated_us(graph: Graph, regions: list[Region]) -> float:
    from kernelwright.plan.cluster import Judge, is_fused

    judge = Judge(graph, Profile())
    covered = {i for region in regions for i in region.indices}
    left = [i for i, n in enumerate(graph.nodes) if is_fused(graph, n) and i not in covered]
    singles = [frozenset({i}) for i in left]
    return sum(map(judge.time_us, [*(frozenset(r.indices) for r in regions), *singles]))


def test_a_wider_beam_finds_a_cut_that_greed_misses() -> None:
    # Greedily, the row sums join the wide map that reads them; but recomputing the costly
    # functions of a broadcast row for every element costs more than storing them once.
    def fn(x: mx.array, w: mx.array) -> mx.array:
        v = w
        for _ in range(12):
            v = mx.sin(mx.exp(mx.tanh(v)))
        return x * v

    graph = graph_of(fn, mx.zeros((4096, 256)), mx.zeros((256,)))
    slow_math = Profile(flops_per_us=1e5)
    assert len(partition(graph, profile=slow_math)) == 1
    (region,) = partition(graph, width=4, profile=slow_math)
    assert "multiply" not in [n.op for n in region.nodes]
