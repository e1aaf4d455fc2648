"""What is exported works in a project that has MLX and nothing else."""

import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.agents.protocols import Proposal
from kernelwright.errors import InputError
from kernelwright.evaluator import Evaluation, Stage, Status, Task
from kernelwright.evaluator.evaluation import OutputAccuracy, StageResult
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.metal.device.base import Counters, DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition
from kernelwright.runtime.export import FormatName, export_as, export_module
from kernelwright.runtime.export.test_code import telling_places
from kernelwright.store import CandidateDetail, Environment, KernelStore, NewTrial

INFO = DeviceInfo(name="simulator", chip="x86_64", runtime="ziglang 0.17.0", measures_time=False)
ENVIRONMENT = Environment(device=INFO, mlx="0.32.4", system="Linux x86_64")
Make = Callable[..., CandidateDetail]


@dataclass(frozen=True)
class Launched:
    """A kernel in MLX's graph: the text that it generated, and the launch."""

    source: str
    grid: tuple[int, ...]
    threadgroup: tuple[int, ...]


def residual_rms_norm(x: mx.array, residual: mx.array, weight: mx.array) -> tuple[mx.array, ...]:
    hidden = x + residual
    return hidden, mx.fast.rms_norm(hidden, weight, 1e-5)


def masked_softmax(scores: mx.array, mask: mx.array) -> mx.array:
    return mx.softmax(mx.where(mask, scores, mx.finfo(scores.dtype).min), axis=-1)


def whole_parts(x: mx.array, y: mx.array) -> mx.array:
    return x // y + x % y


def cancelled(x: mx.array) -> mx.array:
    y = x * 0.1
    return mx.square(y + 100) - mx.square(y) - y * 200 - 10000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Record a lowered kernel in a store with the verdict that a test wants."""
    with KernelStore(str(tmp_path / "kernels.db")) as store:

        def record(
            function: Callable[..., object],
            *inputs: mx.array,
            status: Status = Status.CORRECT,
            stages: tuple[Stage, ...] = (Stage.CORRECTNESS, Stage.HIDDEN),
        ) -> CandidateDetail:
            (region,) = partition(canonicalize(capture(function, *inputs)))
            graph = region.extract()
            return _recorded(store, graph, function.__name__, status, stages)

        yield record


def _recorded(
    store: KernelStore,
    graph: Graph,
    name: str,
    status: Status,
    stages: tuple[Stage, ...],
) -> CandidateDetail:
    task = Task(graph, name)
    program = lower(graph, schedules(graph, INFO)[0])
    proposal = Proposal(program=program, author="offline", idea="one row at a time")
    campaign = store.begin_campaign(name="test", spec="{}", environment=ENVIRONMENT)
    trial = store.add_trial(
        NewTrial(campaign.id, task, proposal.program, proposal.author, proposal.idea)
    )
    verdict = Evaluation(
        task=task.fingerprint,
        program=program.id,
        device=INFO,
        status=status,
        summary="output 0 is wrong" if status is Status.WRONG else "correct in 14 cases",
        stages=tuple(
            StageResult(stage=stage, passed=status is Status.CORRECT, summary="")
            for stage in stages
        ),
        accuracy=(
            OutputAccuracy(
                output=0,
                maximum_absolute=1e-3,
                maximum_relative=1e-2,
                row_relative=2e-3,
                reference_row_relative=2e-3,
                bound=4e-3,
            ),
        ),
        cases=14,
        predicted_us=8.5,
    )
    store.record(trial.id, verdict, rank=None)
    return store.show(trial.candidate_id)


def _arrays(rows: int = 8) -> tuple[mx.array, mx.array, mx.array]:
    generator = mx.random.key(3)
    x = mx.random.normal((rows, 64), key=generator).astype(mx.bfloat16)
    return x, x * 2, mx.ones((64,), mx.bfloat16)


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def grown(x: mx.array, start: mx.array) -> mx.array:
    """Read the second parameter first."""
    return mx.exp(start) - x


def test_arguments_keep_the_order_of_the_function(make: Make, tmp_path: Path) -> None:
    x, start = mx.ones((4, 8)), mx.full((4, 8), 2.0)
    detail = make(grown, x, start)
    assert detail.graph.input_names() == ("start", "x")
    export_module(detail).write(tmp_path)
    module = _imported(tmp_path / "grown.py")
    assert list(inspect.signature(module.grown).parameters) == ["x", "start"]
    assert list(inspect.signature(module.reference).parameters) == ["x", "start"]
    assert mx.allclose(module.grown(x, start), grown(x, start)).item()


@pytest.mark.parametrize("format_name", ["cpp", "swift"])
def test_callers_take_arrays_in_the_order_of_the_function(
    make: Make, format_name: FormatName
) -> None:
    export = export_as(format_name, [make(grown, mx.ones((4, 8)), mx.full((4, 8), 2.0))])
    # The kernel reads `start` first, which is passed behind `x`.
    assert re.search(r"[\[{]start, x[\]}]", export.files[0].text)


def test_exported_tests_pass_without_kernelwright(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "vendored"
    export_module(make(residual_rms_norm, *_arrays())).write(folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    if not mx.metal.is_available():
        assert "needs an Apple GPU" in done.stdout
    assert "kernelwright" not in (folder / "residual_rms_norm.py").read_text().replace(
        "Kernelwright", ""
    )


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (whole_parts, (mx.zeros((6, 9), mx.int32), mx.zeros((6, 9), mx.int32))),
        (cancelled, (mx.zeros((6, 9)),)),
    ],
)
def test_exported_tests_ask_for_nothing_that_mlx_leaves_open(
    make: Make, tmp_path: Path, function: Callable[..., object], inputs: tuple[mx.array, ...]
) -> None:
    folder = tmp_path / "vendored"
    export_module(make(function, *inputs)).write(folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout


def test_exported_tests_fail_for_a_wrong_fallback(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "vendored"
    export_module(make(residual_rms_norm, *_arrays())).write(folder)
    module = folder / "residual_rms_norm.py"
    module.write_text(module.read_text().replace("* weight", "* 1"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1


def test_without_a_gpu_the_wrapper_gives_mlxs_own_result(make: Make, tmp_path: Path) -> None:
    export_module(make(residual_rms_norm, *_arrays())).write(tmp_path)
    module = _imported(tmp_path / "residual_rms_norm.py")
    with mx.stream(mx.cpu):
        found = module.residual_rms_norm(*_arrays(3))
        wanted = residual_rms_norm(*_arrays(3))
    assert all(mx.array_equal(a, b).item() for a, b in zip(found, wanted, strict=True))


def test_where_metal_is_the_wrapper_launches_the_kernel_as_evaluated(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = make(residual_rms_norm, *_arrays())
    export_module(detail).write(tmp_path)
    module = _imported(tmp_path / "residual_rms_norm.py")
    launches = _traced(module.residual_rms_norm, _arrays(), monkeypatch)
    bound = detail.program.bind(detail.graph.input_types)
    assert [(x.grid, x.threadgroup) for x in launches] == [
        (launch.grid, launch.threadgroup) for launch in bound.launches
    ]
    assert detail.program.kernels[0].source.strip() in launches[0].source


@pytest.mark.parametrize(
    "change",
    [
        lambda x, r, w: (x.astype(mx.float32), r, w),
        lambda x, r, w: (x[:, :32], r[:, :32], w[:32]),
        lambda x, r, w: (x[None], r[None], w),
    ],
    ids=["dtype", "row length", "rank"],
)
def test_what_was_not_verified_goes_to_the_fallback(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[..., tuple[mx.array, ...]],
) -> None:
    export_module(make(residual_rms_norm, *_arrays())).write(tmp_path)
    module = _imported(tmp_path / "residual_rms_norm.py")
    assert _traced(module.residual_rms_norm, change(*_arrays()), monkeypatch) == []


def test_an_unverified_kernel_is_refused(make: Make) -> None:
    detail = make(residual_rms_norm, *_arrays(), status=Status.WRONG)
    with pytest.raises(InputError, match="expected a verified kernel, found one that is wrong"):
        export_module(detail)


def test_a_kernel_that_no_hidden_case_has_seen_is_refused(make: Make) -> None:
    detail = make(residual_rms_norm, *_arrays(), stages=(Stage.CORRECTNESS,))
    with pytest.raises(InputError, match="expected a kernel that passed the hidden gate"):
        export_module(detail)
    assert not export_module(detail, force=True).is_verified


def test_force_exports_it_and_every_file_says_so(make: Make) -> None:
    detail = make(residual_rms_norm, *_arrays(), status=Status.WRONG)
    module = export_module(detail, force=True)
    texts = {file.name: file.text for file in module.files}
    assert not module.is_verified
    assert "NOT VERIFIED" in texts["residual_rms_norm.py"]
    assert "refused this kernel (wrong): output 0 is wrong" in texts["VERIFICATION.md"]


def test_verification_says_what_was_not_verified(make: Make) -> None:
    detail = make(masked_softmax, mx.zeros((4, 32)), mx.zeros((4, 32), mx.bool_))
    module = export_module(detail)
    text = next(file.text for file in module.files if file.name == "VERIFICATION.md")
    for words in (
        "It has not run on an Apple GPU",
        "No time was measured",
        "confirmation: not run",
        "simulator (x86_64)",
    ):
        assert words in text


def test_a_name_that_is_no_identifier_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="expected a Python identifier as the name"):
        export_module(make(residual_rms_norm, *_arrays()), name="my kernel")


def _traced(
    function: Callable[..., object],
    arrays: tuple[mx.array, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> list[Launched]:
    """List the kernels that a call launches, from MLX's own tracer, as if this were a Mac."""
    launches: list[Launched] = []

    def record(event: dict[str, list]) -> None:  # type: ignore[type-arg]
        if str(event["type"]) == "primitive" and str(event["name"]) == "CustomKernel":
            arguments = event["arguments"]
            launches.append(Launched(arguments[1], tuple(arguments[2:5]), tuple(arguments[5:8])))

    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    mx.export_function(record, lambda *a: function(*a), *arrays)
    return launches


ROOMY = INFO.model_copy(
    update={"threadgroup_bytes": 98304, "chip": "x86_64, 96 KB threadgroup memory"}
)


def judged_with(detail: CandidateDetail, taken: int | None) -> CandidateDetail:
    """Return the candidate as judged under 96 KB, where its threadgroups took so much."""
    known = detail.evaluations[0]
    count = Counters(kernel="k", threads=1, threadgroups=1, threadgroup_bytes=taken or 0)
    update = {"device": ROOMY, "counters": () if taken is None else (count,)}
    evaluation = known.evaluation.model_copy(update=update)
    newest = known.model_copy(update={"evaluation": evaluation})
    return detail.model_copy(update={"evaluations": (newest,)})


@pytest.mark.parametrize("taken", [None, 40000])
def test_a_kernel_that_no_mac_runs_is_refused(make: Make, taken: int | None) -> None:
    detail = judged_with(make(residual_rms_norm, *_arrays()), taken)
    with pytest.raises(InputError, match=r"Metal's 32 KB .* found one judged on x86_64, 96 KB"):
        export_module(detail)
    files = {f.name: f.text for f in export_module(detail, force=True).files}
    assert "It is not for Macs" in files["VERIFICATION.md"]


def test_a_kernel_that_takes_little_is_exported_whatever_it_was_judged_under(make: Make) -> None:
    detail = judged_with(make(residual_rms_norm, *_arrays()), 32768)
    files = {f.name: f.text for f in export_module(detail).files}
    assert "It is not for Macs" not in files["VERIFICATION.md"]


def test_samples_tell_a_kernel_of_zeros_from_a_right_one() -> None:
    flat = np.zeros(1000)
    flat[[3, 4, 501, 998]] = 1.5
    places = telling_places(flat, 12)
    assert {3, 4, 501, 998} <= set(places)
    assert 999 in places
    assert len(telling_places(np.arange(1000.0), 12)) == 12
    assert telling_places(np.zeros(0), 12) == []
