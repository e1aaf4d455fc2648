"""Replies as models really write them become records, or one sentence on why not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from kernelwright.agents.session.parse import InvalidReplyError, parse, schema_of


class Kernel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    source: str


class Batch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kernels: list[Kernel]


class Argument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    batch: Batch


GOOD = '{"kernels": [{"name": "a", "source": "out[i] = x[i];"}]}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here you are:\n\n```\n{GOOD}\n```\nIt uses {{braces}} wisely.",
        f"I considered {{this}} first.\n{GOOD}\nHope that helps!",
        f"<think>maybe {{}}?</think>{GOOD}",
        GOOD.replace("}]}", "},]}"),
        GOOD.replace("= x", "=\n x"),
        GOOD.replace("x[i]", "x\\[i]"),
        f"```json\n{GOOD}",
    ],
    ids=["bare", "fence", "prose", "braces", "thought", "comma", "newline", "escape", "open fence"],
)
def test_finds_the_record(text: str) -> None:
    batch = parse(text, Batch)
    assert [k.name for k in batch.kernels] == ["a"]
    assert "out[i]" in batch.kernels[0].source


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kernels": json.dumps(json.loads(GOOD)["kernels"])}),
        json.dumps({"batch": json.dumps(json.loads(GOOD))}),
        json.dumps({"batch": json.loads(GOOD)}),
        GOOD,
    ],
)
def test_a_part_may_come_as_json_text_and_the_only_part_bare(text: str) -> None:
    is_batch = text.startswith('{"kernels": "')
    batch = parse(text, Batch) if is_batch else parse(text, Argument).batch
    assert [k.name for k in batch.kernels] == ["a"]


def test_text_that_holds_json_stays_text_where_text_is_expected() -> None:
    kernel = parse('{"name": "a", "source": "{}"}', Kernel)
    assert kernel.source == "{}"


def test_a_truncated_reply_keeps_only_whole_entries() -> None:
    whole = json.dumps({"kernels": [{"name": n, "source": f"{n};" * 20} for n in ("a", "b", "c")]})
    for cut in range(whole.index('"c"') + 1, len(whole) - 2):
        assert [k.name for k in parse(whole[:cut], Batch).kernels] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "an empty reply"),
        ("I cannot do that.", "expected one JSON object"),
        ('{"kernels": [{"name": "a"}]}', "kernels.0.source is missing"),
        ('{"kernels": 3}', "kernels: expected a list, found a number"),
        ("[" * 100_000, "expected one JSON object"),
        ("{" * 20_000, "expected one JSON object"),
    ],
    ids=["empty", "prose", "missing", "type", "deep list", "deep object"],
)
def test_says_why_not(text: str, reason: str) -> None:
    with pytest.raises(InvalidReplyError, match=reason):
        parse(text, Batch)


def test_an_acceptance_may_refuse_a_valid_record() -> None:
    with pytest.raises(InvalidReplyError, match="too short"):
        parse(GOOD, Batch, lambda batch: "too short" if len(batch.kernels) < 2 else "")


@given(st.text(max_size=200))
def test_any_source_text_survives_json(source: str) -> None:
    text = json.dumps({"kernels": [{"name": "a", "source": source}]})
    assert parse(f"Sure.\n{text}\nDone {{}}", Batch).kernels[0].source == source


@given(st.text(alphabet='{}[]",:\\ab1 \n`', max_size=120))
def test_noise_never_raises_anything_else(noise: str) -> None:
    try:
        parse(noise, Batch)
    except InvalidReplyError:
        return


def test_schemas_close_every_object_and_keep_property_names() -> None:
    class Tile(BaseModel):
        title: str = "plain"
        size: int = 1

    class Plan(BaseModel):
        tiles: list[Tile]

    schema = schema_of(Plan)
    tile = schema["$defs"]["Tile"]  # type: ignore[index]
    assert tile["required"] == ["title", "size"]
    assert tile["additionalProperties"] is False
    assert "default" not in tile["properties"]["title"]
