"""Replies of an earlier campaign, given again without a key, a network or a cost."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import Prompt, Purpose, Spent, TimedReply, Turn, request_hash
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.session.ledger import Call, Ledger, Outcome, RecordedCall, turns_of
from kernelwright.agents.session.live import recalled


class ReplayExchange:
    """Answers each request as the recorded campaign did.

    An identical request gets its own reply. Timings make prompts differ from run to run, so
    any other request gets the next unused reply to the same role about the same task.
    """

    def __init__(self, campaign: str, calls: Iterable[RecordedCall], ledger: Ledger) -> None:
        self._campaign = campaign
        self._ledger = ledger
        self._by_hash = defaultdict[str, list[RecordedCall]](list)
        self._by_purpose = defaultdict[Purpose, list[RecordedCall]](list)
        self._used: set[str] = set()
        models: dict[str, None] = {}
        for recorded in calls:
            if recorded.has_reply:
                models[recorded.call.model] = None
                self._by_hash[recorded.call.request_hash].append(recorded)
                self._by_purpose[_kind(recorded.call.purpose)].append(recorded)
        self._models = tuple(models)

    @property
    def name(self) -> str:
        """Return `replay:campaign`."""
        return f"replay:{self._campaign}"

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models whose replies are on record."""
        return self._models

    async def close(self) -> None:
        """There is nothing to release."""

    def recorded_turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return what is on record of a conversation."""
        known = self._by_purpose[_kind(purpose)]
        return turns_of(known, known[0].call.purpose) if known else ()

    def wasted(self, task: str) -> Spent:
        """Return nothing: replies that said nothing are not given again."""
        return Spent()

    async def reply(
        self,
        prompt: Prompt,
        shape: type[BaseModel] | None,
        purpose: Purpose,
        *,
        stands_in: str = "",
    ) -> TimedReply:
        """Return a recorded reply; record it again, at no cost."""
        digest = request_hash(prompt, shape)
        recorded = self._next(self._by_hash[digest]) or self._next(self._by_purpose[_kind(purpose)])
        if recorded is None:
            raise ReplyError(
                f"{self.name} holds no further reply to the {purpose.role} about this task; "
                "name a live model to go on from here."
            )
        call = Call(
            id=uuid.uuid4().hex,
            request_hash=digest,
            purpose=purpose,
            model=recorded.call.model,
            prompt=prompt,
            shape="" if shape is None else shape.__name__,
            worst=Cost(),
            stands_in=stands_in or recorded.call.stands_in,
        )
        reply = recorded.reply
        given_again = Outcome.of(reply, Cost()).model_copy(update={"is_replayed": True})
        self._ledger.begin(call)
        self._ledger.finish(call.id, given_again)
        # What it took when it was fresh: a search that weighs costs then decides as it did.
        return recalled(recorded, self._ledger, call.id)

    def _next(self, recorded: list[RecordedCall]) -> RecordedCall | None:
        for candidate in recorded:
            if candidate.call.id not in self._used:
                self._used.add(candidate.call.id)
                return candidate
        return None


def _kind(purpose: Purpose) -> Purpose:
    """Return a purpose whoever was asked: a replay may prefer another model than was preferred."""
    return purpose.model_copy(update={"model": ""})
