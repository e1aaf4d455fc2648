"""What servers of local models leave out, put elsewhere or refuse does not end a conversation."""

import json
from itertools import chain, repeat

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge
from kernelwright.agents.session.parse import tool_calls_in, without_calls
from kernelwright.agents.session.transcript import transcripts
from kernelwright.agents.session.transcript_text import transcript_lines
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import NAMES, PURPOSE, Partner, Verse, prompt
from tests.agents.loopback.scene import DEVICE, DONE, TASK
from tests.agents.loopback.server import LoopbackServer, Raw, Refused, Response
from tests.agents.loopback.wire import Heard, Said

ARGUMENTS = {"what": "graph", "from_line": 1}
WRITTEN = json.dumps(ARGUMENTS)
CALL = {"name": "show", "arguments": WRITTEN}
DEEPSEEK = "<\uff5ctool\u2581call\u2581begin\uff5c>"
PARAMETERS = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in ARGUMENTS.items())
KEYS = "".join(
    f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in ARGUMENTS.items()
)
USAGE = {"prompt_tokens": 90, "completion_tokens": 9, "total_tokens": 99}


def chat(*chunks: dict[str, object]) -> Raw:
    """A stream of Chat Completions, word for word."""
    whole = ({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **chunk}
             for chunk in chunks)  # fmt: skip
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in whole]
    return Raw(200, "text/event-stream", "".join((*lines, "data: [DONE]\n\n")).encode())


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def called(*pieces: dict[str, object]) -> Raw:
    deltas = [delta(tool_calls=[piece]) for piece in pieces]
    return chat(*deltas, delta("tool_calls"), {"choices": [], "usage": USAGE})


def worded(text: str) -> Raw:
    return chat(delta(content=text), delta("stop"), {"choices": [], "usage": USAGE})


ODD: dict[str, tuple[Response, ...]] = {
    "no usage": (chat(delta(tool_calls=[{"index": 0, "function": CALL}]), delta("tool_calls")),),
    "usage beside no choices": (
        chat(
            delta(tool_calls=[{"index": 0, "function": CALL}]),
            delta("tool_calls"),
            {"usage": USAGE},
        ),
    ),
    "neither id nor number": (called({"function": CALL}),),
    "one number for all calls": (
        called(
            {"index": 0, "id": "a", "function": CALL}, {"index": 0, "id": "b", "function": CALL}
        ),
    ),
    "one number and no id for all calls": (
        called({"index": 0, "function": CALL}, {"index": 0, "function": CALL}),
    ),
    "one number and one id for all calls": (
        called(
            {"index": 0, "id": "a", "function": CALL}, {"index": 0, "id": "a", "function": CALL}
        ),
    ),
    "what is said in parts": (
        chat(
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
            delta(content=[{"type": "text", "text": "Look."}]),
            delta(tool_calls=[{"index": 0, "function": CALL}]),
            delta("tool_calls", content=[]),
        ),
    ),
    "arguments as an object": (called({"index": 0, "function": {**CALL, "arguments": ARGUMENTS}}),),
    "half of a character": (worded(f'\ud800 {{"tool": "show", "arguments": {WRITTEN}}}'),),
    "no system's role": (
        Refused(400, "System role not supported"),
        called({"index": 0, "function": CALL}),
    ),
}


def held(judge: Shared, *said: Response) -> tuple[str, LoopbackServer]:
    script = chain(said, repeat(DONE))
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, "openai", caps=Caps(dollars=5.0))
        with AsyncBridge(partner.open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    (found,) = transcripts(partner.ledger.calls())
    return "\n".join(transcript_lines(found)), server


@pytest.mark.parametrize("oddity", ODD)
def test_a_call_is_carried_out_however_a_server_tells_it(judge: Shared, oddity: str) -> None:
    text, server = held(judge, *ODD[oddity])
    assert "v1 = x * 2" in text
    assert "✗" not in text
    assert len(server.requests) == len(ODD[oddity]) + 1


def test_a_model_without_a_systems_role_reads_it_in_the_first_message(judge: Shared) -> None:
    _, server = held(judge, *ODD["no system's role"])
    refused, *others = server.requests
    assert refused.system
    for request in others:
        assert not request.system
        assert request.messages[0][1].startswith(refused.system)


GEMMA_4 = ",".join(
    f'{k}:<|"|>{v}<|"|>' if isinstance(v, str) else f"{k}:{v}" for k, v in ARGUMENTS.items()
)
FUNCTION_GEMMA = GEMMA_4.replace('<|"|>', "<escape>")
PYTHONIC = ", ".join(f"{name}={value!r}" for name, value in ARGUMENTS.items())


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>\n{{"name": "show", "arguments": {WRITTEN}}}\n</tool_call>',
        f'{{"name": "show", "parameters": {WRITTEN}}}',
        f'[TOOL_CALLS][{{"name": "show", "arguments": {WRITTEN}}}]',
        json.dumps({"tool_calls": [{"type": "function", "function": CALL}]}),
        f'What of {{this}}? No.</think>{{"tool": "show", "arguments": {WRITTEN}}}',
        f'{{"tool": "show", "arguments": {WRITTEN}}}<think>And {{"tool": "done"}}',
        f"<|channel|>commentary to=functions.show <|constrain|>json<|message|>{WRITTEN}<|call|>",
        f"I look.<function=show>{WRITTEN}</function>",
        f"[TOOL_CALLS]show[ARGS]{WRITTEN}",
        f"<|tool_call_begin|>functions.show:0<|tool_call_argument_begin|>{WRITTEN}",
        f"{DEEPSEEK}show<\uff5ctool\u2581sep\uff5c>{WRITTEN}<\uff5ctool\u2581call\u2581end\uff5c>",
        f"{DEEPSEEK}function<\uff5ctool\u2581sep\uff5c>show\n```json\n{WRITTEN}\n```",
        f"<tool_call>\n<function=show>\n{PARAMETERS}</function>\n</tool_call>",
        f"<tool_call>show\n{KEYS}</tool_call>",
        f"[show({PYTHONIC})]",
        f"I look.\n<|python_start|>[show({PYTHONIC})]<|python_end|>",
        f"```python\n[show(\n    {PYTHONIC},\n)]\n```",
        f"I look.\n```tool_code\nshow({PYTHONIC})\n```",
        f"```tool_code\nprint(default_api.show({PYTHONIC}))\n```\nThen I see.",
        f"```tool_code\nimport tools\nseen = tools.show({ARGUMENTS!r})\n```",
        f"<tool_code>\n    show({PYTHONIC})\n</tool_code>",
        f"```tool_code\n[show({PYTHONIC})]\n```",
        f"<|channel>thought\nDo {{I}}?<channel|><|tool_call>call:show{{{GEMMA_4}}}<tool_call|>",
        f"<start_function_call>call:show{{{FUNCTION_GEMMA}}}<end_function_call>",
    ],
)
def test_calls_are_read_in_every_form_that_models_are_trained_on(text: str) -> None:
    (call,) = tool_calls_in(text)
    assert call.name == "show"
    assert json.loads(call.arguments) == ARGUMENTS


def written(name: str, line: int) -> str:
    return json.dumps({"tool": name, "arguments": {"what": "graph", "from_line": line}})


@pytest.mark.parametrize(
    "text",
    [
        f"First:\n```json\n{written('show', 1)}\n```\nthen:\n```json\n{written('mend', 2)}\n```",
        f"{written('show', 1)}\n{written('mend', 2)}",
        f"[{written('show', 1)}, {written('mend', 2)}]",
        f"Look at {written('show', 1)}.\n```json\n{written('mend', 2)}\n```",
        f"{written('show', 1)}\n{written('mend', 2)}\n{written('show', 1)}",
        json.dumps({"tool_calls": [{"function": CALL}, {"function": {**CALL, "name": "mend"}}]}),
        f"[show({PYTHONIC}), mend()]",
        f"```tool_code\nshow({PYTHONIC})\nprint(mend())\n```",
        f"```tool_code\nshow({PYTHONIC})\n```\nand\n```tool_code\nmend()\n```",
        f"<|tool_call>call:show{{{GEMMA_4}}}<tool_call|><|tool_call>call:mend{{}}<tool_call|>",
    ],
    ids=[
        *("fences", "lines", "list", "prose and fence", "twice", "as servers send them", "Python"),
        *("a program", "programs", "Gemma"),
    ],
)
def test_every_call_that_is_written_in_one_reply_is_read_in_order(text: str) -> None:
    calls = tool_calls_in(text)
    assert [call.name for call in calls] == ["show", "mend"]
    assert len({call.id for call in calls}) == 2


def test_a_program_in_a_pythonic_call_is_read_as_the_model_wrote_it() -> None:
    text = """Now:\n[check(program='a["x"] = [1];\n b = "\\d\\n";', quick=true, of=[None, null])]"""
    (call,) = tool_calls_in(text)
    assert json.loads(call.arguments) == {
        "program": 'a["x"] = [1];\n b = "\\d\n";',
        "quick": True,
        "of": [None, None],
    }
    assert without_calls(text) == "Now:"


def test_a_program_in_gemmas_own_call_is_read_as_the_model_wrote_it() -> None:
    source = 'uint i = p.x;\nout[i] = x[i] ? 1 : "a"[0]; // {no} <tool_call'
    text = (
        'I check.\n<|tool_call>call:check{program:{idea:<|"|>go: on<|"|>,'
        f'source:<|"|>{source}<|"|>,'
        "grid:[32,1,1],is_open:false,none:null}}<tool_call|>"
    )
    (call,) = tool_calls_in(text)
    assert json.loads(call.arguments)["program"] == {
        "idea": "go: on",
        "source": source,
        "grid": [32, 1, 1],
        "is_open": False,
        "none": None,
    }
    assert without_calls(text) == "I check."


@pytest.mark.parametrize(
    "text",
    [
        "```tool_code\nfor x in y:\n    show(what=x)\n```",
        "```tool_code\nshow(what=graph_of(1))\n```",
        "```tool_output\nshow(what=1)\n```",
        "```python\nshow(what='graph')\n```",
    ],
)
def test_a_program_that_is_more_than_calls_is_none(text: str) -> None:
    assert not tool_calls_in(text)


def test_a_fence_of_calls_is_no_part_of_what_was_said() -> None:
    text = f"First I look.\n```tool_code\nshow({PYTHONIC})\n```\nThen more."
    assert without_calls(text).split("\n\n") == ["First I look.", "Then more."] or (
        without_calls(text).split() == ["First", "I", "look.", "Then", "more."]
    )


def test_what_stands_around_a_call_by_its_name_is_kept() -> None:
    call = "<tool_call>\n<function=done>\n<parameter=because>\nslow {\n</parameter>\n</function>"
    text = f"I am through.\n{call}\n</tool_call>"
    assert json.loads(tool_calls_in(text)[0].arguments) == {"because": "slow {"}
    assert without_calls(text).startswith("I am through.")
    assert "parameter" not in without_calls(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "affine", "inputs": []}',
        "<think>" * 200_000,
        "{}",
        "<function=show>" * 50_000,
        "<function=show>{" * 5_000,
        "Read `to=functions.show` first, then x { y }.",
        "The kernel reads x[index(row=1)], not\n[index(row)] or [row + 1].",
        "[show(" * 50_000,
        "[show(a='" + "\n[show(a='" * 20_000,
    ],
)
def test_what_is_no_call_is_none(text: str) -> None:
    assert tool_calls_in(text) == ()


TOO_MANY = {
    "anthropic": "max_tokens: 800 > 400, which is the maximum allowed number of output tokens",
    "openai": "max_tokens is too large: 800. This model supports at most 400 completion tokens",
    "openai-responses": "max_output_tokens: expected a value of at most 400, got 800",
}


@pytest.mark.parametrize("wire", TOO_MANY)
def test_a_server_that_allows_shorter_replies_only_is_asked_for_those(wire: str) -> None:
    verse = Said('{"line": "waves", "times": 3}')

    def script(request: Heard) -> Response:
        return Refused(400, TOO_MANY[wire]) if request.most_tokens > 400 else verse

    with LoopbackServer(script) as server:
        assert Partner(server, wire).ask().record.times == 3
    assert server.requests[-1].most_tokens == 400


@pytest.mark.parametrize("wire", NAMES)
def test_what_one_prompt_leaves_of_a_context_binds_no_shorter_one(wire: str) -> None:
    def script(request: Heard) -> Response:
        size = 9000 if "Long." in request.messages[0][1] else 500
        if size + request.most_tokens <= 9600:
            return Said('{"line": "waves", "times": 3}')
        return Refused(
            400,
            f"'max_tokens' or 'max_completion_tokens' is too large: {request.most_tokens}. This "
            "model's maximum context length is 9600 tokens and your request has "
            f"{size} input tokens",
        )

    with LoopbackServer(script) as server, AsyncBridge(Partner(server, wire).open()) as board:
        for words in ("Long." * 5000, "One."):
            assert board.ask(prompt(words), Verse, PURPOSE).record.times == 3
    assert [request.most_tokens for request in server.requests] == [800, 536, 800]
