"""Hard caps on money, tokens, calls and time, with calls in flight at their worst case."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kernelwright.errors import BudgetError
from kernelwright.metal.diagnostic import Record
from kernelwright.plural import counted


class Cost(Record):
    """What one call, a task or a campaign took."""

    dollars: float = 0.0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum, kind by kind."""
        return Cost(
            dollars=self.dollars + other.dollars,
            tokens=self.tokens + other.tokens,
            calls=self.calls + other.calls,
        )

    def __sub__(self, other: "Cost") -> "Cost":
        """Return the difference, kind by kind."""
        return Cost(
            dollars=self.dollars - other.dollars,
            tokens=self.tokens - other.tokens,
            calls=self.calls - other.calls,
        )


NOTHING = Cost()


class Caps(Record):
    """Limits that are never exceeded; None leaves a kind unlimited."""

    dollars: float | None = None
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None

    def exceeded_by(self, cost: Cost) -> str:
        """Name the first cap that `cost` would exceed, or return nothing."""
        if self.dollars is not None and cost.dollars > self.dollars:
            return f"${self.dollars:.2f}"
        if self.tokens is not None and cost.tokens > self.tokens:
            return counted(self.tokens, "token")
        if self.calls is not None and cost.calls > self.calls:
            return counted(self.calls, "call")
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
            if any(a.caps.exceeded_by(a.spent + a.reserved + worst) for a in accounts):
                return None
            for account in accounts:
                account.reserved += worst
            return Reservation(worst, task)

    def has_room(self, worst: Cost, task: str = "") -> bool:
        """Say whether a call fits at its worst, when everything in flight costs nothing."""
        with self._lock:
            return not any(a.caps.exceeded_by(a.spent + worst) for a in self._accounts(task))

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
        scope = "campaign" if account is self._whole else "task"
        left_s = account.seconds_left(self.clock())
        if left_s is not None and left_s <= 0:
            raise BudgetError(
                f"the {scope}'s {account.caps.seconds:g} s are over; raise the limit to go on."
            )
        if cap := account.caps.exceeded_by(account.spent + worst):
            raise BudgetError(
                f"the next call could take ${worst.dollars:.4f} and "
                f"{counted(worst.tokens, 'token')}, and "
                f"the {scope} spent ${account.spent.dollars:.4f}, "
                f"{counted(account.spent.tokens, 'token')}, "
                f"{counted(account.spent.calls, 'call')} of its cap of {cap}; "
                "raise the cap to go on."
            )

    def _accounts(self, task: str) -> tuple[_Account, ...]:
        return (self._whole, self._account(task)) if task else (self._whole,)

    def _account(self, task: str) -> _Account:
        return self._tasks.setdefault(task, _Account(self.per_task, self.clock()))
