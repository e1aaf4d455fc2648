"""Conversations for callers that are not async: a thread that talks while others evaluate."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Self, TypeVar

from kernelwright.agents.message import (
    Acceptance,
    Answer,
    ChatModel,
    Prompt,
    Purpose,
    Shape,
    Spent,
    TimedReply,
    Turn,
)
from kernelwright.agents.providers.fault import OutageError, ReplyError

_Result = TypeVar("_Result")
Remark = Callable[[str], None]
"""Takes a sentence for a person: why a conversation brought nothing."""
OnStandIn = Callable[[Purpose, str, str], None]
"""Takes what a model was asked for, who answered instead, and why."""


def silently(*told: object) -> None:
    """Tell nobody."""


class AsyncBridge:
    """Runs a `ChatModel` on a thread of its own; safe to use from any thread.

    Whoever asks goes on without a model that refuses or is away; `remark` tells people of it, and
    `on_stand_in` where another one answers.
    """

    def __init__(
        self, model: ChatModel, remark: Remark = silently, on_stand_in: OnStandIn = silently
    ) -> None:
        self._model = model
        self._remark = remark
        self._on_stand_in = on_stand_in
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kernelwright-models", daemon=True
        )
        self._thread.start()

    @property
    def name(self) -> str:
        """`provider:model` of the first choice."""
        return self._model.name

    @property
    def models(self) -> tuple[str, ...]:
        """Every `provider:model` that may be asked."""
        return self._model.models

    def submit(
        self,
        prompt: Prompt,
        shape: type[Shape],
        purpose: Purpose,
        accept: Acceptance[Shape] | None = None,
    ) -> "Future[Answer[Shape]]":
        """Begin a conversation and return its future answer; see `ChatModel.ask`."""
        return self._begun(self._model.ask(prompt, shape, purpose, accept))

    def ask(
        self,
        prompt: Prompt,
        shape: type[Shape],
        purpose: Purpose,
        accept: Acceptance[Shape] | None = None,
    ) -> Answer[Shape]:
        """Hold a conversation to its end; see `ChatModel.ask`."""
        try:
            answer = self.submit(prompt, shape, purpose, accept).result()
        except (ReplyError, OutageError) as e:
            self._remark(str(e))
            raise
        if answer.stands_in:
            self._on_stand_in(purpose, answer.model, answer.stands_in)
        return answer

    def turn(self, prompt: Prompt, purpose: Purpose) -> TimedReply:
        """Return a conversation's next turn; see `ChatModel.turn`."""
        speaking = self._begun(self._model.turn(prompt, purpose))
        try:
            timed = speaking.result()
        except (ReplyError, OutageError) as e:
            self._remark(str(e))
            raise
        if timed.stands_in:
            self._on_stand_in(purpose, timed.reply.model, timed.stands_in)
        return timed

    def spent(self, task: str) -> Spent:
        """Return what all replies about a task took so far; see `ChatModel.spent`."""
        return self._model.spent(task)

    def recorded_turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return what is on record of a conversation; see `ChatModel.recorded_turns`."""
        return self._model.recorded_turns(purpose)

    def _begun(self, conversation: Coroutine[None, None, _Result]) -> "Future[_Result]":
        """Let the models' thread hold a conversation; after `close` it is abandoned at once.

        Raises:
            CancelledError: the bridge is closed, as for what was in flight when it was.
        """
        with self._lock:
            if not self._is_closed:
                return asyncio.run_coroutine_threadsafe(conversation, self._loop)
        conversation.close()
        raise CancelledError

    def close(self) -> None:
        """Abandon what is in flight, release connections, end the thread."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        asyncio.run_coroutine_threadsafe(self._wind_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _wind_down(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._model.close()
        await self._loop.shutdown_asyncgens()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
