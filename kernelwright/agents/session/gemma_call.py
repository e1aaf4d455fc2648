"""Reading tool calls as Gemma writes them: `call:check{…}` between marks of its own."""

import json
import re
from collections.abc import Iterator
from itertools import islice

# Gemma 4, and FunctionGemma:
# https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices.
_CALL = re.compile(
    r"(?:<\|tool_call>|<start_function_call>)\s*call:([\w.-]+)\s*(\{.*?)"
    r"(?:<tool_call\|>|<end_function_call>|(?=<\|tool_call>|<start_function_call>)|\Z)",
    re.DOTALL,
)
_QUOTED = re.compile(r'<\|"\|>(.*?)(?:<\|"\|>|\Z)|<escape>(.*?)(?:<escape>|\Z)', re.DOTALL)
_KEY = re.compile(r'"(?:\\.|[^"\\])*"|([A-Za-z_][\w.-]*)(?=\s*:)', re.DOTALL)
_MOST_CALLS = 32


def gemma_calls(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each call: its piece of the text, its name, and its arguments as JSON."""
    for match in islice(_CALL.finditer(text), _MOST_CALLS):
        yield match[0], match[1], _as_json(match[2])


def _as_json(written: str) -> str:
    """Write strings between marks, and bare keys, as JSON has them."""
    strings = _QUOTED.sub(lambda m: json.dumps(m[1] if m[1] is not None else m[2]), written)
    return _KEY.sub(lambda m: m[0] if m[1] is None else json.dumps(m[1]), strings)
