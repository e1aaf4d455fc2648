"""Traffic and cost count what MLX moves: eagerly, compiled, and fused by a plan."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.speed.prediction import predict_baselines
from kernelwright.ir import canonicalize, capture, gather_attention
from kernelwright.ir.passes.standard import standardize
from kernelwright.metal.perf import find_profile
from kernelwright.plan import (
    Profile,
    Traffic,
    baselines,
    best_baseline,
    compiled_traffic,
    cost,
    eager_traffic,
    fast_traffic,
    partition,
    planned_traffic,
)
from kernelwright.plan.cost import best_traffic
from kernelwright.plan.mlx.fusion import compile_launches
from kernelwright.plan.traffic import fast_parts

ROWS, COLUMNS = 64, 256
X = mx.zeros((ROWS, COLUMNS))
W = mx.zeros((COLUMNS,))
MATRIX = X.nbytes
ROW_VALUES = ROWS * 4


def _chain(x: mx.array, w: mx.array) -> mx.array:
    return mx.exp(x + w) * 2


def test_eager_traffic_counts_every_op_and_no_view() -> None:
    graph = canonicalize(capture(_chain, X, W))
    expected = Traffic(MATRIX * 3 + W.nbytes, MATRIX * 3, 3)
    assert eager_traffic(graph) == expected


def test_compiled_traffic_fuses_an_elementwise_chain() -> None:
    graph = canonicalize(capture(_chain, X, W))
    assert compiled_traffic(graph) == Traffic(MATRIX + W.nbytes, MATRIX, 1)


def test_a_plan_reads_inputs_once_across_a_reduction() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x * 2, axis=-1), X))
    assert compiled_traffic(graph) == Traffic(MATRIX * 2, MATRIX * 2, 2)
    assert planned_traffic(graph, partition(graph)) == Traffic(MATRIX, MATRIX, 1)


def planned(function: Callable[..., mx.array]) -> Traffic:
    """Count a function of 8 x 16 floats as one region."""
    (region,) = partition(canonicalize(capture(function, mx.zeros((8, 16)))))
    return cost(region).fused


@pytest.mark.parametrize(
    ("function", "bytes_read"),
    [
        (lambda x: mx.exp(x[::2, 1:9:3]), 4 * 3 * 4),
        (lambda x: mx.exp(x[:, :4]) * x[:, 4:8], 8 * 8 * 4),
        (lambda x: mx.exp(x[:, :8]) * mx.softmax(x, axis=-1)[:, 8:], 8 * 16 * 4),
        (lambda x: mx.exp(mx.split(x, 4, axis=1)[1]) * 2, 8 * 4 * 4),
    ],
    ids=["a part", "two parts", "a part and the whole", "one of four"],
)
def test_a_region_reads_what_its_slices_show(
    function: Callable[..., mx.array], bytes_read: int
) -> None:
    assert planned(function).bytes_read == bytes_read


@pytest.mark.parametrize("rows", [64, 4096])
def test_what_is_read_by_index_counts_as_often_as_it_is_named(rows: int) -> None:
    """Neither a table's length nor how many experts there are is what MLX reads."""
    table, places = mx.zeros((rows, 32)), mx.zeros((16,), mx.int32)
    embed = canonicalize(capture(lambda t, i: mx.exp(t[i]), table, places))
    row_bytes = 16 * 32 * 4
    index_bytes = 16 * 4
    assert eager_traffic(embed).nbytes == index_bytes + 4 * row_bytes
    assert compiled_traffic(embed).launches == 2
    picked = canonicalize(
        capture(lambda t, i: mx.take_along_axis(t, i[:, None], axis=0), table, places)
    )
    assert eager_traffic(picked).bytes_read < 2 * row_bytes
    few, weights = mx.zeros((2, 1, 32)), mx.zeros((rows, 32, 8))
    chosen = mx.zeros((2, 3), mx.uint32)
    experts = canonicalize(
        capture(lambda x, w, i: mx.gather_mm(x[:, None], w, rhs_indices=i), few, weights, chosen)
    )
    assert eager_traffic(experts).bytes_read < 8 * 32 * 8 * 4


def test_a_plan_reads_of_a_transposed_array_what_is_chosen_of_it() -> None:
    def product(x: mx.array, w: mx.array, chosen: mx.array) -> mx.array:
        return mx.exp(mx.gather_mm(x, w.swapaxes(-1, -2), rhs_indices=chosen))

    arrays = mx.zeros((1, 32)), mx.zeros((64, 8, 32)), mx.zeros((2,), mx.uint32)
    graph = canonicalize(capture(product, *arrays))
    (region,) = partition(graph)
    matrices = 2 * 8 * 32 * 4
    assert matrices < planned_traffic(graph, [region]).bytes_read < 2 * matrices


def test_a_mean_is_a_sum_and_a_product_to_eager_mlx() -> None:
    graph = canonicalize(capture(lambda x: x.mean(axis=-1), X))
    assert eager_traffic(graph) == Traffic(MATRIX + ROW_VALUES, 2 * ROW_VALUES, 2)


def test_a_reshape_of_a_transpose_copies() -> None:
    graph = canonicalize(capture(lambda x, y: x.T.reshape(-1) + y, X, X.reshape(-1)))
    assert eager_traffic(graph).launches == 2


def test_a_value_used_outside_stays_unfused_by_compile() -> None:
    graph = canonicalize(capture(lambda x: mx.exp(x).sum() + mx.sin(mx.exp(x)).max(), X))
    exponential = [n.op for n in graph.nodes].index("exp")
    from kernelwright.plan.mlx.fusion import compile_groups

    (group,) = [g for g in compile_groups(graph) if exponential in g]
    assert group == (exponential,)


def test_compile_stops_at_its_depth() -> None:
    def deep(x: mx.array) -> mx.array:
        for _ in range(30):
            x = mx.sin(x)
        return x

    graph = canonicalize(capture(deep, X))
    assert compiled_traffic(graph).launches == 3


def test_a_region_that_compile_fuses_gains_nothing_over_it() -> None:
    (region,) = partition(canonicalize(capture(_chain, X, W)))
    found = cost(region)
    assert found.benefit_over_compile_us == 0.0
    assert found.benefit_us > 0.0


def test_a_region_with_a_reduction_gains_over_compile() -> None:
    (region,) = partition(canonicalize(capture(lambda x: mx.softmax(x * 2, axis=-1), X)))
    found = cost(region)
    assert found.fused == Traffic(MATRIX, MATRIX, 1)
    assert found.benefit_us > 0.0
    assert found.benefit_over_compile_us == pytest.approx(found.benefit_us)
    assert found.threadgroup_bytes > 0


def test_recomputation_is_charged() -> None:
    graph = canonicalize(capture(lambda x, w: x * mx.sin(w), X, W))
    (region,) = partition(graph)
    assert cost(region).recomputed_flops == (ROWS - 1) * 8 * COLUMNS


def test_a_faster_memory_lowers_the_benefit() -> None:
    (region,) = partition(canonicalize(capture(_chain, X, W)))
    fast = Profile(bytes_per_us=1e6, launch_us=0.0)
    slow = Profile(bytes_per_us=1e5, launch_us=0.0)
    ratio = cost(region, slow).benefit_us / cost(region, fast).benefit_us
    assert ratio == pytest.approx(10.0)


def test_mx_fast_computes_the_angles_of_a_rotary_embedding_itself() -> None:
    x = mx.zeros((1, 4, 16, 8))

    def rope(x: mx.array) -> mx.array:
        return mx.fast.rope(x, 8, traditional=False, base=10000.0, scale=1.0, offset=0)

    assert fast_traffic(canonicalize(capture(rope, x))) == Traffic(x.nbytes, x.nbytes, 1)


def test_mx_fast_takes_no_tables_of_a_rotary_embedding() -> None:
    x, table = mx.zeros((4, 16, 8)), mx.zeros((16, 4))

    def rope(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        a, b = x[..., 0::2], x[..., 1::2]
        return mx.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)

    graph = canonicalize(capture(rope, x, table, table))
    assert fast_traffic(graph) == compiled_traffic(graph)
    assert fast_traffic(graph).launches > 1


def _turned(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return mx.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


def _tables(pairs: int) -> tuple[mx.array, mx.array]:
    angles = mx.arange(6)[:, None] * mx.exp(mx.arange(pairs) * -0.5)
    return mx.cos(angles), mx.sin(angles)


def _scaled(x: mx.array) -> mx.array:
    """As YaRN scales queries and keys, by their tables."""
    cosine, sine = _tables(8)
    return _turned(x, cosine * 1.2, 1.2 * sine)


def _at_the_end(x: mx.array) -> mx.array:
    return mx.concatenate([x[..., :8], _turned(x[..., 8:], *_tables(4))], axis=-1)


ROPES: dict[str, tuple[Callable[[mx.array], mx.array], int]] = {
    "all of a row": (lambda x: _turned(x, *_tables(8)), 1),
    "its beginning": (
        lambda x: mx.concatenate([_turned(x[..., :8], *_tables(4)), x[..., 8:]], axis=-1),
        1,
    ),
    "what is cut from it": (lambda x: _turned(x[..., 8:], *_tables(4)), 1),
    "its end, joined again": (_at_the_end, 2),
    "scaled tables": (_scaled, 2),
}


@pytest.mark.parametrize("name", ROPES)
def test_mx_fast_turns_the_first_places_of_rows_and_scales_none(name: str) -> None:
    function, launches = ROPES[name]
    graph = canonicalize(capture(function, mx.zeros((1, 4, 6, 16))))
    assert fast_traffic(graph).launches == best_traffic(graph).launches == launches


@pytest.mark.parametrize("tables", ["unlike", "shuffled", "scaled apart"])
def test_mx_fast_turns_by_no_other_tables(tables: str) -> None:
    def function(x: mx.array) -> mx.array:
        cosine, sine = _tables(8)
        other = {"unlike": sine * cosine, "shuffled": sine[::-1], "scaled apart": 1.1 * sine}
        return _turned(x, cosine, other[tables])

    graph = canonicalize(capture(function, mx.zeros((1, 4, 6, 16))))
    assert fast_traffic(graph) == compiled_traffic(graph)


def test_mlx_at_its_best_takes_a_kernel_of_its_own_where_that_is_faster() -> None:
    norm = canonicalize(capture(lambda x, w: mx.fast.rms_norm(x, w, 1e-5), X, W))
    assert best_traffic(norm) == fast_traffic(norm)
    assert best_traffic(norm).launches < compiled_traffic(norm).launches
    chain = canonicalize(capture(_chain, X, W))
    assert best_traffic(chain) == compiled_traffic(chain)


@pytest.mark.parametrize("tokens", [1, 2, 128])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.sampled(6)
def test_rope_is_one_launch_for_any_count_of_tokens_and_wherever_it_begins(
    tokens: int, dtype: mx.Dtype, traditional: bool
) -> None:
    """Tables of one row are numbers where the offset is one, and hang on an input else."""
    x = mx.zeros((1, 4, tokens, 32), dtype)

    def turned(x: mx.array, offset: mx.array | int = 9) -> mx.array:
        return mx.fast.rope(x, 32, traditional=traditional, base=5e5, scale=1.0, offset=offset)

    for arrays in ([x], [x, mx.array(9)]):
        graph = canonicalize(capture(turned, *arrays))
        assert fast_traffic(graph).launches == 1
        (name,) = fast_parts(graph).values()
        assert name == "rope"


def test_heads_that_are_normed_with_a_weight_and_turned_are_four_launches() -> None:
    """Queries and keys of a decode step; what is turned is a norm's product with its weight."""

    def turned(
        q: mx.array, k: mx.array, a: mx.array, b: mx.array, offset: mx.array
    ) -> tuple[mx.array, mx.array]:
        def one(x: mx.array, weight: mx.array, heads: int) -> mx.array:
            rows = mx.fast.rms_norm(x.reshape(1, 1, heads, 32), weight, 1e-6)
            return mx.fast.rope(
                rows.transpose(0, 2, 1, 3),
                32,
                traditional=False,
                base=1e6,
                scale=1.0,
                offset=offset,
            )

        return one(q, a, 4), one(k, b, 2)

    weight = mx.ones(32, mx.bfloat16)
    q, k = mx.zeros((1, 1, 128), mx.bfloat16), mx.zeros((1, 1, 64), mx.bfloat16)
    graph = canonicalize(capture(turned, q, k, weight, weight * 2, mx.array(5)))
    assert sorted(fast_parts(graph).values()) == ["rms_norm", "rms_norm", "rope", "rope"]
    assert fast_traffic(graph).launches == 4


def _margin(x: mx.array) -> mx.array:
    ordered = mx.sort(mx.softmax(x, axis=-1), axis=-1)
    return ordered[:, -1] - ordered[:, -2]


def _with_places(x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    places = mx.argpartition(x, kth=-4, axis=-1)
    return places[:, -1:], places[:, -2:-1], mx.sort(x, axis=-1)[:, :2]


@pytest.mark.parametrize(("function", "launches"), [(_margin, 3), (_with_places, 2)])
def test_ranks_of_one_sorted_array_are_one_sort_to_mlx(
    function: Callable[[mx.array], mx.array], launches: int
) -> None:
    graph = canonicalize(capture(function, X))
    for count in baselines(graph).ways:
        assert count.launches == launches
        assert count.bytes_written >= (launches - 1) * MATRIX
    assert sum(compile_launches(graph).values()) == launches


def _spread(x: mx.array) -> tuple[mx.array, mx.array]:
    spread = mx.sqrt(mx.sum(x * 3, axis=-1) + 1)
    return mx.max(x, axis=-1) / spread, spread


def test_mlx_runs_a_function_as_it_is_written_where_that_is_cheaper() -> None:
    graph = canonicalize(capture(_spread, X))
    found = baselines(graph)
    assert found.eager == eager_traffic(graph)
    assert found.eager.launches == 6
    assert found.compiled == compiled_traffic(graph)
    assert found.fast == fast_traffic(graph)


def test_mlx_runs_the_standard_form_where_that_is_cheaper() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x * 1.0, axis=-1), X))
    assert eager_traffic(graph).launches == 2
    assert baselines(graph).eager.launches == best_baseline(graph).launches == 1


def _divided(x: mx.array) -> tuple[mx.array, mx.array]:
    root = mx.sqrt(mx.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    return x / root, root


def _times_inverse(x: mx.array) -> tuple[mx.array, mx.array]:
    root = mx.sqrt(mx.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    return x * (1 / root), root


def _apart(x: mx.array) -> tuple[mx.array, mx.array]:
    root = mx.sqrt(x)
    return mx.exp(x) / root, root


@pytest.mark.parametrize("function", [_divided, _times_inverse, _apart])
def test_a_root_that_is_wanted_counts_alike_in_a_function_and_in_its_task(
    function: Callable[[mx.array], tuple[mx.array, mx.array]],
) -> None:
    written = capture(function, mx.zeros((96, 320)))
    task = standardize(written)
    assert {"sqrt", "rsqrt"} <= {node.op for node in task.nodes}
    assert baselines(task).compiled == baselines(written).compiled
    profile = find_profile("m4-pro")
    predicted = predict_baselines(task, profile)["compile"]
    assert predicted == predict_baselines(written, profile)["compile"]


def test_a_mask_that_is_made_of_positions_is_written_and_read_by_mlx() -> None:
    def biased(q: mx.array, k: mx.array, v: mx.array, bias: mx.array) -> mx.array:
        return mx.softmax(q @ k.swapaxes(-1, -2) * 0.125 + bias, axis=-1) @ v

    def by_distance(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        place = mx.arange(64)
        return biased(q, k, v, -mx.abs(place[:, None] - place[None]).astype(q.dtype))

    heads, bias = mx.zeros((1, 16, 64, 64), mx.float16), mx.zeros((64, 64), mx.float16)
    with mx.stream(mx.cpu):
        made, given = (
            gather_attention(canonicalize(capture(function, *arrays)))
            for function, arrays in (
                (by_distance, (heads, heads, heads)),
                (biased, (heads, heads, heads, bias)),
            )
        )
    assert fast_traffic(given).launches == 1
    assert fast_traffic(made).launches > 1
    assert fast_traffic(made).nbytes >= fast_traffic(given).nbytes + bias.nbytes
