"""Hard caps on money, tokens, calls and time, with calls in flight at their worst case."""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pydantic import field_validator

from kernelwright.agents.cap_text import cap_reached, in_dollars, in_time
from kernelwright.errors import BudgetError
from kernelwright.metal.diagnostic import Record
from kernelwright.plural import counted


class Cost(Record):
    """What one call, a task or a campaign took."""

    dollars: float = 0.0
    tokens: int = 0
    calls: int = 0
    assumed_dollars: float = 0.0
    """What calls are counted at whose bill nobody has seen, such as one that a kill cut off."""
    assumed_tokens: int = 0
    assumed_calls: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum, kind by kind."""
        return self._with(other, 1)

    def __sub__(self, other: "Cost") -> "Cost":
        """Return the difference, kind by kind."""
        return self._with(other, -1)

    def _with(self, other: "Cost", sign: int) -> "Cost":
        return Cost(
            dollars=self.dollars + sign * other.dollars,
            tokens=self.tokens + sign * other.tokens,
            calls=self.calls + sign * other.calls,
            assumed_dollars=self.assumed_dollars + sign * other.assumed_dollars,
            assumed_tokens=self.assumed_tokens + sign * other.assumed_tokens,
            assumed_calls=self.assumed_calls + sign * other.assumed_calls,
        )

    @property
    def as_assumed(self) -> "Cost":
        """The same where no bill is known of it; a call that cost nothing has none to be known."""
        return self.model_copy(
            update={
                "assumed_dollars": self.dollars,
                "assumed_tokens": self.tokens,
                "assumed_calls": self.calls if self.tokens else 0,
            }
        )

    @property
    def known_dollars(self) -> float:
        """The dollars that were billed."""
        return self.dollars - self.assumed_dollars

    @property
    def known_tokens(self) -> int:
        """The tokens that were billed."""
        return self.tokens - self.assumed_tokens


NOTHING = Cost()


class Caps(Record):
    """Limits that are never exceeded; None leaves a kind unlimited."""

    dollars: float | None = None
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None

    @field_validator("dollars", "seconds")
    @classmethod
    def _limited(cls, value: float | None) -> float | None:
        """Take what is infinite for no cap; what is no number would never be reached."""
        if value is not None and math.isnan(value):
            raise ValueError("expected a number, found nan")
        return None if value == math.inf else value

    @property
    def limits(self) -> tuple[str, ...]:
        """What each cap allows, in words."""
        limits = [] if self.dollars is None else [in_dollars(self.dollars)]
        limits += [] if self.tokens is None else [counted(self.tokens, "token")]
        limits += [] if self.calls is None else [counted(self.calls, "call")]
        limits += [] if self.seconds is None else [in_time(self.seconds)]
        return tuple(limits)

    def are_exceeded_by(self, cost: Cost) -> bool:
        """Say whether a cost is above any cap."""
        return bool(self.reached(cost, NOTHING))

    def reached(self, spent: Cost, worst: Cost, *, of: str = "") -> str:
        """Say which cap a call would exceed at its worst, or return nothing.

        `of` says whose caps they are, where they are not those of the whole run.
        """
        total = spent + worst
        if self.dollars is not None and total.dollars > self.dollars:
            return cap_reached(
                in_dollars(self.dollars),
                of=of,
                spent=in_dollars(spent.known_dollars),
                assumed=in_dollars(spent.assumed_dollars),
                unbilled=spent.assumed_calls,
                next_takes=in_dollars(worst.dollars),
            )
        if self.tokens is not None and total.tokens > self.tokens:
            return cap_reached(
                counted(self.tokens, "token"),
                of=of,
                spent=counted(spent.known_tokens, "token"),
                assumed=counted(spent.assumed_tokens, "token"),
                unbilled=spent.assumed_calls,
                next_takes=counted(worst.tokens, "token"),
            )
        if self.calls is not None and total.calls > self.calls:
            return cap_reached(counted(self.calls, "call"), of=of)
        return ""


UNLIMITED = Caps()


@dataclass
class _Account:
    """What one scope has spent, and may still have to pay for calls in flight."""

    caps: Caps
    started_s: float
    spent: Cost = NOTHING
    reserved: Cost = NOTHING

    def seconds_left(self, now_s: float) -> float | None:
        if self.caps.seconds is None:
            return None
        return self.caps.seconds - (now_s - self.started_s)


@dataclass(frozen=True)
class Reservation:
    """Room that one call in flight holds until it is settled."""

    worst: Cost
    task: str


@dataclass
class Budget:
    """The caps of a campaign and of each of its tasks; safe to use from several threads."""

    campaign: Caps = UNLIMITED
    per_task: Caps = UNLIMITED
    clock: Callable[[], float] = time.monotonic
    _whole: _Account = field(init=False)
    _tasks: dict[str, _Account] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._whole = _Account(self.campaign, self.clock())

    def restore(self, calls: Iterable[tuple[str, Cost, float]], elapsed_s: float = 0.0) -> None:
        """Count what an earlier run of the campaign spent, as (task, cost, seconds) of each call.

        `elapsed_s` is how long that run took; of a task's own time only its calls are known.
        """
        with self._lock:
            self._whole.started_s -= elapsed_s
            for task, cost, seconds in calls:
                for account in self._accounts(task):
                    account.spent += cost
                if task:
                    self._account(task).started_s -= seconds

    def reserve(self, worst: Cost, task: str = "") -> Reservation | None:
        """Hold room for a call at its worst; None says that calls in flight must end first.

        Raises:
            BudgetError: the call does not fit even when everything in flight costs nothing.
        """
        with self._lock:
            accounts = self._accounts(task)
            for account in accounts:
                self._refuse_if_hopeless(account, worst)
            if any(a.caps.are_exceeded_by(a.spent + a.reserved + worst) for a in accounts):
                return None
            for account in accounts:
                account.reserved += worst
            return Reservation(worst, task)

    def take_up(self, worst: Cost, task: str = "") -> Reservation:
        """Count a call as in flight again that an earlier run counted at its worst."""
        with self._lock:
            for account in self._accounts(task):
                account.spent -= worst.as_assumed
                account.reserved += worst
            return Reservation(worst, task)

    def has_room(self, worst: Cost, task: str = "") -> bool:
        """Say whether a call fits at its worst, when everything in flight costs nothing."""
        with self._lock:
            return not any(a.caps.are_exceeded_by(a.spent + worst) for a in self._accounts(task))

    def settle(self, reservation: Reservation, actual: Cost) -> None:
        """Give the room back and count what the call really took."""
        with self._lock:
            for account in self._accounts(reservation.task):
                account.reserved -= reservation.worst
                account.spent += actual

    def spent(self, task: str | None = None) -> Cost:
        """Return what the campaign, or one task of it, has spent."""
        with self._lock:
            return self._whole.spent if task is None else self._account(task).spent

    def seconds_left(self, task: str = "") -> float | None:
        """Return how long the task may still take, None without a limit."""
        with self._lock:
            now_s = self.clock()
            left = [a.seconds_left(now_s) for a in self._accounts(task)]
        limits = [seconds for seconds in left if seconds is not None]
        return min(limits) if limits else None

    def _refuse_if_hopeless(self, account: _Account, worst: Cost) -> None:
        of = "" if account is self._whole else "task"
        left_s = account.seconds_left(self.clock())
        if left_s is not None and left_s <= 0:
            raise BudgetError(f"{cap_reached(in_time(account.caps.seconds or 0.0), of=of)}.")
        if reached := account.caps.reached(account.spent, worst, of=of):
            raise BudgetError(f"{reached}.")

    def _accounts(self, task: str) -> tuple[_Account, ...]:
        return (self._whole, self._account(task)) if task else (self._whole,)

    def _account(self, task: str) -> _Account:
        return self._tasks.setdefault(task, _Account(self.per_task, self.clock()))
