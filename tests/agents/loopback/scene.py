"""A small task, programs for it and verdicts on them, for prompts and scripted conversations."""

import json

import mlx.core as mx

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.reply.reply_schema import ProgramDraft
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.evaluator.evaluation import Evaluation, Mismatch, Stage, StageResult, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.device.base import BufferTraffic, Counters, DeviceInfo
from kernelwright.metal.diagnostic import Diagnostic, ReportKind, SanitizerReport
from tests.agents.loopback.wire import Calls, Said

DEVICE = DeviceInfo(
    name="simulator", chip="M3 Max (simulated)", runtime="test", measures_time=False
)
ROWS, COLUMNS = 6, 71


def double_plus_one(x: mx.array) -> mx.array:
    return x * 2.0 + 1.0


def make_task() -> Task:
    graph = canonicalize(capture(double_plus_one, mx.zeros((ROWS, COLUMNS))))
    return Task(graph, "double_plus_one")


TASK = make_task()
BODY = """\
uint i = thread_position_in_grid.x;
out[i] = x[i] * 2.0f + 1.0f;"""
TYPO = BODY.replace("2.0f", "2.0g")
TAIL = """\
uint start = thread_position_in_grid.x * 4;
bool is_whole = start + 4 <= N;
for (uint i = start; i < metal::min(start + 4, uint(N)); i++) {
    out[i] = is_whole ? x[i] * 2.0f + 1.0f : x[i] * 2.0f;
}"""
FIXED_TAIL = """\
uint start = thread_position_in_grid.x * 4;
for (uint i = start; i < metal::min(start + 4, uint(N)); i++) {
    out[i] = x[i] * 2.0f + 1.0f;
}"""
RACE = """\
threadgroup float tile[64];
uint i = thread_position_in_grid.x;
uint lane = thread_position_in_threadgroup.x;
tile[lane] = x[i];
float other = tile[lane ^ 1];
out[i ^ 1] = other * 2.0f + 1.0f;"""
FIXED_RACE = RACE.replace(
    "float other",
    "// Orders the writes of tile before its reads.\n"
    "threadgroup_barrier(mem_flags::mem_threadgroup);\nfloat other",
)
CHEAT = """\
uint i = thread_position_in_grid.x;
out[i] = 1.0f;"""


def draft(
    source: str,
    idea: str = "One element a thread.",
    *,
    grid: list[int | str] | None = None,
    group: int = 64,
    any_size: list[str] | None = None,
) -> ProgramDraft:
    return ProgramDraft.model_validate(
        {
            "idea": idea,
            "any_size": any_size or [],
            "arrays": [],
            "tunables": [],
            "kernels": [
                {
                    "name": "affine",
                    "inputs": ["x"],
                    "outputs": ["out"],
                    "header": "",
                    "source": source,
                    "template": [{"name": "N", "value": "n0 * n1"}] if "N" in source else [],
                    "grid": grid or ["n0 * n1", 1, 1],
                    "threadgroup": [group, 1, 1],
                }
            ],
        }
    )


QUARTER: list[int | str] = ["ceildiv(n0 * n1, 4)", 1, 1]


def submitted(*drafts: ProgramDraft) -> Said:
    """A turn that submits programs unchecked."""
    return Said(calls=tuple(Calls.of("submit", draft="", program=d.model_dump()) for d in drafts))


def checked(draft: ProgramDraft) -> Calls:
    """A call that has a program checked."""
    return Calls.of("check", program=draft.model_dump())


SUBMIT_FIRST = Calls.of("submit", draft="d1", program=None)
DONE = Said(calls=(Calls.of("done", because="nothing else promises a gain"),))


def correction(cause: str, program: ProgramDraft) -> str:
    return json.dumps({"cause": cause, "program": program.model_dump()})


def attempt(
    program: ProgramDraft, status: Status, summary: str, parent: str | None = None, **found: object
) -> Attempt:
    made = program.program(Interface(TASK))
    proposal = Proposal(program=made, author="openai:gpt-5", idea=program.idea, parent=parent)
    evaluation = Evaluation.model_validate(
        {
            "task": TASK.fingerprint,
            "program": made.id,
            "device": DEVICE,
            "status": status,
            "summary": summary,
            **found,
        }
    )
    return Attempt(proposal=proposal, evaluation=evaluation)


def correct() -> Attempt:
    traffic = (
        BufferTraffic(name="x", bytes_read=1680, sectors_read=53),
        BufferTraffic(name="out", bytes_written=1680, sectors_written=53),
    )
    counters = Counters(
        kernel="affine", threads=420, threadgroups=7, buffers=traffic, float_operations=840
    )
    return attempt(
        draft(BODY),
        Status.CORRECT,
        "correct on 12 cases",
        counters=(counters,),
        predicted_us=3.25,
        bound="launch",
        cases=12,
    )


def uncompiled() -> Attempt:
    line = TYPO.splitlines()[1]
    diagnostic = Diagnostic(
        message="invalid suffix 'g' on floating constant",
        line=2,
        column=line.index("2.0g") + 4,
        source_line=line,
    )
    return attempt(
        draft(TYPO), Status.COMPILE_ERROR, "the kernel does not compile", diagnostics=(diagnostic,)
    )


def racing() -> Attempt:
    report = SanitizerReport(
        kind=ReportKind.THREADGROUP_RACE,
        message="read of a value that another thread wrote without a barrier between",
        line=6,
        variable="tile",
        offset=4,
        thread=(0, 0, 0),
        other_thread=(1, 0, 0),
        other_line=4,
        count=420,
    )
    return attempt(draft(RACE), Status.UNSAFE, "a threadgroup race", reports=(report,))


def wrong_at_the_tail() -> Attempt:
    mismatch = Mismatch(
        output=0,
        words="the last 2 elements",
        shapes=("f32[1,6]",),
        case="seed 7431: normal",
        expected=3.5,
        found=float("nan"),
        index=(0, 4),
    )
    return attempt(
        draft(TAIL, "Four elements a thread.", grid=QUARTER),
        Status.WRONG,
        "the last 2 elements are wrong",
        mismatches=(mismatch,),
    )


def unproven() -> Attempt:
    mismatch = Mismatch(
        output=0, words="every 4093rd row", shapes=("f32[4093,70]",), case="secret 99"
    )
    gate = StageResult(stage=Stage.HIDDEN, passed=False, summary="wrong at f32[4093,70]")
    return attempt(
        draft(BODY, any_size=["n0"]),
        Status.UNPROVEN,
        "fails the hidden gate at f32[4093,70] with seed 99",
        mismatches=(mismatch,),
        stages=(gate,),
    )


def timed_out() -> Attempt:
    return attempt(
        draft(BODY.replace("2.0f", "2.00f")),
        Status.TIMEOUT,
        "kernel affine did not end within 10 s; it was last seen at line 2",
    )
