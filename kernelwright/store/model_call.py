"""Records of what was asked of models, what they answered and cost, and what was learned."""

from datetime import datetime
from typing import Literal

from kernelwright.metal.diagnostic import Record

CallState = Literal["begun", "finished", "failed"]


class ModelCall(Record):
    """A request to a model, recorded before it is sent; what it may cost is reserved."""

    id: str
    campaign_id: str | None
    task_id: str | None = None
    parent_id: str | None = None
    provider: str
    model: str
    role: str
    template_hash: str = ""
    request_hash: str
    request: str
    """The whole request as JSON, enough to send it again."""
    reserved_microdollars: int = 0


class ModelOutcome(Record):
    """What became of a call; `failure` is empty for a complete reply that is of use."""

    reply: str = ""
    """The whole outcome as JSON or text, as the agents wrote it."""
    failure: str = ""
    input_tokens: int = 0
    """As billed, like the other two; none of a call whose reply never came whole."""
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_microdollars: int = 0
    latency_s: float | None = 0.0
    """None for a recorded reply that was given again: nobody was asked, and nothing was paid."""


class Spend(Record):
    """What calls to models took."""

    calls: int
    """Those that a model was asked by; what a replay answered is none of them."""
    replayed_calls: int = 0
    unbilled_calls: int = 0
    """Those of them whose reply never came whole and that may be billed all the same."""
    tokens: int
    """Of whole replies alone."""
    microdollars: int
    """At most: a call whose reply never came whole counts at its worst, as caps count it."""
    known_microdollars: int = 0
    """Of whole replies alone."""

    @property
    def dollars(self) -> float:
        """The cost in dollars, at most."""
        return self.microdollars / 1_000_000

    @property
    def known_dollars(self) -> float:
        """The cost of whole replies in dollars."""
        return self.known_microdollars / 1_000_000


class RecordedModelCall(Record):
    """A call with its outcome; None while it is in flight, and for ever after a kill."""

    call: ModelCall
    outcome: ModelOutcome | None
    at: datetime | None = None
    """When it was written down."""


LessonState = Literal["proposed", "trusted", "refuted"]


class Lesson(Record):
    """Something learned about tasks of a signature, with what speaks for it."""

    id: str
    text: str
    signature: str
    dtype: str | None = None
    device: str | None = None
    state: LessonState = "proposed"
    evidence: tuple[str, ...] = ()
    """Ids of the evaluations that it cites."""
    helped: int = 0
    hurt: int = 0
