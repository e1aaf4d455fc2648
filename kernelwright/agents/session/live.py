"""Replies from a live server: recorded ones first, then under caps, with retries."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import tenacity
from pydantic import BaseModel

from kernelwright.agents.budget import Budget, Cost, Reservation
from kernelwright.agents.message import (
    Prompt,
    Purpose,
    Reply,
    Spent,
    TimedReply,
    Turn,
    Usage,
    request_hash,
)
from kernelwright.agents.providers.client import Limits, ProviderClient, Receipt, ReplyShape
from kernelwright.agents.providers.fault import (
    EMPTY,
    LASTING,
    OF_THE_PROMPT,
    PASSING,
    Fault,
    FaultKind,
    OutageError,
    QuotaError,
    ReplyError,
    UnusableModelError,
    retry_sentence,
    sentence,
    wait_error,
)
from kernelwright.agents.providers.price import FREE, Price
from kernelwright.agents.providers.reported import Most
from kernelwright.agents.session.async_bridge import Remark, silently
from kernelwright.agents.session.ledger import (
    ABANDONED,
    Call,
    Ledger,
    Outcome,
    RecordedCall,
    turns_of,
)
from kernelwright.agents.session.parse import schema_of
from kernelwright.errors import ModelError
from kernelwright.metal.diagnostic import Record

_OUTPUT_SHARES = (1, 2, 4)
"""Of the usual limit: what a reply may have where the caps leave less; a quarter holds an edit."""
_MOST_CONCESSIONS = 8
_MOST_OF_A_KIND = {FaultKind.TOO_LONG: 2, FaultKind.UNREADABLE: 3, FaultKind.EMPTY: 3}
"""Replies of no use to one request: each is paid for, and the next is seldom another."""
_MOST_UNHEARD = 3
"""Tries of a server that never replied: a wrong address is no passing fault."""
_TOLD_WAIT_S = 5.0
"""From so long a wait on people are told of it."""
_LONGEST_QUEUE_S = 0.05


class Patience(Record):
    """How often and how long to wait for a server that says it is busy."""

    attempts: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_asked_s: float = 60.0
    """Where a server asks for more, nobody stands by: the model is left alone until then."""


USUAL_PATIENCE = Patience()
USUAL_LIMITS = Limits()


class Recollection:
    """The replies on record by request, each handed out once, in their order."""

    def __init__(self, calls: Iterable[RecordedCall]) -> None:
        self._replies: dict[str, list[RecordedCall]] = {}
        self._used = Counter[str]()
        self._awaited: list[RecordedCall] = []
        self._calls = tuple(calls)
        for recorded in self._calls:
            if recorded.is_awaited:
                self._awaited.append(recorded)
            elif recorded.has_reply:
                self._replies.setdefault(recorded.call.request_hash, []).append(recorded)

    def turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return what is on record of a conversation, up to a request that nobody answered."""
        return turns_of(self._calls, purpose)

    def next(self, digest: str) -> RecordedCall | None:
        """Return the next reply to this request, None when all have been used."""
        replies = self._replies.get(digest, [])
        place = self._used[digest]
        if place >= len(replies):
            return None
        self._used[digest] += 1
        return replies[place]

    def awaited(self, digest: str, model: str) -> RecordedCall | None:
        """Hand out a call to a model with this request whose reply its provider keeps."""
        for place, recorded in enumerate(self._awaited):
            if (recorded.call.request_hash, recorded.call.model) == (digest, model):
                return self._awaited.pop(place)
        return None


@dataclass
class LiveExchange:
    """One wire under a budget and a ledger.

    Every request is in the ledger before it leaves and after it ends; a reply on record is
    used instead of being paid for again.
    """

    wire: ProviderClient
    price: Price | None
    """None where no table knows it."""
    ledger: Ledger
    budget: Budget
    recollection: Recollection
    limits: Limits = USUAL_LIMITS
    patience: Patience = USUAL_PATIENCE
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    remark: Remark = silently
    """Takes a sentence for a person: why a reply takes long."""
    _was_heard: bool = False
    """True once the server sent anything but silence."""
    _wasted: dict[str, Spent] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return `provider:model`."""
        return self.wire.name

    @property
    def models(self) -> tuple[str, ...]:
        """Return the one model that it speaks for."""
        return (self.wire.name,)

    async def close(self) -> None:
        """Release the wire's connections."""
        await self.wire.close()

    def recorded_turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return what is on record of a conversation."""
        return self.recollection.turns(purpose)

    def wasted(self, task: str) -> Spent:
        """Return what replies about a task took that were paid for and said nothing."""
        return self._wasted.get(task, Spent())

    async def reply(
        self,
        prompt: Prompt,
        shape: type[BaseModel] | None,
        purpose: Purpose,
        *,
        stands_in: str = "",
    ) -> TimedReply:
        """Return the recorded reply to this request, else a fresh one."""
        digest = request_hash(prompt, shape)
        if (recorded := self.recollection.next(digest)) is not None:
            return recalled(recorded, self.ledger)
        asked = None if shape is None else _shape_of(shape)
        if (fetched := await self._fetched(digest, asked)) is not None:
            return fetched
        call = Call(
            id="",
            request_hash=digest,
            purpose=purpose,
            model=self.name,
            prompt=prompt,
            shape="" if shape is None else shape.__name__,
            worst=Cost(),
            stands_in=stands_in,
        )
        try:
            return await self._retried(call, asked)
        except Fault as fault:
            if (asked_s := self._asked_s(fault)) is not None:
                raise wait_error(self.name, fault, asked_s) from None
            # Not chained: what a server said may be long, and its sentence holds the gist.
            raise _error_of(fault)(sentence(self.name, fault)) from None

    async def _fetched(self, digest: str, asked: ReplyShape | None) -> TimedReply | None:
        """Return the reply that an earlier process has paid for, None where there is none."""
        if (awaited := self.recollection.awaited(digest, self.name)) is None:
            return None
        reservation = self.budget.take_up(awaited.call.worst, awaited.call.purpose.task)
        try:
            return await self._exchanged(
                awaited.call, asked, self.limits.output_tokens, reservation, awaited.place
            )
        except Fault:
            # Expired, cancelled or no more known: it is asked for again.
            return None

    async def _retried(self, call: Call, asked: ReplyShape | None) -> TimedReply:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda e: isinstance(e, Fault) and e.is_retryable),
            wait=self._wait_s,
            stop=partial(self._is_tried_enough, Counter()),
            sleep=self.sleep,
            before_sleep=self._tell_wait,
            reraise=True,
        )
        taken: TimedReply = await retrying(self._conceding, call, asked)
        return taken

    def _asked_s(self, fault: Fault) -> float | None:
        """Return the wait that the server asks for where it is longer than is waited here."""
        asked_s = fault.retry_after_s if fault.is_retryable else None
        return asked_s if asked_s is not None and asked_s > self.patience.longest_asked_s else None

    def _is_tried_enough(self, seen: Counter[FaultKind], state: tenacity.RetryCallState) -> bool:
        """Count the fault of an attempt among those `seen`; say whether it was the last one."""
        if (fault := _fault_in(state)) is not None:
            seen[fault.kind] += 1
            is_away = fault.kind is FaultKind.UNREACHABLE
            self._was_heard |= not is_away
            if self._asked_s(fault) is not None:
                return True
            if is_away and not self._was_heard and seen[fault.kind] >= _MOST_UNHEARD:
                return True
            if seen[fault.kind] >= _MOST_OF_A_KIND.get(fault.kind, self.patience.attempts):
                return True
        return state.attempt_number >= self.patience.attempts

    def _tell_wait(self, state: tenacity.RetryCallState) -> None:
        """Tell people before a wait that they would notice, and where nothing was heard yet."""
        fault = _fault_in(state)
        wait_s = state.next_action.sleep if state.next_action is not None else 0.0
        if fault is not None and (wait_s >= _TOLD_WAIT_S or not self._was_heard):
            self.remark(retry_sentence(self.name, fault))

    def _wait_s(self, state: tenacity.RetryCallState) -> float:
        """What the server asked for, else a randomised back-off."""
        fault = _fault_in(state)
        if fault is not None and fault.retry_after_s is not None:
            return min(fault.retry_after_s, self.patience.longest_wait_s)
        back_off = tenacity.wait_random_exponential(
            multiplier=self.patience.first_wait_s, max=self.patience.longest_wait_s
        )
        return back_off(state)

    async def _conceding(self, call: Call, asked: ReplyShape | None) -> TimedReply:
        """One request, repeated at once while the server refuses features one by one."""
        for _ in range(_MOST_CONCESSIONS):
            try:
                return await self._sent(call, asked)
            except Fault as fault:
                if fault.kind is not FaultKind.UNSUPPORTED:
                    raise
        return await self._sent(call, asked)

    async def _sent(self, call: Call, asked: ReplyShape | None) -> TimedReply:
        """One request, in the ledger and under the budget from beginning to end."""
        most_tokens, reservation = await self._reserved(call, asked)
        call = call.model_copy(update={"id": uuid.uuid4().hex, "worst": reservation.worst})
        return await self._exchanged(call, asked, most_tokens, reservation)

    async def _exchanged(
        self,
        call: Call,
        asked: ReplyShape | None,
        most_tokens: int,
        reservation: Reservation,
        place: str = "",
    ) -> TimedReply:
        """Send a call, or fetch its reply from where an earlier process left it."""
        # Cancelled in flight, nobody knows what the server did: the worst case counts.
        outcome = Outcome(fault=ABANDONED, cost=call.worst.as_assumed)
        started_s = time.monotonic()
        try:
            if not place:
                self.ledger.begin(call)
            receipt = Receipt(partial(self.ledger.keep_place, call.id), place)
            limits = self._limits(call.purpose.task, most_tokens)
            reply = await self.wire.send(call.prompt, asked, limits, receipt)
            self._was_heard = True
            cost = self._cost(reply.usage)
            _check_empty(reply)
            outcome = Outcome.of(reply, cost)
            keep = partial(self.ledger.keep_answer, call.id)
            taken_s = time.monotonic() - started_s
            flaw = partial(self.ledger.keep_flaw, call.id)
            return TimedReply(reply, cost, taken_s, call.id, keep_answer=keep, keep_flaw=flaw)
        except Fault as fault:
            outcome = self._failed(call, fault)
            raise
        finally:
            latency_s = time.monotonic() - started_s
            self.budget.settle(reservation, outcome.cost)
            if outcome.fault and outcome.usage.total_tokens:
                task = call.purpose.task
                self._wasted[task] = self.wasted(task) + Spent(outcome.cost.dollars, latency_s)
            self.ledger.finish(call.id, outcome.model_copy(update={"latency_s": latency_s}))

    async def _reserved(self, call: Call, asked: ReplyShape | None) -> tuple[int, Reservation]:
        """Wait until the calls in flight leave room for this one at its worst.

        Return how many tokens its reply may have, and that room.
        """
        while True:
            most_tokens, worst = self._affordable(call, asked)
            reservation = self.budget.reserve(worst, call.purpose.task)
            if reservation is not None:
                return most_tokens, reservation
            await asyncio.sleep(_LONGEST_QUEUE_S)

    def _affordable(self, call: Call, asked: ReplyShape | None) -> tuple[int, Cost]:
        """Return the longest reply that the caps have room for, else the shortest of use."""
        for share in _OUTPUT_SHARES:
            most_tokens = self.limits.output_tokens // share
            worst = self._worst(call.prompt, asked, most_tokens)
            if self.budget.has_room(worst, call.purpose.task):
                break
        return most_tokens, worst

    def _limits(self, task: str, most_tokens: int) -> Limits:
        """The usual limits, cut to the tokens and the time that are left."""
        left_s = self.budget.seconds_left(task)
        total_s = self.limits.total_s if left_s is None else min(self.limits.total_s, left_s)
        update = {"output_tokens": most_tokens, "total_s": max(total_s, 0.01)}
        return self.limits.model_copy(update=update)

    def _worst(self, prompt: Prompt, asked: ReplyShape | None, output_tokens: int) -> Cost:
        most = Most.of(prompt, asked, output_tokens)
        return Cost(
            dollars=self._known_price().worst(
                most.input_tokens,
                most.output_tokens,
                for_an_hour=prompt.keeps_cache_for_an_hour,
            ),
            tokens=most.input_tokens + most.output_tokens,
            calls=1,
        )

    def _cost(self, usage: Usage) -> Cost:
        dollars = self._known_price().dollars(usage)
        return Cost(dollars=dollars, tokens=usage.total_tokens, calls=1)

    def _failed(self, call: Call, fault: Fault) -> Outcome:
        told = f"{fault.kind}: {fault.message}"
        is_whole = fault.is_bill or fault.kind is FaultKind.EMPTY
        if is_whole and fault.usage is not None:
            return Outcome(fault=told, usage=fault.usage, cost=self._cost(fault.usage))
        # Whatever ended a reply that had begun, overload too: the prompt was read by then.
        is_billed = fault.may_be_billed or fault.usage is not None
        if is_billed:
            return Outcome(fault=told, cost=call.worst.as_assumed)
        # A model that cannot be asked takes no call from those that can.
        is_no_call = fault.kind in LASTING or fault.kind is FaultKind.UNSENT
        return Outcome(fault=told, cost=Cost(calls=0 if is_no_call else 1))

    def _known_price(self) -> Price:
        if self.price is not None:
            return self.price
        if self.budget.campaign.dollars is None and self.budget.per_task.dollars is None:
            return FREE
        raise unpriced(self.name)


def _check_empty(reply: Reply) -> None:
    if reply.is_empty:
        raise Fault(FaultKind.EMPTY, EMPTY, usage=reply.usage)


def _shape_of(shape: type[BaseModel]) -> ReplyShape:
    return ReplyShape(
        name=shape.__name__.lower(),
        description=(shape.__doc__ or shape.__name__).strip(),
        json_schema=schema_of(shape),
    )


def _fault_in(state: tenacity.RetryCallState) -> Fault | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, Fault) else None


def _error_of(fault: Fault) -> type[ModelError]:
    if fault.kind in OF_THE_PROMPT:
        return ReplyError
    if fault.kind is FaultKind.QUOTA:
        return QuotaError
    return OutageError if fault.kind in PASSING else UnusableModelError


def unpriced(model: str) -> ModelError:
    """Return what is said where a cap in dollars cannot hold."""
    return ModelError(
        f"no price is known for {model}, so a cap in dollars cannot hold; add a row to your "
        "prices.toml, or cap tokens or calls instead."
    )


def recalled(recorded: RecordedCall, ledger: Ledger, call_id: str = "") -> TimedReply:
    """Return a reply on record with what it took when it was fresh, and what it was answered with.

    Further answers go to the ledger, under the call's id if no other is given.
    """
    outcome, id_ = recorded.outcome, call_id or recorded.call.id
    assert outcome is not None
    return TimedReply(
        recorded.reply,
        outcome.cost,
        outcome.latency_s,
        id_,
        answers=recorded.answers,
        keep_answer=partial(ledger.keep_answer, id_),
        keep_flaw=partial(ledger.keep_flaw, id_),
    )
