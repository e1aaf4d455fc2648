"""What a tool call has to be so that every provider takes a conversation back that holds it."""

import json
import re

from kernelwright.agents.message import ToolCall

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
"""Characters of a function's name, by OpenAI's API; Anthropic's allows 128."""


def call_id(turn: int, place: int) -> str:
    """Return an id for a call, by its turn of the conversation and its place in that turn.

    Servers repeat ids from turn to turn, or leave them out, and a conversation may be handed over
    to a stricter one: Anthropic's API refuses ids that occur twice, Mistral's all but nine letters
    and digits.
    """
    return f"c{turn:04}{place:04}"


def legal_name(name: str) -> str:
    """Return a tool's name as every API takes it back; models make names up."""
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def made_call(turn: int, place: int, name: str, arguments: str) -> ToolCall:
    """Return a call as it goes into the conversation, its arguments as the model wrote them."""
    return ToolCall(id=call_id(turn, place), name=legal_name(name), arguments=arguments or "{}")


def object_of(text: str) -> dict[str, object]:
    """Read a call's arguments; what is no JSON object still has to be sent back as one."""
    return _object(text, strict=False) or ({"unreadable": text} if text.strip("{} \n") else {})


def legal_arguments(text: str) -> str:
    """Return a call's arguments as the JSON of an object, which servers' chat templates read."""
    return text if is_object(text) else json.dumps(object_of(text))


def is_object(text: str) -> bool:
    """Say whether a text is the whole JSON of an object."""
    return _object(text) is not None


def _object(text: str, *, strict: bool = True) -> dict[str, object] | None:
    try:
        found = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
