"""The part of the store that agents are given: calls, lessons, cases."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from kernelwright.store import dialogue
from kernelwright.store.model_call import Lesson, ModelCall, ModelOutcome, RecordedModelCall, Spend
from kernelwright.store.retry import OnBlocked, RetryingWriter, give_up, retry_when_blocked

Transaction = Callable[[], AbstractContextManager[Session]]


class DialogueStore(RetryingWriter):
    """What models were told and said; reached as `KernelStore.dialogue`.

    Every method is one transaction, durable when it returns.
    """

    def __init__(
        self, read: Transaction, write: Transaction, on_blocked: OnBlocked = give_up
    ) -> None:
        self.on_blocked = on_blocked
        self._read = read
        self._write = write

    @retry_when_blocked
    def begin_call(self, call: ModelCall) -> None:
        """Write a call before it is sent."""
        with self._write() as session:
            dialogue.begin_call(session, call)

    @retry_when_blocked
    def finish_call(self, call_id: str, outcome: ModelOutcome) -> None:
        """Write how a call ended, before anybody acts on the reply."""
        with self._write() as session:
            dialogue.finish_call(session, call_id, outcome)

    @retry_when_blocked
    def keep_flaw(self, call_id: str, flaw: str) -> None:
        """Write why a whole reply is of no use; the call stays finished."""
        with self._write() as session:
            dialogue.keep_flaw(session, call_id, flaw)

    def calls(self, campaign_id: str) -> tuple[RecordedModelCall, ...]:
        """Return a campaign's calls in the order in which they began."""
        with self._read() as session:
            return dialogue.calls(session, campaign_id)

    def replies(self, request_hash: str) -> tuple[RecordedModelCall, ...]:
        """Return the finished calls with this request, of any campaign, in order."""
        with self._read() as session:
            return dialogue.replies(session, request_hash)

    def spending(self) -> dict[str, Spend]:
        """Return what the models were paid, by task."""
        with self._read() as session:
            return dialogue.spending(session)

    @retry_when_blocked
    def keep_lesson(self, lesson: Lesson) -> None:
        """Write a lesson, or its new state and credit."""
        with self._write() as session:
            dialogue.keep_lesson(session, lesson)

    @retry_when_blocked
    def credit_lesson(self, lesson_id: str, *, helped: int = 0, hurt: int = 0) -> None:
        """Count verdicts for and against a lesson."""
        with self._write() as session:
            dialogue.credit_lesson(session, lesson_id, helped=helped, hurt=hurt)

    def lessons(self, signature: str | None = None) -> tuple[Lesson, ...]:
        """Return lessons, the most helpful first."""
        with self._read() as session:
            return dialogue.lessons(session, signature)

    @retry_when_blocked
    def keep_regression_case(
        self, *, task_id: str, body: str, candidate_id: str | None = None
    ) -> str:
        """Keep an input that exposed a wrong program, as JSON; return its id."""
        with self._write() as session:
            return dialogue.keep_regression_case(
                session, task_id=task_id, candidate_id=candidate_id, body=body
            )

    def regression_cases(self, task_id: str) -> tuple[str, ...]:
        """Return a task's regression cases, oldest first."""
        with self._read() as session:
            return dialogue.regression_cases(session, task_id)
