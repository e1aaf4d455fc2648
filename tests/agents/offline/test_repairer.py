"""Every mechanical class of compiler error is mended, and nothing else is touched."""

import mlx.core as mx
import pytest

from kernelwright.agents.offline import OfflineRepairer
from kernelwright.agents.offline.rule import rewrite_calls
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import Kernel, Program, Tensor

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
CASES = {
    "address space": (
        "device const float* p = x + 4;\nout[0] = p[0];",
        (
            "cannot initialize a variable of type 'const device float *' with an rvalue of type "
            "'const constant float *'"
        ),
        "auto p = x + 4;\nout[0] = p[0];",
    ),
    "cast of an input": (
        "const device float* p = (const device float*)x;",
        (
            "C-style cast from 'const constant float *' to 'const device float *' converts between "
            "mismatching address spaces"
        ),
        "auto p = x;",
    ),
    "accumulator": (
        "simdgroup_multiply_accumulate(c[i], a[min(i, 3)], b);",
        "no matching function for call to 'simdgroup_multiply_accumulate'",
        "simdgroup_multiply_accumulate(c[i], a[min(i, 3)], b, c[i]);",
    ),
    "attribute": (
        "[[max_total_threads_per_threadgroup(256)]]\nout[0] = x[0];",
        "'max_total_threads_per_threadgroup' attribute cannot be applied to types",
        "\nout[0] = x[0];",
    ),
    "double": (
        "double y = x[0] * 0.5 + 1e-5;",
        "'double' is not supported in Metal",
        "float y = x[0] * 0.5f + 1e-5f;",
    ),
    "ambiguous call": (
        "half y = max(h, 0.0f);",
        "call to 'max' is ambiguous",
        "half y = max(float(h), float(0.0f));",
    ),
    "foreign name": (
        "out[0] = std::max(expf(x[0]), x[1]);",
        "use of undeclared identifier 'expf'",
        "out[0] = metal::max(metal::exp(x[0]), x[1]);",
    ),
}


def failed(source: str, message: str, header: str = "", file: str = "source") -> Attempt:
    kernel = Kernel(
        name="k",
        inputs=("x",),
        outputs=("out",),
        source=source,
        header=header,
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
    )
    program = Program(
        inputs=(Tensor(name="x", dtype=Dtype.FLOAT32, shape=(4,)),),
        outputs=(Tensor(name="out", dtype=Dtype.FLOAT32, shape=(4,)),),
        kernels=(kernel,),
    )
    evaluation = Evaluation(
        task="t",
        program=program.id,
        device=DEVICE,
        status=Status.COMPILE_ERROR,
        summary=message,
        diagnostics=(Diagnostic(message=message, line=1, column=1, file=file),),
    )
    proposal = Proposal(program=program, author="test", idea="")
    return Attempt(proposal=proposal, evaluation=evaluation)


def repair(attempt: Attempt) -> Proposal | None:
    task = Task(canonicalize(capture(lambda x: x + 1, mx.zeros((4,)))), "t")
    return OfflineRepairer().repair(task, DEVICE, attempt)


@pytest.mark.parametrize("name", CASES)
def test_a_mechanical_error_is_mended(name: str) -> None:
    source, message, expected = CASES[name]
    attempt = failed(source, message)
    proposal = repair(attempt)
    assert proposal is not None
    assert proposal.program.kernels[0].source == expected
    assert proposal.parent == attempt.proposal.program.id


def test_a_lambda_becomes_a_function() -> None:
    source = "auto twice = [](float v) -> float { return v + v; };\nout[0] = twice(x[0]);"
    proposal = repair(failed(source, "lambda expressions are not supported in Metal"))
    assert proposal is not None
    kernel = proposal.program.kernels[0]
    assert kernel.source == "out[0] = twice(x[0]);"
    assert kernel.header == "inline float twice(float v) { return v + v; }\n"


def test_a_lambda_that_captures_is_left_alone() -> None:
    source = "float k = x[0];\nauto f = [&](float v) { return v * k; };\nout[0] = f(k);"
    assert repair(failed(source, "lambda expressions are not supported in Metal")) is None


def test_a_table_of_the_header_moves_to_constant_memory() -> None:
    message = "program scope variable must reside in constant address space"
    proposal = repair(failed("", message, "const float table[2] = {1.0f, 2.0f};", "header"))
    assert proposal is not None
    assert proposal.program.kernels[0].header == "constant float table[2] = {1.0f, 2.0f};"


def test_an_unknown_error_is_left_to_others() -> None:
    assert repair(failed("out[0] = x[0]", "expected ';' after expression")) is None


def test_a_wrong_answer_is_no_matter_of_rules() -> None:
    attempt = failed("double y = 1.0;", "'double' is not supported in Metal")
    wrong = attempt.evaluation.model_copy(update={"status": Status.WRONG})
    assert repair(attempt.model_copy(update={"evaluation": wrong})) is None


def test_an_unclosed_call_is_not_rewritten() -> None:
    assert rewrite_calls("f(a, (b", "f", lambda a: a) == "f(a, (b"
