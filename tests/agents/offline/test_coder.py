"""The offline coder walks the schedules, and stays near what proved good."""

import mlx.core as mx
import pytest

from kernelwright.agents.offline import OfflineCoder, tuned_before
from kernelwright.agents.offline.tuner import ordered, promising
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import schedules
from kernelwright.metal.schedule import Columnwise, Rowwise, Schedule, Tiled, parse, render

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


@pytest.fixture
def softmax() -> Task:
    graph = capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((8, 512)))
    return Task(canonicalize(graph), "softmax")


def attempt(
    task: Task, proposal: Proposal, status: Status, predicted_us: float | None = None
) -> Attempt:
    evaluation = Evaluation(
        task=task.fingerprint,
        program=proposal.program.id,
        device=DEVICE,
        status=status,
        summary="",
        predicted_us=predicted_us,
    )
    return Attempt(proposal=proposal, evaluation=evaluation)


def test_proposals_differ_and_name_their_schedule(softmax: Task) -> None:
    proposals = OfflineCoder().write(softmax, DEVICE, (), count=6)
    assert len({p.program.id for p in proposals}) == 6
    assert all(isinstance(parse(p.schedule), Rowwise) for p in proposals)
    assert {p.author for p in proposals} == {"offline"}


def test_nothing_is_proposed_twice_and_ideas_run_out(softmax: Task) -> None:
    coder, history = OfflineCoder(), list[Attempt]()
    while fresh := coder.write(softmax, DEVICE, history, count=25):
        history += [attempt(softmax, p, Status.WRONG) for p in fresh]
    assert len({a.proposal.program.id for a in history}) == len(history) > 25


def test_the_search_continues_around_the_fastest_prediction(softmax: Task) -> None:
    coder = OfflineCoder()
    first = coder.write(softmax, DEVICE, (), count=12)
    fastest = next(p for p in first if parse(p.schedule) != parse(first[0].schedule))
    history = [attempt(softmax, p, Status.CORRECT, 1.0 if p is fastest else 9.0) for p in first]
    following = coder.write(softmax, DEVICE, history, count=1)[0]
    assert following.parent == fastest.program.id


def test_a_task_that_no_family_computes_gets_no_proposal() -> None:
    graph = canonicalize(capture(lambda x: x @ x, mx.zeros((96, 96))))
    assert OfflineCoder().write(Task(graph, "matmul"), DEVICE, (), count=3) == ()


def test_what_memory_cannot_serve_in_time_is_never_lowered() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((8, 4096))))
    space = schedules(graph, DEVICE)
    kept = promising(graph, space, DEVICE)
    assert {s.lanes for s in space if isinstance(s, Rowwise)} > {1, 32}
    assert min(s.lanes for s in kept if isinstance(s, Rowwise)) > 1
    assert kept[0] == space[0]


def test_a_small_space_is_a_grid() -> None:
    space = [Rowwise(lanes, 1, 4) for lanes in (64, 128, 256, 512)]
    assert ordered(space[1:], {space[0]: 1.0}, 2) == space[1:]


def test_the_sampler_moves_towards_what_is_quick_and_says_the_same_twice() -> None:
    def cost(schedule: Rowwise) -> float:
        return 1.0 + abs(schedule.lanes - 512) / 64 + 4 / schedule.vector

    lanes, vectors = (32, 64, 128, 256, 512, 1024), (1, 2, 4)
    space = [Rowwise(n, rows, v) for n in lanes for rows in (1, 2, 4) for v in vectors]
    costs: dict[Schedule, float] = {s: cost(s) for s in space[::4]}
    left = [s for s in space if s not in costs]
    first = ordered(left, costs, 4)
    assert first == ordered(left, costs, 4)
    assert set(first) == set(left)
    assert len(first) == len(left)
    expected = [cost(s) for s in first if isinstance(s, Rowwise)]
    assert sum(expected[:4]) / 4 < 0.8 * sum(expected) / len(expected)


def test_the_schedule_expected_to_be_fastest_is_proposed_first() -> None:
    graph = canonicalize(capture(lambda x: mx.sum(x, axis=0), mx.zeros((1024, 512))))
    first = OfflineCoder().write(Task(graph, "sum"), DEVICE, (), count=1)[0]
    schedule = parse(first.schedule)
    assert isinstance(schedule, Columnwise)
    assert schedule.strips == 32


def test_what_is_alike_stays_in_an_engineers_order_and_unmodelled_kinds_in_place() -> None:
    slow, fast, alike, other = Rowwise(32), Rowwise(64), Rowwise(128), Tiled()
    expected: dict[Schedule, float] = {slow: 4.0, fast: 1.0, alike: 1.001}
    assert ordered([slow, other, fast, alike], {}, 2, expected) == [fast, other, alike, slow]


def test_the_sampler_chooses_among_schedules_expected_to_be_fast() -> None:
    space = [Rowwise(n, 1, v) for n in (32, 64, 128, 256, 512, 1024) for v in (1, 2, 4, 8)]
    expected: dict[Schedule, float] = {s: 1.0 if s.vector > 1 else 9.0 for s in space}
    first = ordered(space[1:], {space[0]: 1.0}, 4, expected)
    assert all(isinstance(s, Rowwise) and s.vector > 1 for s in first[:18])


def test_schedules_of_earlier_versions_are_recalled(softmax: Task) -> None:
    best = render(schedules(softmax.graph, DEVICE)[0])
    older = best.replace(", kahan=0", "")
    assert older != best
    assert [p.schedule for p in tuned_before(softmax, DEVICE, [older, "nonsense"])] == [best]
