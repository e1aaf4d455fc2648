"""A strategy that spends where verified gain has been cheapest: models, repairs or tuning."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from kernelwright.agents.message import Spent
from kernelwright.agents.offline import tuned_before
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.providers.fault import AskedToWaitError, OutageError
from kernelwright.agents.roles.reply.dedup import mark_of, signature
from kernelwright.agents.roles.text.coder_prompt import Start, is_at_floor
from kernelwright.errors import BudgetError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.plural import counted
from kernelwright.search.archive import Archive
from kernelwright.search.bandit import (
    Bandit,
    ModelOffer,
    Move,
    gain_of,
    lead_of,
    parents,
    repairable,
)
from kernelwright.search.failure import described, is_machines
from kernelwright.search.learner import Improver, Learner, NoLearning
from kernelwright.search.play import (
    Batch,
    Play,
    Taken,
    best_value,
    credited_from,
    fastest,
    slowness_of,
    take,
    written,
)
from kernelwright.search.ranking import rank_of
from kernelwright.search.spec import SearchSpec
from kernelwright.search.step import Step
from kernelwright.search.strategy import Done, Team, Wait, paced
from kernelwright.search.task_search import TaskSearch
from kernelwright.search.tunables import tuned

_WRITES = frozenset({Step.IDEA, Step.IMPROVE, Step.COMBINE})
_ASKS_MODEL = _WRITES | {Step.REPAIR}
_SHARES = 3
"""Parts into which a task's candidates go: one step may not take them all."""
_FIRST_SILENCE_S = 30.0
_MOST_OUTAGES = 5
_LONGEST_SILENCE_S = 600.0
"""For so long a task that has nothing else to try waits for a server that asks to wait."""


class BanditStrategy:
    """Chooses the next step of a task by a bandit on verified gain for dollars and seconds.

    The offline coder and repairer answer at once; models think on threads of their own, while
    other tasks are evaluated.
    """

    def __init__(
        self,
        team: Team,
        coder: Improver,
        device: DeviceInfo,
        spec: SearchSpec,
        *,
        learner: Learner | None = None,
        offers: Sequence[ModelOffer] = (),
        uses_archive: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._team = team
        self._coder = coder
        self._device = device
        self._spec = spec
        self._learner = learner or NoLearning()
        # Whoever comes first of the list is asked where nobody in particular is.
        self._offers = tuple(offers) or (ModelOffer(""),)
        self._uses_archive = uses_archive
        self._clock = clock
        self._plays: dict[str, Play] = {}
        self._pool = ThreadPoolExecutor(spec.calls_at_once, thread_name_prefix="think")
        self._outages = 0
        self._silent_until_s = 0.0
        self._waits_since_s: float | None = None
        """When a server asked to wait, and none has replied since."""
        self._asked_to_wait = ""

    def close(self) -> None:
        """Wait for nobody: what is being thought of is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def next(self, search: TaskSearch) -> Batch | Done | Wait:
        """Return the next batch."""
        play = self._plays.get(search.task.fingerprint)
        if play is None:
            play = self._plays[search.task.fingerprint] = self._opened(search.task)
        if play.thinking is not None:
            if not play.thinking.done():
                return Wait()
            answer = self._thought(play, search, play.thinking)
        else:
            self._credit(play, search)
            answer = self._step(play, search)
        told = self._told(play, search, answer) if isinstance(answer, Done) else answer
        if isinstance(told, Done) and not told.cap:
            # A conversation may have met a cap that no further step would have met.
            return replace(told, cap=self._coder.cap(search.task))
        return told

    def left(self, search: TaskSearch) -> Batch:
        """Return what models have checked, and were kept from submitting."""
        batch = self._unsubmitted(search)
        if (play := self._plays.get(search.task.fingerprint)) is not None:
            # What the replies took is charged to the step that asked for them.
            before = best_value(search)
            play.taken += [Taken(self._step_of(play, one), [one], before) for one in batch]
        return batch

    def _unsubmitted(self, search: TaskSearch) -> Batch:
        return self._fresh(self._coder.left(search.task, search.history), search)

    @staticmethod
    def _step_of(play: Play, draft: Proposal) -> Move:
        """Return the step in which a model wrote what it did not submit."""
        if play.move is not None and play.move.step in _ASKS_MODEL:
            return play.move
        return play.wrote.get(draft.author, Move(Step.IDEA, draft.author))

    def leave(self, search: TaskSearch, reason: str) -> None:
        """Leave the conversations about a task where they stand, and count what they took."""
        if (play := self._plays.get(search.task.fingerprint)) is not None:
            self._credit(play, search)
            if play.thinking is not None and play.move is not None:
                self._charge(play, search, play.move, self._since_begun(play, search))
        self._coder.leave(search.task, search.history, reason)

    def is_spent(self, search: TaskSearch) -> bool:
        """Say whether a task has had every candidate that it may have."""
        return self._room(search) <= 0

    def ending(self, search: TaskSearch) -> str:
        """Say why a task that is stopped has nothing left to try; empty where it has."""
        return self._ending(search)

    def _opened(self, task: Task) -> Play:
        play = Play(Bandit(self._offers))
        play.bandit.remember(self._learner.earlier(task))
        return play

    def _told(self, play: Play, search: TaskSearch, ending: Done) -> Done | Wait:
        """Tell the last verdicts before a task is left; `Wait` until they are."""
        if search.in_flight:
            return ending
        if play.telling is None:
            if play.told or play.over or not self._coder.awaits(search.task):
                return ending
            history = tuple(search.history)
            play.telling = self._pool.submit(self._coder.conclude, search.task, history)
            return Wait()
        if not play.telling.done():
            return Wait()
        play.told = True
        conclusions = play.telling.result()
        for said in conclusions:
            move = play.wrote.get(said.model, Move(Step.IDEA, said.model))
            self._charge(play, search, move, said.spent)
        programs = [a.proposal.program.id for a in search.history if a.proposal.author != "offline"]
        text = " ".join(said.text for said in conclusions if said.text)
        self._learner.note(search.task, self._device, text, programs)
        return ending

    def _step(self, play: Play, search: TaskSearch) -> Batch | Done | Wait:
        """Choose a step and take it; those with nothing to offer are passed over."""
        if self._uses_archive and search.incumbent is not None and not search.proposals():
            return [search.incumbent]
        if recalled := self._recalled(play, search):
            play.move, play.before = Move(Step.TUNE), best_value(search)
            return take(play, recalled)
        while not (ending := self._ending(search)):
            pending = [taken.move for taken in play.taken]
            move = play.bandit.choose(self._available(play, search), pending)
            if move is None:
                return self._nothing_left(play, search)
            play.move, play.before = move, best_value(search)
            if move.step in _ASKS_MODEL:
                play.is_asked, play.spent = True, self._coder.spent(search.task)
                # Counted here, where nothing else changes the search.
                play.thinking = self._pool.submit(self._ask, move, search, self._count(search))
                return Wait()
            count = paced(self._count(search), search)
            room = min(count, self._free_room(play, search))
            if batch := self._fresh(self._tuned(play, search), search)[:room]:
                return take(play, batch)
            play.dry.add(move)
        return Done("; ".join(filter(None, (ending, play.over))), cap=play.cap)

    def _recalled(self, play: Play, search: TaskSearch) -> Batch:
        """Return what won where ops, inputs and chip were the same, at the beginning."""
        if play.is_recalled or search.candidate_count:
            return []
        play.is_recalled = True
        found = written(play, lambda: tuned_before(search.task, self._device, search.tuned))
        return self._fresh(found, search)[: self._free_room(play, search)]

    def _thought(
        self, play: Play, search: TaskSearch, thinking: Future[Batch]
    ) -> Batch | Done | Wait:
        play.thinking = None
        assert play.move is not None
        try:
            batch = self._fresh(thinking.result(), search)
            self._outages, self._waits_since_s = 0, None
        except BudgetError as e:
            play.cap = str(e).rstrip(".")
            play.over = f"{play.cap} (next would have been: {play.move.step.value})"
            batch = []
        except OutageError as e:
            self._note_outage(play, e)
            batch = []
        except Exception as e:
            if is_machines(e):
                raise
            # Templates and tuning go on, and what a model has checked is tried first.
            play.over = f"models cannot go on: {described(e)}"
            batch = self._unsubmitted(search)
        spent = self._since_begun(play, search)
        if batch:
            return take(play, batch, spent)
        if spent.seconds or spent.dollars:
            # Replies that brought no program were paid for, too.
            credited = play.bandit.credit(
                play.move, gain=0.0, dollars=spent.dollars, seconds=spent.seconds
            )
            self._learner.credited(search.task, credited)
        else:
            play.bandit.credit(play.move, gain=0.0, dollars=0.0, seconds=1.0)
        # The steps that write go on in one conversation, and it is over: what another would be
        # told differs in nothing until there is a new verdict.
        steps = _WRITES if play.move.step in _WRITES else {play.move.step}
        models = {play.move.model}
        if play.move.step in _WRITES:
            # Whoever stood in is through with it, too.
            models.add(self._coder.speaker(search.task, play.move.model))
        play.dry |= {Move(step, model) for step in steps for model in models}
        return self._step(play, search)

    def _since_begun(self, play: Play, search: TaskSearch) -> Spent:
        """Return what replies took since the step began."""
        return self._coder.spent(search.task).since(play.spent)

    def _charge(self, play: Play, search: TaskSearch, move: Move, spent: Spent) -> None:
        """Count what a step took beside what it is credited with."""
        if not (spent.seconds or spent.dollars):
            return
        charged = play.bandit.charge(move, dollars=spent.dollars, seconds=spent.seconds)
        self._learner.credited(search.task, charged)

    def _note_outage(self, play: Play, error: OutageError) -> None:
        """Leave the models alone for a while, longer each time; for good after a few.

        Where a server says for how long, it is for so long.
        """
        if isinstance(error, AskedToWaitError):
            now_s = self._clock()
            if self._waits_since_s is None:
                self._waits_since_s = now_s
            self._silent_until_s = now_s + error.wait_s
            self._asked_to_wait = str(error).rstrip(".")
            return
        self._outages += 1
        self._silent_until_s = self._clock() + _FIRST_SILENCE_S * 2 ** (self._outages - 1)
        if self._outages >= _MOST_OUTAGES:
            play.over = str(error).rstrip(".")

    def _ask(self, move: Move, search: TaskSearch, count: int) -> Batch:
        history = tuple(search.history)
        if move.step is Step.REPAIR:
            return self._repaired(search, history, count)
        start = self._start(move, history)
        written = self._coder.write(search.task, self._device, history, count=count, start=start)
        return list(written)

    def _start(self, move: Move, history: Sequence[Attempt]) -> Start:
        """Choose a parent and what else to show from the islands of the archive."""
        archive = Archive(history, slowness_of(history))
        parent = None
        if move.step is not Step.IDEA:
            parent = archive.parents[0] if self._uses_archive else fastest(history)
        inspirations = archive.inspirations(parent) if self._uses_archive else []
        if parent is None:
            # The best program is shown anyway.
            best = fastest(history)
            inspirations = [a for a in inspirations if a is not best]
        return Start(parent, tuple(inspirations), move.step is Step.COMBINE, move.model)

    def _repaired(self, search: TaskSearch, history: Sequence[Attempt], count: int) -> Batch:
        batch: Batch = []
        for attempt in self._repairable(search, history):
            if len(batch) >= count:
                break
            search.repaired.add(attempt.proposal.program.id)
            try:
                proposal = self._team.repairer.repair(search.task, self._device, attempt)
            except (BudgetError, OutageError):
                if not batch:
                    raise
                break
            if proposal is not None:
                batch.append(proposal)
        return batch

    def _repairable(self, search: TaskSearch, history: Sequence[Attempt]) -> list[Attempt]:
        """Return the failures that nobody is at: authors mend their own while they are asked."""
        return [
            attempt
            for attempt in repairable(history, search.repaired, rounds=self._spec.repairs)
            if not self._coder.owns(search.task, history, attempt.proposal.program.id)
        ]

    def _tuned(self, play: Play, search: TaskSearch) -> Batch:
        """Take a template's next schedules, or the best programs' other tunable values."""
        count = self._count(search)
        tried = search.tried()
        batch: Batch = []
        for attempt in parents(search.history, slowness_of(search.history)):
            batch += tuned(attempt, tried, count - len(batch))
        if len(batch) < count:
            # The coder does not know what is in flight, and proposes that first.
            wanted = count - len(batch) + len(search.in_flight)
            task, history = search.task, search.history
            batch += written(
                play, lambda: self._team.coder.write(task, self._device, history, count=wanted)
            )
        return batch

    def _available(self, play: Play, search: TaskSearch) -> set[Move]:
        steps = set(Step)
        if self._free_room(play, search) <= 0:
            steps.discard(Step.TUNE)
        archive = Archive(search.history, slowness_of(search.history))
        if not self._may_ask(play, search) or search.incumbent in search.in_flight:
            # A model goes on from the incumbent, once its verdict is known here.
            steps -= _ASKS_MODEL
        if not archive.islands or self._has_tunables_left(search):
            # What a program left open is tuned before anybody is asked to improve on it.
            steps -= {Step.IMPROVE, Step.COMBINE}
        elif not self._uses_archive or not archive.inspirations(fastest(search.history)):
            steps.discard(Step.COMBINE)
        if not self._repairable(search, search.history):
            steps.discard(Step.REPAIR)
        moves = {
            Move(step, offer.name)
            for step in steps & _WRITES
            for offer in self._offers
            # A conversation goes on with its verdicts.
            if not self._coder.awaits(search.task, offer.name)
            & {p.program.id for p in search.in_flight}
        }
        return (moves | {Move(step) for step in steps - _WRITES}) - play.dry

    def _may_ask(self, play: Play, search: TaskSearch) -> bool:
        is_silent = self._clock() < self._silent_until_s
        return not (play.over or is_silent or self._is_at_floor(search))

    def _free_room(self, play: Play, search: TaskSearch) -> int:
        """How many candidates are left to steps that cost nothing.

        The last one is kept for a model until it was asked: where candidates are few, it would be
        paid for the plan and never write.
        """
        kept = int(not play.is_asked and self._may_ask(play, search))
        return self._room(search) - kept

    def _is_at_floor(self, search: TaskSearch) -> bool:
        return is_at_floor(search.task, self._device, search.history)

    def _has_tunables_left(self, search: TaskSearch) -> bool:
        best = fastest(search.history)
        is_judged = not search.in_flight
        return best is not None and is_judged and bool(tuned(best, search.tried(), 1))

    def _ending(self, search: TaskSearch) -> str:
        """Say why the task is left; empty while it is not."""
        if self._room(search) <= 0:
            return f"{counted(search.candidate_count, 'candidate')} tried, as many as asked for"
        if search.since_best >= self._spec.patience:
            return f"no gain in the last {counted(search.since_best, 'correct candidate')}"
        return ""

    def _nothing_left(self, play: Play, search: TaskSearch) -> Done | Wait:
        if play.over:
            reason = "; ".join(filter(None, (play.over, play.fault)))
            return Done(reason, cap=play.cap, is_capped=bool(play.cap))
        if self._clock() < self._silent_until_s:
            since_s = self._waits_since_s
            if since_s is not None and self._silent_until_s - since_s > _LONGEST_SILENCE_S:
                return Done("; ".join(filter(None, (self._asked_to_wait, play.fault))))
            play.dry = {move for move in play.dry if move.step not in _ASKS_MODEL}
            return Wait()
        if self._is_at_floor(search):
            return Done("as fast as the floor allows, and every schedule tried")
        return Done(f"{play.fault or 'every schedule tried'}, and no new idea")

    def _credit(self, play: Play, search: TaskSearch) -> None:
        """Count what each batch that is judged by now gained and took."""
        judged = {a.proposal.program.id: a for a in search.history}
        in_flight = {p.program.id for p in search.in_flight}
        for taken in tuple(play.taken):
            if any(p.program.id in in_flight for p in taken.batch):
                continue
            play.taken.remove(taken)
            found = [judged[p.program.id] for p in taken.batch if p.program.id in judged]
            self._learn(found, search)
            before = credited_from(play, taken)
            after = min((r.value for a in found if (r := rank_of(a.evaluation))), default=None)
            play.reached = min((v for v in (before, after) if v is not None), default=None)
            move = self._answered(taken)
            if move != taken.move:
                # Who was asked first refused, or was away: the step is not its own.
                play.bandit.credit(taken.move, gain=0.0, dollars=0.0, seconds=1.0)
            credited = play.bandit.credit(
                move,
                gain=gain_of(before, after),
                lead=lead_of(found) if before is None else 0.0,
                dollars=taken.spent.dollars,
                seconds=sum(a.evaluation.duration_s for a in found) + taken.spent.seconds,
            )
            if move.step in _ASKS_MODEL:
                play.wrote[taken.batch[0].author] = move
            self._learner.credited(search.task, credited)
            play.dry.clear()

    def _answered(self, taken: Taken) -> Move:
        """Return a step by the model that wrote its programs, whoever was asked for them."""
        known = {offer.name for offer in self._offers}
        author = taken.batch[0].author
        is_told = taken.move.step in _ASKS_MODEL and author in known
        return replace(taken.move, model=author) if is_told else taken.move

    def _learn(self, found: Sequence[Attempt], search: TaskSearch) -> None:
        for attempt in found:
            program_id = attempt.proposal.program.id
            # What the store knew already has been learnt from.
            if program_id not in search.recalled:
                leads = program_id == search.best_program_id
                self._learner.learn(attempt.proposal, attempt.evaluation, leads=leads)

    def _count(self, search: TaskSearch) -> int:
        """How many programs a step may propose: few candidates are shared among the steps."""
        share = math.ceil(self._spec.candidates_per_task / _SHARES)
        return min(self._room(search), self._spec.batch, share)

    def _room(self, search: TaskSearch) -> int:
        return self._spec.candidates_per_task - search.candidate_count

    @staticmethod
    def _fresh(proposals: Sequence[Proposal], search: TaskSearch) -> Batch:
        """Drop what differs in nothing that matters from something tried."""
        known = {mark_of(attempt) for attempt in search.history}
        known |= {signature(proposal.program) for proposal in search.in_flight}
        tried = search.tried()
        fresh: dict[str, Proposal] = {}
        for proposal in proposals:
            mark = signature(proposal.program)
            # Programs that differ in a tunable's value have one signature and two ids.
            is_tuned = bool(proposal.program.tunables)
            if proposal.program.id not in tried and (is_tuned or mark not in known):
                fresh.setdefault(proposal.program.id if is_tuned else mark, proposal)
        return list(fresh.values())
