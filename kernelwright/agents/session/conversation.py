"""The policy around an exchange: validate, ask once more, try the next model."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import (
    Acceptance,
    Answer,
    Prompt,
    Purpose,
    Reply,
    Shape,
    Spent,
    TimedReply,
    Turn,
)
from kernelwright.agents.providers.fault import (
    ANOTHER,
    AskedToWaitError,
    OutageError,
    QuotaError,
    ReplyError,
    UnusableModelError,
)
from kernelwright.agents.session.parse import InvalidReplyError, parse
from kernelwright.errors import BudgetError, ModelError

_Result = TypeVar("_Result")
_NO_RECORD = "no valid record"
"""The cause of a reply that answers no question, as people read it."""
_REST_S = 600.0
"""How long a model that no waiting heals is left alone while another one can be asked."""
_FIRST_REST_S = 30.0
"""How long after a first outage; twice as long after each further one, at most `_REST_S`."""


class Exchange(Protocol):
    """One model's replies, wherever they come from: a server or the record."""

    @property
    def name(self) -> str:
        """Return `provider:model`, or `replay:campaign`."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return every `provider:model` that it speaks for: of a replay, all that were recorded."""

    async def reply(
        self,
        prompt: Prompt,
        shape: type[BaseModel] | None,
        purpose: Purpose,
        *,
        stands_in: str = "",
    ) -> TimedReply:
        """Return one complete reply, valid or not; without a shape, one that may call tools.

        `stands_in` says why a model that was asked before gave nothing.

        Raises:
            ModelError: there will be none, whatever is tried.
            BudgetError: the call at its worst could exceed a cap.
        """

    def recorded_turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return the turns that are on record of a conversation."""

    def wasted(self, task: str) -> Spent:
        """Return what replies about a task took that were paid for and said nothing."""

    async def close(self) -> None:
        """Release connections."""


@dataclass(frozen=True)
class _Question(Generic[Shape]):
    """What has to be answered with a record."""

    prompt: Prompt
    shape: type[Shape]
    purpose: Purpose
    accept: Acceptance[Shape] | None


@dataclass(frozen=True)
class _Rest:
    """Why a model is left alone, and until when."""

    reason: ModelError
    until_s: float


class Conversations:
    """A `ChatModel` over a list of exchanges: the first that gives a usable reply answers."""

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        *,
        concurrency: int = 4,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchanges = tuple(exchanges)
        self._clock = clock
        self._resting: dict[str, _Rest] = {}
        """The models that are left alone, by name."""
        self._outages = Counter[str]()
        """How often each model was away since its last reply."""
        self._slots = asyncio.Semaphore(concurrency)
        self._gave_up: defaultdict[Purpose, set[str]] = defaultdict(set)
        """Who had no usable reply in a conversation: the others are asked before."""
        self._spent: dict[str, Spent] = {}

    @property
    def name(self) -> str:
        """Return the first choice's name."""
        return self._exchanges[0].name

    @property
    def models(self) -> tuple[str, ...]:
        """Return every model that may be asked, the first choice first."""
        return tuple(dict.fromkeys(m for exchange in self._exchanges for m in exchange.models))

    async def ask(
        self,
        prompt: Prompt,
        shape: type[Shape],
        purpose: Purpose,
        accept: Acceptance[Shape] | None = None,
    ) -> Answer[Shape]:
        """Hold one conversation; see `ChatModel.ask`."""
        return await self._first(
            lambda exchange, why: self._converse(
                exchange, _Question(prompt, shape, purpose, accept), why
            ),
            purpose.model,
            gave_up=set(),
        )

    async def turn(self, prompt: Prompt, purpose: Purpose) -> TimedReply:
        """Return the next turn of a conversation with tools; see `ChatModel.turn`."""
        return await self._first(
            lambda exchange, why: self._next_turn(exchange, prompt, purpose, why),
            purpose.model,
            gave_up=self._gave_up[purpose],
        )

    def recorded_turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return the longest record of a conversation."""
        records = [exchange.recorded_turns(purpose) for exchange in self._exchanges]
        return max(records, key=len)

    async def _first(
        self, ask: Callable[[Exchange, str], Awaitable[_Result]], model: str, *, gave_up: set[str]
    ) -> _Result:
        """Return what the first exchange gives that gives anything; `model` is asked before all.

        A cheaper model may still fit caps that a dear one's call could exceed. Who `gave_up` comes
        last, and whoever gives no usable reply is put there. Who rests is asked where all do,
        unless its server asked for the wait.
        """

        def place(exchange: Exchange) -> tuple[bool, bool]:
            return exchange.name in gave_up, bool(model) and model not in exchange.models

        exchanges = sorted(self._exchanges, key=place)
        async with self._slots:
            awake = [e for e in exchanges if not self._rests(e)]
            failures: list[ModelError | BudgetError] = []
            for exchange in exchanges:
                rest = self._resting.get(exchange.name)
                if rest is not None and exchange not in awake:
                    if isinstance(rest.reason, AskedToWaitError):
                        left_s = rest.until_s - self._clock()
                        failures.append(rest.reason.with_left(left_s))
                        continue
                    if awake:
                        failures.append(rest.reason)
                        continue
                try:
                    return await ask(exchange, "; ".join(map(_reason, failures)))
                except (ModelError, BudgetError) as e:
                    failures.append(e)
                    if isinstance(e, ReplyError):
                        gave_up.add(exchange.name)
                    elif isinstance(e, OutageError | UnusableModelError):
                        self._leave_alone(exchange, e)
        # What the first choice said matters most, unless a later one may recover.
        raise min(failures, key=_permanence)

    def _leave_alone(self, exchange: Exchange, error: ModelError) -> None:
        rest_s = _REST_S
        if isinstance(error, AskedToWaitError):
            rest_s = error.wait_s
        elif isinstance(error, OutageError) and not isinstance(error, QuotaError):
            rest_s = min(_FIRST_REST_S * 2.0 ** self._outages[exchange.name], _REST_S)
            self._outages[exchange.name] += 1
        self._resting[exchange.name] = _Rest(error, self._clock() + rest_s)

    def _rests(self, exchange: Exchange) -> bool:
        rest = self._resting.get(exchange.name)
        return rest is not None and self._clock() < rest.until_s

    def spent(self, task: str) -> Spent:
        """Return what all replies about a task took so far; see `ChatModel.spent`."""
        spent = self._spent.get(task, Spent())
        return sum((exchange.wasted(task) for exchange in self._exchanges), spent)

    async def close(self) -> None:
        """Release every exchange."""
        for exchange in self._exchanges:
            await exchange.close()

    async def _next_turn(
        self, exchange: Exchange, prompt: Prompt, purpose: Purpose, stands_in: str
    ) -> TimedReply:
        timed = await self._reply(exchange, prompt, None, purpose, stands_in)
        _check_refusal(exchange, timed.reply)
        return replace(timed, stands_in=stands_in)

    async def _converse(
        self, exchange: Exchange, question: "_Question[Shape]", stands_in: str
    ) -> Answer[Shape]:
        """Ask, and once more with what was wrong when the reply cannot be used."""
        taken: list[TimedReply] = []
        prompt, shape, problem = question.prompt, question.shape, ""
        for _ in range(2):
            taken.append(await self._reply(exchange, prompt, shape, question.purpose, stands_in))
            reply = taken[-1].reply
            _check_refusal(exchange, reply)
            try:
                record = parse(reply.text, shape, question.accept)
            except InvalidReplyError as e:
                problem = str(e)
                taken[-1].keep_flaw(f"{_NO_RECORD}: {problem}")
                prompt = prompt.answered(reply.text, correction(reply, problem, shape))
                continue
            return Answer(
                record=record,
                model=reply.model,
                cost=sum((t.cost for t in taken), Cost()),
                latency_s=sum(t.latency_s for t in taken),
                calls=tuple(t.call_id for t in taken),
                stands_in=stands_in,
            )
        raise ReplyError(
            f"{exchange.name} gave no usable reply, asked twice ({_brief(problem)}){ANOTHER}."
        )

    async def _reply(
        self,
        exchange: Exchange,
        prompt: Prompt,
        shape: type[BaseModel] | None,
        purpose: Purpose,
        stands_in: str,
    ) -> TimedReply:
        """Return a reply, counted whatever becomes of it."""
        timed = await exchange.reply(prompt, shape, purpose, stands_in=stands_in)
        self._outages.pop(exchange.name, None)
        spent = self._spent.get(purpose.task, Spent())
        self._spent[purpose.task] = spent + Spent.on(timed)
        return timed


def _reason(failure: ModelError | BudgetError) -> str:
    """Return what a model failed with, without the advice that another one makes needless."""
    return str(failure).rstrip(".").removesuffix(ANOTHER)


def _permanence(failure: ModelError | BudgetError) -> tuple[int, float]:
    """Order failures by how soon they may be over."""
    if isinstance(failure, OutageError):
        return 0, failure.wait_s if isinstance(failure, AskedToWaitError) else 0.0
    return (1 if isinstance(failure, BudgetError) else 2), 0.0


def _check_refusal(exchange: Exchange, reply: Reply) -> None:
    if reply.stop == "refused":
        raise ReplyError(f"{exchange.name} refused ({_brief(reply.text)}){ANOTHER}.")


def correction(reply: Reply, problem: str, shape: type[BaseModel]) -> str:
    """Tell the model what was wrong with its reply."""
    if reply.stop == "truncated":
        return (
            "The reply was cut off before it was complete. Send the whole "
            f"{shape.__name__} object again, shorter: one entry is enough."
        )
    return (
        f"That reply cannot be used: {problem}. Send the whole {shape.__name__} object again, "
        "with that put right and nothing around it."
    )


def _brief(text: str) -> str:
    return " ".join(text.split())[:200].rstrip(".") or "no reason given"
