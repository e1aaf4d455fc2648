"""Prompt caches by the providers' own rules, so that a test can say what a conversation costs.

Anthropic: what stands before a breakpoint is cached, from 1024 tokens on; a request reads the
longest prefix that ends at one of its breakpoints, or up to 20 blocks before one, and that an
earlier request wrote. OpenAI: the longest common prefix, from 1024 tokens on, in steps of 128.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
https://developers.openai.com/api/docs/guides/prompt-caching
"""

import json
from dataclasses import dataclass, field

from tests.agents.loopback.wire import Body

_LEAST_BYTES = 1024 * 4
_STEP_BYTES = 128 * 4
_LOOK_BACK = 20


@dataclass
class PromptCache:
    """What one server remembers of prompts."""

    written: set[str] = field(default_factory=set)
    prompts: list[str] = field(default_factory=list)

    def share(self, path: str, body: Body) -> float:
        """Return the share of a request that the cache holds, and remember the request."""
        if path.endswith("/messages"):
            return self._share_of_marked(body)
        text = json.dumps([body.get("tools"), body.get("instructions"), body.get("input"),
                           body.get("messages")])  # fmt: skip
        held = max((_common(text, earlier) for earlier in self.prompts), default=0)
        self.prompts.append(text)
        held = held // _STEP_BYTES * _STEP_BYTES
        return held / len(text) if held >= _LEAST_BYTES else 0.0

    def _share_of_marked(self, body: Body) -> float:
        blocks = [*(body.get("tools") or ()), *body["system"]]
        for message in body["messages"]:
            content = message["content"]
            blocks += content if isinstance(content, list) else [{"text": content}]
        marks = [i for i, block in enumerate(blocks) if "cache_control" in block]
        assert len(marks) <= 4, "Anthropic takes four breakpoints"
        texts = [json.dumps({k: v for k, v in b.items() if k != "cache_control"}) for b in blocks]
        prefixes = ["".join(texts[: i + 1]) for i in range(len(texts))]
        read = 0
        for mark in marks:
            for place in range(mark, max(mark - _LOOK_BACK, -1), -1):
                if prefixes[place] in self.written:
                    read = max(read, len(prefixes[place]))
                    break
        self.written |= {prefixes[i] for i in marks if len(prefixes[i]) >= _LEAST_BYTES}
        return read / len(prefixes[-1])


def _common(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)
