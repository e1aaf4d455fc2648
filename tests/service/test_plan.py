"""`kernelwright plan`: the graph in order, reasons for its cuts, and a sound drawing."""

import io
import json
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import mlx.core as mx
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from kernelwright import ir
from kernelwright.campaign import Subject, capture_subjects, offline_team
from kernelwright.campaign.planning.capturing import FunctionPlan, plan_function
from kernelwright.campaign.planning.launch_graph import Flow
from kernelwright.campaign.planning.plan_summary import PlanOutline, outline
from kernelwright.campaign.planning.traffic import traffic_of
from kernelwright.campaign.planning.work_count import count_work
from kernelwright.errors import InputError
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.plan import partition
from kernelwright.service.commands import app
from kernelwright.service.console import THEME
from kernelwright.service.view.layered import Box, Edge, Key, arrange
from kernelwright.service.view.plan import print_plan
from kernelwright.service.view.plan_svg import draw_plan

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
SVG = "{http://www.w3.org/2000/svg}"
WEIGHT = mx.ones((64, 64), mx.float16)


def block(x: mx.array, scale: mx.array) -> mx.array:
    """Normalize, project, gate and add: two regions, two products, a residual."""
    h = mx.softmax(x * scale, axis=-1) @ WEIGHT
    return x + mx.sigmoid(h) * h @ WEIGHT


def test_steps_come_in_an_order_in_which_they_can_run() -> None:
    plan = outline(_planned())
    known = {"x", "scale"}
    for step in plan.steps:
        assert known.issuperset(step.reads)
        known.add(step.label)
    assert [step.label for step in plan.steps if step.label.startswith("R")] == [
        region.label for region in plan.regions
    ]


def test_every_node_that_works_is_in_one_step() -> None:
    planned = _planned()
    units = Flow(planned.graph, planned.regions).units
    found = sorted(i for unit in units for i in unit.nodes)
    views = {i for i, n in enumerate(planned.graph.nodes) if ir.op_named(n.op).kind is ir.Kind.VIEW}
    assert len(found) == len(set(found))
    assert set(range(len(planned.graph.nodes))) - set(found) <= views


def test_launches_add_up_to_the_traffic_of_the_plan() -> None:
    plan = outline(_planned())
    assert len(plan.steps) == plan.traffic.planned_launches
    assert plan.traffic.planned < plan.traffic.compiled < plan.traffic.eager
    for region in plan.regions:
        assert region.planned.launches == 1
        assert region.planned.nbytes <= region.mlx.nbytes <= region.eager.nbytes


def test_what_stays_with_mlx_has_a_reason() -> None:
    left = {left.op: left for left in outline(_planned()).left}
    assert left["matmul"].count == 2
    assert "contraction" in left["matmul"].reason
    assert "alone it saves nothing" in left["add"].reason


def of_two_sizes(x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
    """Return a table and something larger that reads it."""
    table = mx.exp(x) * 2
    return table + 1, table * y - 1


def around_a_product(x: mx.array) -> mx.array:
    """Use a result before and after a product."""
    h = mx.exp(x) * 2
    return (h @ WEIGHT + 1) * 2 + h


def rows_then_columns(x: mx.array) -> mx.array:
    """Reduce rows, then columns."""
    y = mx.softmax(mx.exp(x) * 2, axis=-1)
    return mx.exp(y - mx.sum(y, axis=0)) * 3


@pytest.mark.parametrize(
    ("function", "shapes", "reason"),
    [
        (of_two_sizes, [(4, 16), (8, 4, 16)], "differ in size"),
        (around_a_product, [(96, 64)], "comes back through matmul"),
        (rows_then_columns, [(32, 64)], "has other rows"),
    ],
    ids=["two sizes", "around a product", "rows then columns"],
)
def test_kernels_that_stay_apart_have_a_reason(
    function: Callable[..., object], shapes: list[tuple[int, ...]], reason: str
) -> None:
    arrays = [mx.zeros(shape, mx.float16) for shape in shapes]
    (seam,) = outline(_planned(function, *arrays)).seams
    assert (seam.source, seam.target) == ("R1", "R2")
    assert reason in seam.reason


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_page_fits_the_terminal_and_names_every_region(width: int) -> None:
    plan = outline(_planned())
    console = Console(theme=THEME, file=io.StringIO(), width=width, highlight=False)
    print_plan(console, plan)
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    for region in plan.regions:
        assert f"▌{region.label}" in text
        assert f"{region.eager.launches} → {region.planned.launches}" in text
    assert "matmul ×2  it is a contraction op" in text
    assert "mx.compile" in text


def test_a_long_graph_shares_rows_among_steps_that_are_alike() -> None:
    def deep(x: mx.array) -> mx.array:
        for _ in range(30):
            x = mx.cumsum(mx.exp(x * 2), axis=-1) @ WEIGHT
        return x

    plan = outline(_planned(deep, mx.zeros((8, 64), mx.float16)))
    assert len(plan.regions) == 30
    console = Console(theme=THEME, file=io.StringIO(), width=100, highlight=False)
    print_plan(console, plan)
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert "×30" in text
    assert len(text.splitlines()) < 30


def test_the_drawing_is_a_file_of_its_own_for_light_and_dark_pages() -> None:
    planned = _planned()
    plan = outline(planned)
    drawing = draw_plan(Flow(planned.graph, planned.regions), plan)
    root = ElementTree.fromstring(drawing)
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    for region in plan.regions:
        assert any(text.startswith(f"{region.label}  ") for text in texts)
    assert sum("matmul" in text for text in texts) == 2
    assert "prefers-color-scheme:dark" in drawing
    # Nothing is fetched: no script, image, font or style sheet from elsewhere.
    assert drawing.count("http") == 1
    assert drawing == draw_plan(Flow(planned.graph, planned.regions), plan)


def test_names_are_escaped_in_the_drawing() -> None:
    plan = outline(_planned()).model_copy(update={"function": "<lambda> & more"})
    planned = _planned()
    root = ElementTree.fromstring(draw_plan(Flow(planned.graph, planned.regions), plan))
    assert "<lambda> & more" in [text.text for text in root.iter(f"{SVG}text")]


def test_a_layout_keeps_boxes_apart_and_leads_every_edge_down() -> None:
    boxes: dict[Key, Box] = {("op", i): Box(30.0 + 7 * i % 5, 20.0) for i in range(12)}
    pairs = [
        (0, 3),
        (0, 4),
        (1, 4),
        (2, 5),
        (3, 6),
        (4, 6),
        (5, 7),
        (0, 7),
        (6, 8),
        (7, 11),
        (2, 11),
    ]
    edges = [Edge(("op", a), ("op", b), 15, 15) for a, b in pairs]
    layout = arrange(boxes, edges, gap=10, drop=12)
    for a, b in combinations(boxes, 2):
        (ax, ay), (bx, by) = layout.corners[a], layout.corners[b]
        is_beside = ax + boxes[a].width <= bx + 1e-6 or bx + boxes[b].width <= ax + 1e-6
        assert is_beside or ay + 20 <= by or by + 20 <= ay
    for route in layout.routes:
        heights = [y for _, y in route]
        assert heights == sorted(heights)
    assert arrange(boxes, edges, gap=10, drop=12) == layout


def test_the_command_draws_prints_and_speaks_json(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    result = _typed("plan", "catalog:softmax_by_hand:f16", "--svg", str(path))
    assert result.exit_code == 0
    assert "softmax" in result.output
    assert ElementTree.parse(path).getroot().tag == f"{SVG}svg"
    (plan,) = json.loads(_typed("plan", "catalog:softmax_by_hand:f16", "--json").output)
    assert PlanOutline.model_validate(plan).traffic.planned_launches == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("catalog:nothing",), "expected a catalog task, found 'nothing'"),
        (("{file}", "--svg", "{folder}/two.svg"), "expected one function for .*found add, double"),
        (("{file}:add", "--svg", "{folder}/no/such.svg"), "cannot be written: No such file"),
    ],
)
def test_a_bad_request_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "functions.py"
    file.write_text(
        "def add(x, y):\n    return x + y\ndef double(x):\n    return x * 2\n"
        "def example_inputs():\n    return {'add': ('f32[2]', 'f32[2]'), 'double': 'f16[3]'}\n"
    )
    result = _typed("plan", *(a.format(file=file, folder=tmp_path) for a in arguments))
    assert isinstance(result.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise result.exception


def _planned(function: Callable[..., object] = block, *inputs: mx.array) -> FunctionPlan:
    arrays = inputs or (mx.zeros((96, 64), mx.float16), mx.zeros((64,), mx.float16))
    subject = Subject("block", function, arrays, {}, "block.py")
    (captured,) = capture_subjects([subject]).functions
    return plan_function(captured, offline_team().planner, DEVICE)


def _typed(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})


@pytest.mark.parametrize(
    "body",
    [
        "with mx.stream(mx.cpu):\n        return mx.exp(x) + 1",
        "return mx.add(mx.exp(x), 1, stream=mx.cpu)",
        "return mx.add(mx.exp(x), 1, stream=OWN)",
        "return inner(x)",
    ],
)
def test_a_stream_of_the_cpu_is_said_not_to_be_kept(tmp_path: Path, body: str) -> None:
    file = tmp_path / "placed.py"
    file.write_text(
        "import mlx.core as mx\nOWN = mx.new_stream(mx.cpu)\n"
        "def inner(x, where=mx.Device(mx.cpu, 0)):\n    return mx.exp(x, stream=where) + 1\n"
        f"def placed(x):\n    {body}\ndef plain(x):\n    return mx.exp(x) + 1\n"
    )
    words = "runs work on a stream of the CPU"
    for name, is_said in (("placed", True), ("plain", False)):
        told = CliRunner().invoke(app, ["plan", f"{file}:{name}", "-i", "f32[8,32]"])
        assert told.exit_code == 0
        assert (words in told.output) == is_said


@pytest.mark.parametrize("function", [mx.exp, partial(mx.softmax, axis=-1)])
def test_a_call_whose_results_are_empty_is_refused(function: Callable[..., mx.array]) -> None:
    subject = Subject("made", function, (mx.zeros((0, 64)),), {}, "made.py")
    with pytest.raises(InputError, match=r"x0 \(f32\[0,64\]\), which has no elements"):
        capture_subjects([subject])


def test_mlx_is_given_the_same_simplification_as_the_regions() -> None:
    def scaled(x: mx.array) -> mx.array:
        return mx.softmax(x * 1.0, axis=-1)

    def plain(x: mx.array) -> mx.array:
        return mx.softmax(x, axis=-1)

    works = []
    for function in (scaled, plain):
        graph = ir.canonicalize(ir.capture(function, mx.zeros((64, 256))))
        works.append((count_work(graph, partition(graph)), traffic_of(graph)))
    assert works[0][0].compiled.nbytes == works[1][0].compiled.nbytes
    assert works[0][0].compiled.launches == works[1][0].compiled.launches
    assert works[0][1] == works[1][1]
