"""Tools read what models write, say what they expect, and name programs as people do."""

import re
from collections.abc import Iterator, Sequence

import pytest

from kernelwright.agents.message import Tool, ToolCall
from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.reply.reply_schema import Draft, KernelDraft, ProgramDraft
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.feedback import told_apart
from kernelwright.agents.roles.text.program_text import shown
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.agents.session.tools.draft_book import edited as edited_draft
from kernelwright.agents.session.tools.draft_book import launch_text
from kernelwright.agents.session.tools.report import measure_report
from kernelwright.agents.session.tools.schema import Measure, Show, Submit, TextEdit, tools
from kernelwright.agents.session.tools.toolbox import Ran, Toolbox
from kernelwright.agents.session.workbench import Sibling
from kernelwright.errors import InputError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Dtype
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.scene import (
    BODY,
    CHEAT,
    DEVICE,
    SUBMIT_FIRST,
    TASK,
    checked,
    correct,
    draft,
)
from tests.agents.loopback.wire import Calls


def run(box: Toolbox, call: Calls) -> Ran:
    return box.run(ToolCall(id="1", name=call.name, arguments=call.arguments))


@pytest.fixture
def box(judge: Shared) -> Toolbox:
    return Toolbox(task=TASK, workbench=Bench(judge), caps=ToolCaps())


def templated(value: int | str) -> ProgramDraft:
    (kernel,) = draft(BODY).kernels
    template = [{"name": "T", "value": value}]
    changed = {**kernel.model_dump(), "template": template}
    return ProgramDraft.model_validate({**draft(BODY).model_dump(), "kernels": [changed]})


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ("float", Dtype.FLOAT32),
        ("half", Dtype.FLOAT16),
        ("bfloat", Dtype.BFLOAT16),
        ("bfloat16_t", Dtype.BFLOAT16),
        ("int", Dtype.INT32),
        ("uint", Dtype.UINT32),
        ("uint32_t", Dtype.UINT32),
        ("uchar", Dtype.UINT8),
        ("bool", Dtype.BOOL),
        ("float32", Dtype.FLOAT32),
        ("bf16", Dtype.BFLOAT16),
        ("mx.float16", Dtype.FLOAT16),
    ],
)
def test_a_template_takes_types_as_people_write_them(written: str, dtype: Dtype) -> None:
    (kernel,) = templated(written).program(Interface(TASK)).kernels
    assert kernel.template == {"T": dtype}


@pytest.mark.parametrize(
    ("written", "value"), [("true", True), (4, 4), ("n0 * 2", "6 * 2"), ("True", True)]
)
def test_a_template_takes_flags_and_sizes(written: int | str, value: object) -> None:
    (kernel,) = templated(written).program(Interface(TASK)).kernels
    assert kernel.template == {"T": value}


def test_what_is_no_type_is_refused_with_the_names_that_are() -> None:
    expected = r"template T: expected a type \(bool, .*half.*\), true, false.*n0, n1; found float8"
    with pytest.raises(InputError, match=expected):
        templated("float8").program(Interface(TASK))


def test_an_array_between_kernels_takes_the_same_names() -> None:
    program = draft(BODY).model_dump() | {"arrays": [{"name": "t", "dtype": "vec", "shape": [4]}]}
    with pytest.raises(InputError, match=r"expected a type, one of bool, .*; found 'vec'"):
        ProgramDraft.model_validate(program).program(Interface(TASK))


def properties(node: object, at: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """Every property of a schema with its place."""
    if isinstance(node, list):
        for item in node:
            yield from properties(item, at)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "properties":
            yield from ((f"{at}.{name}", inner) for name, inner in value.items())
        yield from properties(value, f"{at}.{key}")


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_every_argument_is_described(tool: Tool) -> None:
    found = dict(properties(dict(tool.json_schema)))
    assert found
    # What is a record of its own is described there.
    bare = [at for at, inner in found.items() if "description" not in inner and "$ref" not in inner]
    # `check` describes what a program consists of.
    assert not [at for at in bare if tool.name != "submit" or "$defs" not in at]
    assert all(inner.keys() == {"$ref"} for inner in found.values() if "$ref" in inner)


def test_closed_sets_are_told_as_such() -> None:
    found = {
        at.rsplit(".", 1)[1]: inner
        for tool in tools()
        for at, inner in properties(dict(tool.json_schema))
    }
    assert found["part"]["enum"] == ["source", "header", "launch"]
    assert found["fill"]["enum"] == ["normal", "uniform", "constant", "range"]


@pytest.mark.parametrize(
    ("name", "program", "found"),
    [("d1", draft(BODY).model_dump(), "both"), ("", None, "neither")],
)
def test_a_submission_is_a_draft_or_a_program(
    box: Toolbox, name: str, program: object, found: str
) -> None:
    run(box, checked(draft(CHEAT)))
    ran = run(box, Calls.of("submit", draft=name, program=program))
    assert ran.result.is_error
    assert f"found {found}" in ran.result.text
    assert ran.submitted is None


def test_lines_are_counted_from_one(box: Toolbox) -> None:
    box.pages = {"mlx": "\n".join(f"line {n}" for n in range(1, 200))}
    assert run(box, Calls.of("show", what="mlx", from_line=1)).result.text.startswith("line 1\n")
    first = run(box, Calls.of("show", what="mlx", from_line=0)).result.text
    assert first.startswith("line 1\n")
    assert first.endswith("ask from line 151.")
    rest = run(box, Calls.of("show", what="mlx", from_line=151)).result.text
    beyond = run(box, Calls.of("show", what="mlx", from_line=4000)).result
    assert beyond.is_error
    assert re.search(r"mlx has \d+ lines, found from_line 4000", beyond.text)
    assert rest.startswith("line 151\n")


def test_programs_are_shown_by_the_id_that_people_read(box: Toolbox) -> None:
    attempt: Attempt = correct()
    box.history = (attempt,)
    candidate = TASK.candidate_id(attempt.proposal.program.id)
    known = run(box, Calls.of("show", what=candidate[:8], from_line=1)).result.text
    assert "out[i] = x[i]" in known
    unknown = run(box, Calls.of("show", what="0000000", from_line=1)).result.text
    assert candidate[:8] in unknown
    assert attempt.proposal.program.id[:8] not in unknown


def test_a_value_that_is_no_choice_is_told_in_the_tools_own_words(box: Toolbox) -> None:
    opened = draft(BODY, group=64).model_dump()
    opened["tunables"] = [{"name": "GROUP", "choices": [32, 64], "value": 64}]
    opened["kernels"][0]["threadgroup"] = ["GROUP", 1, 1]
    run(box, checked(ProgramDraft.model_validate(opened)))
    tunables = [{"name": "GROUP", "value": 48}]
    told = run(box, Calls.of("measure", draft="d1", tunables=tunables)).result.text
    assert told.startswith("GROUP is 48, expected one of (32, 64)")


def test_what_was_refused_on_record_is_refused_again(box: Toolbox, judge: Shared) -> None:
    check = ToolCall(id="1", name="check", arguments=checked(draft(CHEAT)).arguments)
    submit = ToolCall(id="2", name="submit", arguments=Calls.of("submit", draft="d1").arguments)
    first = [box.run(check).result, box.run(submit).result]
    assert first[1].is_error
    # None of its answers is computed again.
    again = Toolbox(task=TASK, workbench=Bench(judge), caps=ToolCaps())
    for call, said in zip((check, submit), first, strict=True):
        ran = again.run(call, said)
        assert ran.submitted is None
        assert ran.result == said


@pytest.mark.parametrize("left_out", [{"draft": None}, {}], ids=["null", "absent"])
def test_a_program_is_submitted_without_a_draft(box: Toolbox, left_out: dict[str, None]) -> None:
    ran = run(box, Calls.of("submit", program=draft(BODY).model_dump(), **left_out))
    assert ran.submitted is not None


@pytest.mark.parametrize(
    ("record", "given"),
    [
        (TextEdit, {"kernel": None, "part": "header", "search": None, "replace": "a"}),
        (Measure, {"draft": "d1", "tunables": None}),
        (Show, {"what": "mlx", "from_line": None}),
        (Submit, {"draft": "d1", "program": None}),
        (KernelDraft, draft(BODY).kernels[0].model_dump() | {"header": None, "template": None}),
        (
            ProgramDraft,
            draft(BODY).model_dump() | {"any_size": None, "arrays": None, "tunables": None},
        ),
    ],
)
def test_null_counts_as_left_out(record: type[Draft], given: dict[str, object]) -> None:
    present = {key: value for key, value in given.items() if value is not None}
    assert record.model_validate(given) == record.model_validate(present)


def test_a_null_that_cannot_be_left_out_is_refused_with_what_to_send(box: Toolbox) -> None:
    ran = run(box, Calls.of("measure", draft=None, tunables=None))
    assert ran.result.is_error
    assert 'draft: expected a text, "" where it is empty, found null' in ran.result.text


class Family(Bench):
    """A workbench that knows a champion of a task with one input more."""

    def siblings(self, task: Task) -> Sequence[Sibling]:
        program = correct().proposal.program
        first = program.inputs[0]
        second = first.model_copy(update={"name": "y", "shape": ("rows", 4)})
        taller = program.model_copy(update={"inputs": (*program.inputs, second)})
        return (Sibling("5e9358f8", "add f32[6,4], f32[6,4]", "A sum.", taller),)


def test_a_champion_of_a_task_with_other_inputs_is_shown(judge: Shared) -> None:
    box = Toolbox(task=TASK, workbench=Family(judge), caps=ToolCaps())
    shown = run(box, Calls.of("show", what="5e9358f8", from_line=1)).result
    assert not shown.is_error
    assert "out[i] = x[i]" in shown.text
    assert '"rows"' in shown.text


def test_a_tool_that_fails_by_itself_costs_one_call(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise ValueError("zip() argument 2 is longer than argument 1")

    monkeypatch.setattr(Toolbox, "_shown", fail)
    ran = run(box, Calls.of("show", what="best", from_line=1))
    assert ran.result.is_error
    assert ran.result.text.startswith("show failed: ValueError: zip()")


@pytest.mark.parametrize("is_of_prompt", [False, True])
def test_a_launch_is_edited_by_what_prompts_and_show_print_of_it(is_of_prompt: bool) -> None:
    in_prompt = str(shown(correct(), Interface(TASK))["draft"])
    text = in_prompt if is_of_prompt else launch_text(draft(BODY))
    (piece,) = re.findall(r'"threadgroup": \[[^\]]*\]', text)
    edit = TextEdit(part="launch", search=piece, replace='"threadgroup": [32, 1, 1]')
    (kernel,) = edited_draft(draft(BODY), [edit]).kernels
    assert kernel.threadgroup == [32, 1, 1]


def test_an_earlier_program_is_measured_and_edited_as_a_draft_is(box: Toolbox) -> None:
    attempt: Attempt = correct()
    box.history = (attempt,)
    candidate = TASK.candidate_id(attempt.proposal.program.id)[:8]
    measured = run(box, Calls.of("measure", draft=candidate, tunables=[])).result
    report = measure_report(attempt.evaluation, attempt.proposal.program, DEVICE)
    assert measured.text.startswith(report.splitlines()[0])
    edit = {"kernel": "", "part": "source", "search": "2.0f", "replace": "2.5f"}
    edited = run(box, Calls.of("edit", draft="best", edits=[edit])).result
    assert edited.text.startswith("d1: wrong")
    unknown = run(box, Calls.of("measure", draft="d7", tunables=[])).result
    assert f"there is no draft 'd7'; known are d1, best, {candidate}." in unknown.text


def test_evaluations_on_record_count_again(box: Toolbox, judge: Shared) -> None:
    check = ToolCall(id="1", name="check", arguments=checked(draft(BODY)).arguments)
    measure = ToolCall(
        id="2", name="measure", arguments=Calls.of("measure", draft="d1", tunables=[]).arguments
    )
    said = [box.run(call).result for call in (check, measure)]
    bench = Bench(judge)
    again = Toolbox(task=TASK, workbench=bench, caps=ToolCaps(evaluations=1))
    for call, answer in zip((check, measure), said, strict=True):
        again.run(call, answer)
    assert (again.evaluations, bench.count) == (box.evaluations, 0)
    # What was counted may be looked at again, and nothing else.
    assert not again.run(measure).result.is_error
    assert again.run(ToolCall(id="3", name="check", arguments=checked(draft(CHEAT)).arguments))
    assert again.evaluations == 1


def test_a_right_program_is_told_how_far_it_is_from_the_floor(box: Toolbox) -> None:
    checked_text = run(box, checked(draft(BODY))).result.text
    measured_text = run(box, Calls.of("measure", draft="d1", tunables=[])).result.text
    for told in (checked_text, measured_text):
        assert re.search(r"\. It takes \d+\.\d\d times the floor\.\n", told)


def test_an_impossible_launch_is_told_once_and_at_no_line(box: Toolbox) -> None:
    told = run(box, checked(draft(BODY, group=2048))).result.text
    assert told.count("this device allows") == 1
    assert "0:0" not in told


@pytest.mark.parametrize(
    "call",
    [
        Calls.of("show", what="best", from_line=1),
        Calls.of("show", what="template", from_line=1),
        Calls.of("measure", draft="best", tunables=[]),
    ],
    ids=["best", "template", "measure"],
)
def test_a_best_program_that_is_not_known_yet_is_not_denied(box: Toolbox, call: Calls) -> None:
    told = run(box, call).result
    assert told.is_error
    assert re.search("you know of no (right program|template) yet; what the search", told.text)


def test_an_empty_search_text_is_told_with_the_size_of_what_it_is_searched_in() -> None:
    edit = TextEdit(part="source", search="", replace="x")
    told = f"search text is empty, .* has {len(BODY)} characters"
    with pytest.raises(InputError, match=told):
        edited_draft(draft(BODY), [edit])


def test_a_check_that_failed_in_a_killed_process_is_known_to_the_next(judge: Shared) -> None:
    def opened() -> Toolbox:
        return Toolbox(task=TASK, workbench=Bench(judge), caps=ToolCaps())

    check = ToolCall(id="1", name="check", arguments=checked(draft(CHEAT)).arguments)
    first, second = opened(), opened()
    ran = first.run(check)
    second.run(check, ran.result)
    refused = run(second, SUBMIT_FIRST).result
    assert refused.is_error
    assert "d1 failed its check: mend it before it is submitted" in refused.text


@pytest.mark.parametrize(
    ("values", "told"),
    [((632908123.0, 632908124.0), ("632908123", "632908124")), ((-1.1455501, -1.14555), None)],
)
def test_numbers_that_differ_are_told_apart(
    values: tuple[float, float], told: tuple[str, str] | None
) -> None:
    texts = told_apart(*values)
    assert texts[0] != texts[1]
    assert told in (None, texts)
