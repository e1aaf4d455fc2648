"""Reading records out of what models really write: fences, prose, slips and cut-off JSON."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kernelwright.agents.message import Acceptance, Shape, ToolCall, whole_characters
from kernelwright.agents.session.gemma_call import gemma_calls
from kernelwright.agents.session.pythonic_call import pythonic_calls
from kernelwright.validation import reason_of

_FENCE = re.compile(r"```[\w.+-]*[ \t]*\r?\n(.*?)(?:\r?\n[ \t]*```|\Z)", re.DOTALL)
_EMPTY_FENCE = re.compile(r"```[\w.+-]*\s*```")
# A thought ends before the next one: else many that never end take quadratic time.
_THOUGHT = re.compile(
    r"<think(?:ing)?>(?:(?!<think).)*?</think(?:ing)?>|<\|channel>(?:(?!<\|channel>).)*?<channel\|>",
    re.DOTALL,
)
_THOUGHT_BEFORE = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_THOUGHT_AFTER = re.compile(r"<think(?:ing)?>.*", re.DOTALL)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
# gpt-oss, Llama 3, Mistral, Kimi and DeepSeek, as their chat templates write calls.
_NAME_THEN_JSON = re.compile(
    r"(?:to=functions\.|<function=|\[TOOL_CALLS\]|<\|tool_call_begin\|>(?:functions\.)?|"
    # DeepSeek's marks hold a wide bar and a low block for each blank.
    r"<\uff5ctool\u2581call\u2581begin\uff5c>(?:function<\uff5ctool\u2581sep\uff5c>)?)"
    r"([\w-]+)(?:(?!<parameter=)[^{]){0,80}?\{"
)
# Qwen3-Coder and GLM.
_NAME_THEN_TAGS = re.compile(
    r"<(?:function=|tool_call>\s*)([\w-]+)>?\s*((?:<parameter=|<arg_key>).*?)"
    r"(?:</function>|</tool_call>|\Z)",
    re.DOTALL,
)
_TAG = re.compile(
    r"<(?:parameter=|arg_key>)([\w-]+)(?:>|</arg_key>\s*<arg_value>)(.*?)"
    r"(?:</parameter>|</arg_value>|\Z)",
    re.DOTALL,
)
_MOST_CANDIDATES = 8
_MOST_PIECES = 32
_MOST_CUTS = 200
_MOST_PROBLEMS = 5


class InvalidReplyError(ValueError):
    """A reply holds no usable record; the message tells the model what to change."""


def parse(text: str, shape: type[Shape], accept: Acceptance[Shape] | None = None) -> Shape:
    """Return the first record of the wanted shape that a reply holds.

    Tried in order: the whole text, fenced blocks, every outermost object; each as it stands,
    then with common slips mended, then cut back to its last complete element.

    Raises:
        InvalidReplyError: nothing in the text validates; says what was nearest and why.
    """
    nearest = ""
    for candidate in _candidates(text):
        for data in _readings(candidate):
            try:
                record = _validated(data, shape)
            except ValidationError as e:
                nearest = nearest or _problems(e)
                continue
            reason = accept(record) if accept is not None else ""
            if not reason:
                return record
            nearest = reason
    raise InvalidReplyError(
        nearest or f"expected one JSON object, found {_excerpt(text)}; reply with the object only"
    )


def object_in(text: str) -> dict[str, object] | None:
    """Return the first object that a text holds, read as `parse` reads it; None without one."""
    readings = (data for candidate in _candidates(text) for data in _readings(candidate))
    return next((data for data in readings if isinstance(data, dict)), None)


def _validated(data: object, shape: type[Shape]) -> Shape:
    """Return a record, from what models write for it: parts as JSON text, or its only part bare.

    Raises:
        ValidationError: none of these readings is the record; the error is of the first.
    """
    try:
        return shape.model_validate(data)
    except ValidationError as e:
        for reading in _other_readings(data, shape, e):
            with suppress(ValidationError):
                return shape.model_validate(reading)
        raise


def _other_readings(
    data: object, shape: type[BaseModel], error: ValidationError
) -> Iterator[object]:
    if not isinstance(data, dict):
        return
    quoted = {
        detail["loc"][0]: value
        for detail in error.errors(include_url=False)
        if len(detail["loc"]) == 1
        and isinstance(written := detail["input"], str)
        and isinstance(value := _unquoted(written), dict | list)
    }
    if quoted:
        yield {**data, **quoted}
    fields = list(shape.model_fields)
    if len(fields) == 1 and fields[0] not in data:
        yield {fields[0]: data}


def _unquoted(text: str) -> object:
    try:
        return _load(text)
    except ValueError:
        return None


def tool_calls_in(text: str) -> tuple[ToolCall, ...]:
    """Return the tool calls that a model has written as text, in their order.

    They may be in the form that was asked for, `{"tool": …, "arguments": …}`, or in those that
    models are trained on and their servers ought to have read: `name` with `arguments` or
    `parameters`, in `function` or in a list, too; the name before the JSON of its arguments, or
    before a tag for each of them; a list of calls in Python, or a program of them; Gemma's own.
    What is written twice is one call.
    """
    found = [call for calls in _calls_by_piece(text).values() for call in calls]
    return tuple(
        ToolCall(id=f"text_{place}", name=name, arguments=arguments)
        for place, (name, arguments) in enumerate(dict.fromkeys(found))
    )


def without_calls(text: str) -> str:
    """Return what a model has written around the tool calls in its text."""
    for piece, calls in _calls_by_piece(text).items():
        if calls:
            text = text.replace(piece, "")
    return _EMPTY_FENCE.sub("", text).strip()


def _calls_by_piece(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return names and arguments by the piece of the text that they stand in."""
    # The whole text, its fences and its objects are cuts of the same calls.
    found = [{piece: _calls_in_piece(piece) for piece in pieces} for pieces in _cuts(text)]
    said = _without_thoughts(text)
    found += [dict(_marked_calls(said)), dict(pythonic_calls(said))]
    return max(found, key=lambda calls: sum(map(len, calls.values())))


def _marked_calls(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the pieces in which a name stands before the arguments, with the one call of each."""
    for match in islice(_NAME_THEN_JSON.finditer(text), _MOST_PIECES):
        written = next(_objects(text[match.end() - 1 :]))
        if isinstance(data := next(_readings(written), None), dict):
            piece = text[match.start() : match.end() - 1] + written
            yield piece, [(match[1], json.dumps(data))]
    for match in islice(_NAME_THEN_TAGS.finditer(text), _MOST_PIECES):
        arguments = {name: _tagged(value) for name, value in _TAG.findall(match[2])}
        yield match[0], [(match[1], json.dumps(arguments))]
    for piece, name, written in gemma_calls(text):
        if isinstance(data := next(_readings(written), None), dict):
            yield piece, [(name, json.dumps(data))]


def _tagged(value: str) -> object:
    """Return what a tag holds: JSON, or a text without the line breaks of its own lines."""
    try:
        return _load(value)
    except ValueError:
        return value.removeprefix("\n").removesuffix("\n")


def _calls_in_piece(text: str) -> list[tuple[str, str]]:
    for data in _readings(text):
        if calls := list(_calls_in(data)):
            return calls
    return []


def _calls_in(data: object) -> Iterator[tuple[str, str]]:
    """Yield the names and arguments of calls, in the order in which they are written."""
    if isinstance(data, list):
        for one in data:
            yield from _calls_in(one)
        return
    if not isinstance(data, dict):
        return
    for part in ("tool_calls", "function"):
        if isinstance(data.get(part), dict | list):
            yield from _calls_in(data[part])
            return
    arguments = data.get("arguments", data.get("parameters"))
    name = data.get("tool", data.get("name") if arguments is not None else None)
    if isinstance(name, str):
        yield name, arguments if isinstance(arguments, str) else json.dumps(arguments or {})


def _candidates(text: str) -> Iterator[str]:
    pieces = [piece for cut in _cuts(text) for piece in cut]
    yield from list(dict.fromkeys(pieces))[:_MOST_CANDIDATES]


def _cuts(text: str) -> tuple[list[str], ...]:
    """Return the pieces of a text that may hold JSON: the whole, fenced blocks, every object."""
    text = _without_thoughts(text)
    whole = [text] if text.startswith(("{", "[")) else []
    fenced = [match[1].strip() for match in _FENCE.finditer(text)]
    cuts = (whole, fenced, [*_objects(text)])
    return tuple([piece for piece in pieces if piece][:_MOST_PIECES] for pieces in cuts)


def _without_thoughts(text: str) -> str:
    # Servers of local models leave thoughts in the text, some of them without the first mark.
    return _THOUGHT_AFTER.sub("", _THOUGHT_BEFORE.sub("", _THOUGHT.sub("", text))).strip()


def _objects(text: str) -> Iterator[str]:
    """Outermost `{…}` spans, braces inside strings aside; the last may be unfinished."""
    place = text.find("{")
    while place != -1:
        end = next((end for end, depth in _closings(text, place) if depth == 0), None)
        yield text[place:end]
        if end is None:
            return
        place = text.find("{", end)


def _closings(text: str, start: int) -> Iterator[tuple[int, int]]:
    """(place after it, depth left) of every closing bracket outside strings."""
    depth, quoted, place = 0, False, start
    while place < len(text):
        character = text[place]
        if character == "\\" and quoted:
            place += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "{[":
            depth += 1
        elif not quoted and character in "}]":
            depth -= 1
            yield place + 1, depth
        place += 1


def _readings(text: str) -> Iterator[object]:
    """The JSON values that a text may stand for, the most faithful first."""
    for variant in dict.fromkeys((text, _mended(text))):
        try:
            yield _load(variant)
        except ValueError:
            continue
        return
    yield from _cut_back(_mended(text))


def _load(text: str) -> object:
    try:
        # Models put bare line breaks into strings; strict JSON has none.
        value: object = json.loads(text, strict=False)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    if "\\ud" in text.lower():
        value = json.loads(whole_characters(json.dumps(value, ensure_ascii=False)))
    return value


def _mended(text: str) -> str:
    return _TRAILING_COMMA.sub(r"\1", _BAD_ESCAPE.sub(r"\\\\", text))


def _cut_back(text: str) -> Iterator[object]:
    """A truncated text, closed after one of its last complete elements."""
    cuts: list[tuple[int, str]] = []
    stack: list[str] = []
    quoted, place = False, 0
    while place < len(text):
        character = text[place]
        if character == "\\" and quoted:
            place += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "{[":
            stack.append("}" if character == "{" else "]")
        elif not quoted and character in "}]" and stack:
            stack.pop()
            cuts.append((place + 1, "".join(reversed(stack))))
        place += 1
    for end, closers in reversed(cuts[-_MOST_CUTS:]):
        try:
            yield _load(text[:end] + closers)
        except ValueError:
            continue


def _problems(error: ValidationError) -> str:
    details = error.errors(include_url=False)
    lines = [_problem(detail) for detail in details[:_MOST_PROBLEMS]]
    if len(details) > _MOST_PROBLEMS:
        lines.append(f"and {len(details) - _MOST_PROBLEMS} more")
    return "; ".join(lines)


_NO_OBJECT = ("model_type", "model_attributes_type", "dict_type")
_PLAIN = ("string_type", "int_type", "int_from_float", "int_parsing", "list_type")
_COUNTED = ("too_short", "too_long", "string_too_short", "string_too_long")


def _type_word(value: object) -> str:
    """Return what JSON calls a value's type."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    words = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(value), "something else")


def _problem(detail: ErrorDetails) -> str:
    place = ".".join(map(str, detail["loc"])) or "the reply"
    if detail["type"] == "missing":
        return f"{place} is missing"
    if detail["type"] == "extra_forbidden":
        return f"{place} is no key of it"
    if detail["type"] in _NO_OBJECT:
        return f"{place}: expected an object, found {_type_word(detail['input'])}"
    if detail["type"] in _COUNTED:
        return f"{place}: expected it to be {reason_of(detail)}"
    if detail["type"] in _PLAIN:
        kind = reason_of(detail)
        empty = ', "" where it is empty' if kind == "a text" and detail["input"] is None else ""
        return f"{place}: expected {kind}{empty}, found {_type_word(detail['input'])}"
    words = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{place}: expected {words}" if words != detail["msg"] else f"{place}: {words}"


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return repr(text[:80]) if text else "an empty reply"


def schema_of(shape: type[BaseModel]) -> dict[str, object]:
    """Return a record's JSON schema in the subset that structured outputs accept.

    Every object lists all its properties as required and admits no others; references stay.
    """
    return _strict_object(shape.model_json_schema())


_UNSUPPORTED = ("default", "title", "minItems", "maxItems", "minLength", "maxLength", "pattern")


def _strict_object(node: dict[str, object]) -> dict[str, object]:
    if "$ref" in node:
        # Servers with strict schemas refuse a description beside a reference.
        return {"$ref": node["$ref"]}
    strict: dict[str, object] = {}
    for key, content in node.items():
        if key in ("properties", "$defs") and isinstance(content, dict):
            # The keys in here are names, which may look like the keywords left out below.
            strict[key] = {name: _strict(value) for name, value in content.items()}
        elif key == "description":
            strict[key] = " ".join(str(content).split())
        elif key not in _UNSUPPORTED:
            strict[key] = _strict(content)
    properties = strict.get("properties")
    if isinstance(properties, dict):
        strict["additionalProperties"] = False
        strict["required"] = [str(name) for name in properties]
    return strict


def _strict(node: object) -> object:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    return _strict_object(node) if isinstance(node, dict) else node
