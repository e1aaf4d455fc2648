"""A strategy that spends where verified gain has been cheapest: models, repairs or tuning."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from kernelwright.agents.protocols import Proposal
from kernelwright.agents.providers.fault import OutageError
from kernelwright.errors import BudgetError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.bandit import Bandit, ModelOffer, Move
from kernelwright.search.failure import described, is_machines
from kernelwright.search.learner import Improver, Learner, NoLearning
from kernelwright.search.model_silence import ModelSilence
from kernelwright.search.play import Batch, Play, Taken, best_value, take
from kernelwright.search.spec import SearchSpec
from kernelwright.search.step import Step
from kernelwright.search.step_credit import StepCredit
from kernelwright.search.step_options import ASKS_MODEL, WRITES, StepOptions
from kernelwright.search.step_programs import StepPrograms, fresh
from kernelwright.search.strategy import Done, Team, Wait, paced
from kernelwright.search.task_search import TaskSearch


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
        # Whoever comes first of the list is asked where nobody in particular is.
        offered = tuple(offers) or (ModelOffer(""),)
        self._coder = coder
        self._device = device
        self._learner = learner or NoLearning()
        self._offers = offered
        self._uses_archive = uses_archive
        self._silence = ModelSilence(clock)
        self._options = StepOptions(
            coder, device, spec, offered, self._silence, uses_archive=uses_archive
        )
        self._programs = StepPrograms(team, coder, device, self._options, uses_archive=uses_archive)
        self._steps = StepCredit(coder, self._learner, offered)
        self._plays: dict[str, Play] = {}
        self._pool = ThreadPoolExecutor(spec.calls_at_once, thread_name_prefix="think")

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
            self._steps.credit_judged(play, search)
            answer = self._step(play, search)
        told = self._told(play, search, answer) if isinstance(answer, Done) else answer
        if isinstance(told, Done) and not told.cap:
            # A conversation may have met a cap that no further step would have met.
            return replace(told, cap=self._coder.cap(search.task))
        return told

    def left(self, search: TaskSearch) -> Batch:
        """Return what models have checked, and were kept from submitting."""
        batch = self._programs.unsubmitted(search)
        if (play := self._plays.get(search.task.fingerprint)) is not None:
            # What the replies took is charged to the step that asked for them.
            before = best_value(search)
            play.taken += [Taken(self._step_of(play, one), [one], before) for one in batch]
        return batch

    @staticmethod
    def _step_of(play: Play, draft: Proposal) -> Move:
        """Return the step in which a model wrote what it did not submit."""
        if play.move is not None and play.move.step in ASKS_MODEL:
            return play.move
        return play.wrote.get(draft.author, Move(Step.IDEA, draft.author))

    def leave(self, search: TaskSearch, reason: str) -> None:
        """Leave the conversations about a task where they stand, and count what they took."""
        if (play := self._plays.get(search.task.fingerprint)) is not None:
            self._steps.credit_judged(play, search)
            if play.thinking is not None and play.move is not None:
                self._steps.charge(play, search, play.move, self._steps.since_begun(play, search))
        self._coder.leave(search.task, search.history, reason)

    def is_spent(self, search: TaskSearch) -> bool:
        """Say whether a task has had every candidate that it may have."""
        return self._options.room(search) <= 0

    def ending(self, search: TaskSearch) -> str:
        """Say why a task that is stopped has nothing left to try; empty where it has."""
        return self._options.ending(search)

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
            self._steps.charge(play, search, move, said.spent)
        programs = [a.proposal.program.id for a in search.history if a.proposal.author != "offline"]
        text = " ".join(said.text for said in conclusions if said.text)
        self._learner.note(search.task, self._device, text, programs)
        return ending

    def _step(self, play: Play, search: TaskSearch) -> Batch | Done | Wait:
        """Choose a step and take it; those with nothing to offer are passed over."""
        if self._uses_archive and search.incumbent is not None and not search.proposals():
            return [search.incumbent]
        if recalled := self._programs.recalled(play, search):
            play.move, play.before = Move(Step.TUNE), best_value(search)
            return take(play, recalled)
        while not (ending := self._options.ending(search)):
            pending = [taken.move for taken in play.taken]
            move = play.bandit.choose(self._options.available(play, search), pending)
            if move is None:
                return self._nothing_left(play, search)
            play.move, play.before = move, best_value(search)
            if move.step in ASKS_MODEL:
                play.is_asked, play.spent = True, self._coder.spent(search.task)
                # Counted here, where nothing else changes the search.
                play.thinking = self._pool.submit(
                    self._programs.from_model, move, search, self._options.count(search)
                )
                return Wait()
            count = paced(self._options.count(search), search)
            room = min(count, self._options.free_room(play, search))
            if batch := self._programs.tuned(play, search)[:room]:
                return take(play, batch)
            play.dry.add(move)
        return Done("; ".join(filter(None, (ending, play.over))), cap=play.cap)

    def _thought(
        self, play: Play, search: TaskSearch, thinking: Future[Batch]
    ) -> Batch | Done | Wait:
        play.thinking = None
        assert play.move is not None
        try:
            batch = fresh(thinking.result(), search)
            self._silence.end()
        except BudgetError as e:
            play.cap = str(e).rstrip(".")
            play.over = f"{play.cap} (next would have been: {play.move.step.value})"
            batch = []
        except OutageError as e:
            play.over = self._silence.begin(e) or play.over
            batch = []
        except Exception as e:
            if is_machines(e):
                raise
            # Templates and tuning go on, and what a model has checked is tried first.
            play.over = f"models cannot go on: {described(e)}"
            batch = self._programs.unsubmitted(search)
        spent = self._steps.since_begun(play, search)
        if batch:
            return take(play, batch, spent)
        self._steps.credit_in_vain(play, search, play.move, spent)
        # The steps that write go on in one conversation, and it is over: what another would be
        # told differs in nothing until there is a new verdict.
        steps = WRITES if play.move.step in WRITES else {play.move.step}
        models = {play.move.model}
        if play.move.step in WRITES:
            # Whoever stood in is through with it, too.
            models.add(self._coder.speaker(search.task, play.move.model))
        play.dry |= {Move(step, model) for step in steps for model in models}
        return self._step(play, search)

    def _nothing_left(self, play: Play, search: TaskSearch) -> Done | Wait:
        if play.over:
            reason = "; ".join(filter(None, (play.over, play.fault)))
            return Done(reason, cap=play.cap, is_capped=bool(play.cap))
        if self._silence.lasts:
            if reason := self._silence.why_not_awaited:
                return Done("; ".join(filter(None, (reason, play.fault))))
            play.dry = {move for move in play.dry if move.step not in ASKS_MODEL}
            return Wait()
        if self._options.is_at_floor(search):
            return Done("as fast as the floor allows, and every schedule tried")
        return Done(f"{play.fault or 'every schedule tried'}, and no new idea")
