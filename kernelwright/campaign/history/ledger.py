"""The ledger of a campaign's model calls, kept in the store."""

import json
import math
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import ToolResult
from kernelwright.agents.session import Call, Outcome, RecordedCall
from kernelwright.agents.session.transcript import Ending, Transcript, transcripts
from kernelwright.campaign.history.resuming import shown_id
from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.store import KernelStore, ModelCall, ModelOutcome, RecordedModelCall
from kernelwright.validation import shown

_MICRO = 1_000_000
_ENDED = "ConversationEnded"
"""The kind of a log's line that says why a conversation is over."""
_AWAITED = "ReplyAwaited"
"""The kind of a log's line that says where a provider keeps the reply to a call."""
_ANSWERED = "ToolAnswered"
"""The kind of a log's line that holds the answer to a tool call of a reply."""
_MOST_CAMPAIGNS = 1000


class StoreLedger:
    """Writes a campaign's calls; knows those of the runs that it takes over from, too."""

    def __init__(self, store: KernelStore, campaign_id: str) -> None:
        self._store = store
        self._dialogue = store.dialogue
        self._campaign_id = campaign_id
        runs = abandoned(store, campaign_id)
        places, answers = _places(store, runs), _answers(store, runs)
        self._earlier = [
            recorded.model_copy(
                update={
                    "place": places.get(recorded.call.id, ""),
                    "answers": answers.get(recorded.call.id, {}),
                }
            )
            for run in runs
            for recorded in recorded_calls(store, run)
        ]

    def begin(self, call: Call) -> None:
        """Write a call before it is sent."""
        provider, _, model = call.model.partition(":")
        self._dialogue.begin_call(
            ModelCall(
                id=call.id,
                campaign_id=self._campaign_id,
                # A planner asks about a whole function, which is no task of the store.
                task_id=call.purpose.task or None if call.purpose.role != "planner" else None,
                provider=provider,
                model=model,
                role=call.purpose.role,
                template_hash=call.prompt.template,
                request_hash=call.request_hash,
                request=call.model_dump_json(),
                reserved_microdollars=_micro(call.worst.dollars),
            )
        )

    def keep_place(self, call_id: str, place: str) -> None:
        """Write down where the reply to a call can be fetched."""
        awaited = _Awaited(call_id=call_id, place=place)
        self._store.log(self._campaign_id, _AWAITED, awaited.model_dump_json())

    def finish(self, call_id: str, outcome: Outcome) -> None:
        """Write how a call ended."""
        self._dialogue.finish_call(
            call_id,
            ModelOutcome(
                reply=outcome.model_dump_json(),
                failure=outcome.fault,
                input_tokens=outcome.usage.prompt_tokens,
                cached_input_tokens=outcome.usage.cache_read_tokens,
                output_tokens=outcome.usage.output_tokens,
                cost_microdollars=_micro(outcome.cost.dollars),
                latency_s=None if outcome.is_replayed else outcome.latency_s,
            ),
        )

    def keep_flaw(self, call_id: str, flaw: str) -> None:
        """Write why a reply is of no use beside it."""
        self._dialogue.keep_flaw(call_id, flaw)

    def keep_answer(self, call_id: str, place: int, answer: ToolResult) -> None:
        """Write down what a tool call of a reply was answered with."""
        answered = _Answered(call_id=call_id, place=place, answer=answer)
        self._store.log(self._campaign_id, _ANSWERED, answered.model_dump_json())

    def calls(self) -> Sequence[RecordedCall]:
        """Return the calls of the runs before this one and its own, in order."""
        own = self._dialogue.calls(self._campaign_id)
        return [*self._earlier, *(_recorded(c.call, c.outcome) for c in own)]


class _Awaited(Record):
    """A call whose reply its provider keeps, for hours or days."""

    call_id: str
    place: str


class _Answered(Record):
    """The answer to one tool call of a reply, by its place among the calls."""

    call_id: str
    place: int
    answer: ToolResult


def _answers(store: KernelStore, runs: Iterable[str]) -> dict[str, dict[int, ToolResult]]:
    """Return the answers to tool calls in replies of some runs, by the id of the model's call."""
    found: dict[str, dict[int, ToolResult]] = {}
    for run in runs:
        for line in store.events(run, kinds=(_ANSWERED,)):
            answered = line.read(_Answered)
            found.setdefault(answered.call_id, {})[answered.place] = answered.answer
    return found


def _places(store: KernelStore, runs: Iterable[str]) -> dict[str, str]:
    """Return where the replies to calls of some runs are kept, by the call's id."""
    lines = [line.read(_Awaited) for run in runs for line in store.events(run, kinds=(_AWAITED,))]
    return {line.call_id: line.place for line in lines}


def tokens_at_most(recorded: RecordedModelCall) -> int:
    """Return what a call without a whole reply may have taken, as caps count it."""
    if recorded.outcome is None:
        return _tokens_in(recorded.call.request, "worst")
    return _tokens_in(recorded.outcome.reply, "cost")


def _tokens_in(text: str, key: str) -> int:
    """Read one cost out of a record, without the long prompt around it."""
    try:
        return Cost.model_validate(json.loads(text)[key]).tokens
    except (ValueError, LookupError, TypeError):
        # Written by something else than the agents.
        return 0


def recorded_calls(store: KernelStore, campaign_id: str) -> list[RecordedCall]:
    """Return one run's calls as the agents wrote them."""
    return read_calls(store.dialogue.calls(campaign_id))


def read_calls(calls: Iterable[RecordedModelCall]) -> list[RecordedCall]:
    """Return the store's calls as the agents wrote them."""
    return [_recorded(c.call, c.outcome) for c in calls]


def note_ending(store: KernelStore, campaign_id: str, ending: Ending) -> None:
    """Write down why a conversation goes on no more."""
    store.log(campaign_id, _ENDED, ending.model_dump_json())


def conversations_about(store: KernelStore, task_id: str) -> tuple[Transcript, ...]:
    """Return every conversation that models had about a task, oldest first.

    One that a later run of its campaign went on with is one conversation.
    """
    return tuple(talk for held in _by_campaign(store, task_id).values() for talk in held)


def conversations_in(store: KernelStore, prefix: str) -> tuple[Transcript, ...]:
    """Return every conversation and question of a campaign: of planning, then task by task.

    Conversations are numbered among those about their task.

    Raises:
        InputError: no campaign's id, or more than one, begins with `prefix`.
    """
    campaign = store.campaign(prefix)
    runs = store.runs(campaign.root_id)
    calls = [recorded for run in runs for recorded in store.dialogue.calls(run.id)]
    planning = transcripts(read_calls(c for c in calls if not c.call.task_id))
    tasks = dict.fromkeys(c.call.task_id for c in calls if c.call.task_id)
    own = shown_id(campaign)
    about = (talk for task in tasks for talk in _by_campaign(store, task).get(own, ()))
    return (*planning, *about)


def conversations_before(store: KernelStore, task_id: str, campaign_id: str) -> int:
    """Count the conversations about a task in campaigns that asked before this one did."""
    own = shown_id(store.campaign(campaign_id))
    held = _by_campaign(store, task_id)
    earlier = takewhile(lambda id_: id_ != own, held)
    return sum(talk.number > 0 for campaign in earlier for talk in held[campaign])


def _by_campaign(store: KernelStore, task_id: str) -> dict[str, tuple[Transcript, ...]]:
    """Return the conversations about a task by campaign, in the order in which these began."""
    by_run: dict[str, list[RecordedModelCall]] = {}
    for recorded in store.browse.calls_about(task_id):
        by_run.setdefault(recorded.call.campaign_id or "", []).append(recorded)
    runs_of: dict[str, list[str]] = {}
    for run in by_run:
        runs_of.setdefault(shown_id(store.campaign(run)) if run else "", []).append(run)
    held: dict[str, tuple[Transcript, ...]] = {}
    before = 0
    for campaign, runs in runs_of.items():
        lines = [line for run in runs for line in store.events(run, kinds=(_ENDED,))]
        endings = [line.read(Ending) for line in lines]
        calls = [recorded for run in runs for recorded in by_run[run]]
        found = transcripts(read_calls(calls), endings, before)
        held[campaign] = found
        before += sum(talk.number > 0 for talk in found)
    return held


def calls_to_replay(store: KernelStore, prefix: str) -> list[RecordedCall]:
    """Return what `replay:PREFIX` answers from: all runs of a campaign.

    Raises:
        InputError: no campaign's id, or more than one, begins like this.
    """
    return [c for run in runs_to_replay(store, prefix) for c in recorded_calls(store, run)]


def runs_to_replay(store: KernelStore, prefix: str) -> list[str]:
    """Return the runs of a campaign, one of whose ids begins with `prefix`; oldest first.

    Raises:
        InputError: no campaign's id, or more than one, begins like this.
    """
    campaigns = store.campaigns(limit=_MOST_CAMPAIGNS)
    found = [c for c in campaigns if c.id.startswith(prefix)]
    if len(found) != 1:
        talked = (c for c in campaigns if store.dialogue.calls(c.id))
        latest = ", ".join(f"{c.id[:8]} ({c.name})" for c in islice(talked, 3)) or "none"
        raise InputError(
            f"expected the beginning of one campaign's id after replay:, found {shown(prefix)}, "
            f"which {len(found) or 'no'} campaigns have; the latest with conversations: {latest}."
        )
    return [run.id for run in store.runs(found[0].root_id)]


def abandoned(store: KernelStore, campaign_id: str) -> list[str]:
    """Return the runs of the same campaign before this one; oldest first.

    What their models said is not paid for twice, and what they spent counts.
    """
    runs = [run.id for run in store.runs(store.campaign(campaign_id).root_id)]
    return runs[: runs.index(campaign_id)]


def _recorded(call: ModelCall, outcome: ModelOutcome | None) -> RecordedCall:
    if outcome is None:
        return RecordedCall(call=Call.model_validate_json(call.request))
    told = Outcome.model_validate_json(outcome.reply)
    return RecordedCall(
        call=Call.model_validate_json(call.request),
        outcome=told,
        flaw="" if told.fault else outcome.failure,
    )


def _micro(dollars: float) -> int:
    return math.ceil(dollars * _MICRO)
