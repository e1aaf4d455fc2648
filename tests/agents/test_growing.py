"""Programs whose inputs are as long as others together, from a draft to a module for any size."""

import importlib.util
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.graph_text import task_text
from kernelwright.campaign import Engine, SearchSpec, Subject, capture_subjects, offline_team
from kernelwright.campaign.execution.judge import judge_on
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.team.model_team import open_team
from kernelwright.errors import InputError
from kernelwright.evaluator import Evaluator, EvaluatorConfig, Stage, Task
from kernelwright.evaluator.inputs.shape import hidden_graphs, sizes_at
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.registry import open_device
from kernelwright.runtime.export import export_module
from kernelwright.service.python.champion import Champion
from kernelwright.store import KernelStore
from tests.agents.loopback.growing import GROWING, Growing, Shapes
from tests.agents.loopback.model import ScriptedModel
from tests.agents.loopback.partner import QUICK
from tests.agents.loopback.scene import DEVICE, submitted
from tests.agents.loopback.server import LoopbackServer

JUDGED = EvaluatorConfig(secret="growing", generic_shapes=1, case_elements=0)
CONFIG = EvaluatorConfig(secret="growing", through=Stage.HIDDEN, generic_shapes=2, case_elements=0)


def graph_of(case: Growing, shapes: Shapes) -> Graph:
    return canonicalize(capture(case.function, *map(mx.zeros, shapes)))


def task_of(case: Growing) -> Task:
    return Task(graph_of(case, case.shapes), "growing")


def drawn(shapes: Shapes, seed: int) -> tuple[mx.array, ...]:
    keys = mx.random.split(mx.random.key(seed), len(shapes))
    return tuple(mx.random.normal(s, key=k) for s, k in zip(shapes, keys, strict=True))


def results(made: object) -> list[Array]:
    return [np.array(array) for array in (made if isinstance(made, tuple) else (made,))]


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(config=CONFIG) as evaluator:
        yield evaluator


@pytest.mark.parametrize("case", GROWING.values(), ids=GROWING)
def test_extents_of_inputs_are_sums_and_products_of_dimensions(case: Growing) -> None:
    program = case.draft.program(Interface(task_of(case)))
    assert tuple(tensor.shape for tensor in program.inputs) == case.extents


@pytest.mark.parametrize("case", GROWING.values(), ids=GROWING)
@pytest.mark.sampled(3)
def test_it_is_judged_at_hidden_sizes_whose_parts_vary_alone(
    case: Growing, evaluator: Evaluator
) -> None:
    task = task_of(case)
    program = case.draft.program(Interface(task))
    sizes = [sizes_at(program, graph) for graph in hidden_graphs(task, program, CONFIG)]
    for name in program.dimensions:
        others = {tuple(n for other, n in one.items() if other != name) for one in sizes}
        assert len({one[name] for one in sizes}) > 2
        assert len(others) > 2 or len(program.dimensions) == 1
    assert evaluator.evaluate(task, program).status.value == "correct"


@pytest.mark.parametrize("case", GROWING.values(), ids=GROWING)
def test_it_agrees_with_mlx_at_other_sizes(case: Growing) -> None:
    program = case.draft.program(Interface(task_of(case)))
    device = open_device("simulator")
    for seed, shapes in enumerate(case.others):
        arrays = drawn(shapes, seed)
        bound = program.bind(graph_of(case, shapes).input_types)
        found = device.compile(bound).run([np.array(a) for a in arrays], RunOptions()).outputs
        for mine, theirs in zip(found, results(case.function(*arrays)), strict=True):
            assert np.allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_an_agent_is_told_which_axes_follow_from_others() -> None:
    text = task_text(task_of(GROWING["cached attention"]), DEVICE)
    assert "- `n3` = 6 (keys axis 1, values axis 1)" in text
    assert "- `n3 + n1` = 9 (mask axis 1)" in text


def test_a_dimension_that_is_not_claimed_is_a_number_of_the_sum() -> None:
    case = GROWING["joined norm"]
    half = case.draft.model_copy(update={"any_size": ["n1"]})
    program = half.program(Interface(task_of(case)))
    assert [tensor.shape for tensor in program.inputs] == [(6, "n1"), (6, 7), ("n1 + 7",)]


def test_parts_of_one_size_grow_together() -> None:
    case = GROWING["joined norm"]
    square = Task(graph_of(case, ((6, 8), (6, 8), (16,))), "square")
    program = case.draft.model_copy(update={"any_size": ["n0", "n1"]}).program(Interface(square))
    assert [tensor.shape for tensor in program.inputs] == [
        ("n0", "n1"),
        ("n0", "n1"),
        ("n1 * 2",),
    ]


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launches(
    module: ModuleType, name: str, arrays: Sequence[mx.array], patch: pytest.MonkeyPatch
) -> int:
    """Count the kernels that a call launches, from MLX's own tracer, as if this were a Mac."""
    found: list[str] = []
    with patch.context() as here:
        here.setattr(mx.metal, "is_available", lambda: True)
        here.setattr(mx, "default_device", lambda: mx.gpu)
        mx.export_function(
            lambda event: found.append(str(event.get("name"))), getattr(module, name), *arrays
        )
    return found.count("CustomKernel")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("windowed differences", ((3, 9), (3, 7))),
        ("joined norm", ((6, 5), (6, 7), (13,))),
    ],
)
@pytest.mark.sampled(1)
def test_a_search_ends_in_a_module_that_serves_other_sizes(
    name: str, wrong: Shapes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = GROWING[name]
    subject = Subject("growing", case.function, drawn(case.shapes, 0), {}, "growing.py")
    with (
        LoopbackServer(ScriptedModel(submitted(case.draft))) as server,
        KernelStore(str(tmp_path / "kernels.db")) as store,
    ):
        spec = SearchSpec(
            models=("openai:gpt-5",),
            base_url=server.base_url("openai"),
            candidates_per_task=1,
            batch=1,
            jobs=1,
        )
        judge = partial(judge_on, "simulator", JUDGED)
        with open_team(store, spec, QUICK) as team_factory:
            settings = RunSettings(team_factory=team_factory)
            Engine(store, spec, offline_team(), judge, settings).run(capture_subjects([subject]))
        (best,) = store.best()
        detail = store.show(best.candidate_id)
        assert tuple(tensor.shape for tensor in detail.program.inputs) == case.extents
        export_module(detail, name="growing").write(tmp_path)
    champion = Champion(best.candidate_id, str(tmp_path / "kernels.db"))
    module = imported(tmp_path / "growing.py")
    for seed, shapes in enumerate((case.shapes, *case.others)):
        arrays = drawn(shapes, seed)
        found = zip(results(champion(*arrays)), results(case.function(*arrays)), strict=True)
        assert all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in found)
        assert launches(module, "growing", arrays, monkeypatch) == 1
    with pytest.raises(InputError, match=r"takes .*, found .*; search the function for these"):
        champion(*drawn(wrong, 0))
    with pytest.raises(ValueError, match=r"cannot be broadcast|has to have the same size"):
        module.growing(*drawn(wrong, 0))


def test_sizes_that_contradict_each_other_are_refused_in_a_sentence() -> None:
    case = GROWING["joined norm"]
    program = case.draft.program(Interface(task_of(case)))
    types = graph_of(case, case.shapes).input_types
    longer = graph_of(case, ((6, 5), (6, 8), (13,))).input_types
    with pytest.raises(InputError, match=r"weight has n1 \+ n2 = 12 elements .* found 13\.$"):
        program.bind([*types[:2], longer[2]])
