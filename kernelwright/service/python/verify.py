"""`kernelwright.verify`: a kernel of one's own through the whole evaluator."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult

from kernelwright.campaign import capture_subjects
from kernelwright.campaign.spec.input_value import Inputs
from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.replay import keep_case
from kernelwright.evaluator.submission import (
    LaunchText,
    program_of_body,
    program_of_json,
    read_text,
)
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.metal.kernel import Program
from kernelwright.public_call import check_types, one_sentence
from kernelwright.service.python.html import as_html, as_text, page
from kernelwright.service.python.request import (
    DeviceChoice,
    device_of,
    store_of,
    threadgroup_bytes_of,
)
from kernelwright.service.python.target import Target, subjects
from kernelwright.service.view.verdict import print_verdict
from kernelwright.store import KernelStore

Size = int | str
"""A number of threads, or arithmetic over the inputs' dimensions."""
_ID = re.compile(r"[0-9a-f]{4,64}")


class KernelEvaluation(Evaluation):
    """The verdict on a kernel, which prints as stages, findings and a sentence."""

    name: str
    """The task's."""

    @classmethod
    def of(cls, evaluation: Evaluation, name: str) -> "KernelEvaluation":
        """Name the task of an evaluation."""
        given = {field: getattr(evaluation, field) for field in Evaluation.model_fields}
        return cls(**given, name=name)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield page(lambda inner: print_verdict(inner, self, self.name), options.max_width)

    def __repr__(self) -> str:
        return as_text(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return as_html(self)


@one_sentence
def verify(
    source: str | Path | Program,
    target: Target | None = None,
    *,
    inputs: Inputs | None = None,
    grid: Size | Sequence[Size] | None = None,
    threadgroup: Size | Sequence[Size] = 256,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    template: Mapping[str, object] | None = None,
    header: str = "",
    name: str = "kernel",
    device: DeviceChoice = "auto",
    through: Stage | str = Stage.CONFIRMATION,
    threadgroup_memory: int | str = METAL_THREADGROUP_BYTES,
    store: str | Path | None = None,
) -> KernelEvaluation:
    """Judge a kernel: static rules, sanitizer, correctness, determinism, speed, hidden gate.

    A kernel that is wrong is no exception: `status`, `summary`, `diagnostics` and `mismatches` of
    the result say what is wrong with it, and `is_correct` is false.

    Args:
        source: a kernel's Metal body as `mx.fast.metal_kernel` takes it, a file of one (`.metal`)
            or of a program (`.json`), a program's JSON, a `Program`, or a candidate's id.
        target: the function that it must compute, or `"FILE.py:function"`; a candidate from the
            store brings its own.
        inputs: arrays, types such as `"f16[8,512]"` and plain values, as the function takes them.
        grid: threads along one to three axes, for a Metal body.
        threadgroup: threads of a threadgroup along one to three axes.
        input_names: names of the arrays in the body, in the function's order; its parameters' own
            by default.
        output_names: names of the results in the body; `out`, or `out0`, `out1` … by default.
        template: template arguments, such as `{"T": "f16", "N": 4}`.
        header: what stands before the body: functions and includes.
        name: the kernel's name.
        device: `auto`, `metal`, `cuda` or `simulator`.
        through: the last stage to run, such as `"correctness"`.
        threadgroup_memory: what a threadgroup may take, in bytes or such as `"96K"`.
        store: where a candidate's id is looked up; the default store otherwise.

    Raises:
        InputError: what is given is no kernel, or it and the function do not fit together.
        DeviceError: this machine has no such device.
    """
    on, stage = device_of(device), _stage(through)
    config = EvaluatorConfig(
        through=stage, threadgroup_bytes=threadgroup_bytes_of(threadgroup_memory)
    )
    task = None if target is None else _task(target, inputs, store_of(store))
    check_types(
        verify,
        {
            "input_names": input_names,
            "output_names": output_names,
            "template": template,
            "header": header,
            "name": name,
        },
    )
    launch = LaunchText(
        grid=_sizes("grid", grid) if grid is not None else "",
        threadgroup=_sizes("threadgroup", threadgroup),
        inputs=tuple(input_names),
        outputs=tuple(output_names),
        template=", ".join(f"{key}={_value(value)}" for key, value in (template or {}).items()),
        header=header,
    )
    task, program = _read(source, task, launch, name, store_of(store))
    with Evaluator(on, config) as evaluator:
        evaluation = evaluator.evaluate(task, program)
        for case in evaluator.regressions:
            keep_case(case)
    return KernelEvaluation.of(evaluation, task.name)


def _read(
    source: str | Path | Program,
    task: Task | None,
    launch: LaunchText,
    name: str,
    url: str | None,
) -> tuple[Task, Program]:
    """Return what is judged, and for what."""
    if isinstance(source, Program):
        return _given(task), source
    text, place = _text(source), "the source"
    if is_program := _names_a_file(source) and str(source).endswith(".json"):
        place = str(source)
    if isinstance(source, str) and _ID.fullmatch(text.strip()):
        with KernelStore(url, must_exist=True) as opened:
            detail = opened.show(text.strip())
        return task or detail.reference, detail.program
    if is_program or (text.lstrip().startswith("{") and '"kernels"' in text):
        return _given(task), program_of_json(text, place)
    if not launch.grid:
        raise InputError(
            "expected grid=… for a kernel's Metal body, found none; give its threads along one to "
            "three axes, such as grid=4096 or grid=(32, 64)."
        )
    given = _given(task)
    return given, program_of_body(text, name, given.graph, launch)


def _text(source: object) -> str:
    if isinstance(source, Path):
        return read_text(source)
    if not isinstance(source, str):
        raise InputError(
            "expected a kernel as a Metal body, a Program, a path or a candidate's id, found "
            f"{type(source).__name__}."
        )
    if not source.strip():
        raise InputError("expected a kernel's Metal body, found an empty text.")
    return read_text(Path(source)) if _names_a_file(source) else source


def _names_a_file(source: object) -> bool:
    if isinstance(source, str):
        return "\n" not in source and source.endswith((".metal", ".json"))
    return isinstance(source, Path)


def _given(task: Task | None) -> Task:
    if task is None:
        raise InputError(
            "expected the function that the kernel computes as the second argument, found none."
        )
    return task


def _task(target: Target, inputs: Inputs | None, store: str) -> Task:
    found = subjects(target, inputs, store)
    if len(found) > 1:
        names = ", ".join(dict.fromkeys(subject.name for subject in found))
        raise InputError(
            f"expected one function at one choice of inputs, found {len(found)} of {names}; name "
            "one after ':' and give its inputs=…."
        )
    (function,) = capture_subjects(found).functions
    return Task(function.graph, function.subject.name)


def _stage(through: Stage | str) -> Stage:
    try:
        return Stage(through)
    except ValueError:
        known = ", ".join(repr(stage.value) for stage in Stage)
        raise InputError(f"expected through to be one of {known}, found {through!r}.") from None


def _sizes(what: str, sizes: Size | Sequence[Size]) -> str:
    listed = sizes if isinstance(sizes, tuple | list) else [sizes]
    if not all(isinstance(size, int | str) and not isinstance(size, bool) for size in listed):
        raise InputError(f"expected {what} as one to three numbers of threads, found {sizes!r}.")
    return ",".join(map(str, listed))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Dtype):
        return value.value
    # An MLX dtype prints as mlx.core.float16.
    return str(value).removeprefix("mlx.core.")
