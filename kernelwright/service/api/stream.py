"""A campaign's log as server-sent events, from behind the reader's cursor."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from kernelwright.campaign.history.resuming import is_alive
from kernelwright.campaign.history.run_state import RunState
from kernelwright.errors import BlockedError, StoreError
from kernelwright.service.api.campaigns import runs_of
from kernelwright.service.api.cursor import cursor_of, line_of
from kernelwright.service.api.recent import known_state
from kernelwright.service.api.reply import written
from kernelwright.store import KernelStore, LoggedEvent

LOOK_S = 0.5
_IDLE_LOOK_S = 2.0
_QUIET_S = 15.0
"""After so long without a word a comment is sent, so that nobody takes the line for dead."""
_RETRY_MS = 1000
_REST = 5
"""How many times as long as it looks the stream rests."""


@dataclass(frozen=True)
class _Look:
    lines: tuple[LoggedEvent, ...]
    run_ids: tuple[str, ...]
    state: RunState
    is_alive: bool


class EventStream:
    """Looks at one campaign again and again; a store that is locked is waited for, and said so."""

    def __init__(
        self,
        store: KernelStore,
        campaign_id: str,
        cursor: Mapping[str, int],
        *,
        redact: Callable[[str], str],
        look_s: float = LOOK_S,
    ) -> None:
        self._store = store
        self._campaign_id = campaign_id
        self._given = cursor
        self._last: dict[str, int] = {}
        self._redact = redact
        self._look_s = look_s

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield frames until the reader leaves."""
        yield f"retry: {_RETRY_MS}\n\n"
        told, quiet_s = "", 0.0
        while True:
            began = time.monotonic()
            try:
                look = await run_in_threadpool(self._look)
            except BlockedError as e:
                yield self._problem(e)
                await asyncio.sleep(max(self._look_s, _IDLE_LOOK_S))
                continue
            except StoreError as e:
                # What asks again is answered with the same sentence.
                yield self._problem(e)
                return
            for line in look.lines:
                yield self._line(line)
            state = self._redact(_in_one_line(look.state.model_dump(mode="json")))
            if state != told or look.lines:
                told, quiet_s = state, 0.0
                yield f"event: state\ndata: {state}\n\n"
            elif quiet_s >= _QUIET_S:
                quiet_s = 0.0
                yield ": still here\n\n"
            if not look.lines:
                took_s = time.monotonic() - began
                wait_s = max(self._look_s if look.is_alive else _IDLE_LOOK_S, _REST * took_s)
                quiet_s += wait_s
                await asyncio.sleep(wait_s)

    def _look(self) -> _Look:
        runs = runs_of(self._store, self._campaign_id)
        lines: list[LoggedEvent] = []
        for run in runs:
            last = self._last.setdefault(run.id, line_of(self._given, run.id))
            lines += self._store.browse.events_after(run.id, last)
        newest = runs[-1]
        return _Look(
            lines=tuple(lines),
            run_ids=tuple(run.id for run in runs),
            state=known_state(self._store, newest),
            is_alive=is_alive(newest),
        )

    def _problem(self, error: StoreError) -> str:
        """Write why nothing comes."""
        data = self._redact(_in_one_line({"error": " ".join(str(error).split())}))
        return f"event: problem\ndata: {data}\n\n"

    def _line(self, line: LoggedEvent) -> str:
        """Write an event, with a cursor behind it; JSON has no line breaks of its own."""
        self._last[line.campaign_id] = line.id
        told = {"cursor": cursor_of(self._last), "event": line.model_dump(mode="json")}
        data = self._redact(_in_one_line(told))
        return f"id: {cursor_of(self._last)}\nevent: line\ndata: {data}\n\n"


def _in_one_line(content: object) -> str:
    """Write as JSON of ASCII: some readers end a line of a stream at other characters, too."""
    return json.dumps(json.loads(written(content)))
