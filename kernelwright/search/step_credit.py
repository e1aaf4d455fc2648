"""What each step gained and took, told to the bandit and to whoever learns from it."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.agents.message import Spent
from kernelwright.agents.protocols import Attempt
from kernelwright.search.bandit import ModelOffer, Move, gain_of, lead_of
from kernelwright.search.learner import Improver, Learner
from kernelwright.search.play import Play, Taken, credited_from
from kernelwright.search.ranking import rank_of
from kernelwright.search.step_options import ASKS_MODEL
from kernelwright.search.task_search import TaskSearch


class StepCredit:
    """Credits steps once their programs are judged, and charges them for replies."""

    def __init__(self, coder: Improver, learner: Learner, offers: Sequence[ModelOffer]) -> None:
        self._coder = coder
        self._learner = learner
        self._models = {offer.name for offer in offers}

    def credit_judged(self, play: Play, search: TaskSearch) -> None:
        """Count what each batch that is judged by now gained and took."""
        judged = {a.proposal.program.id: a for a in search.history}
        in_flight = {p.program.id for p in search.in_flight}
        for taken in tuple(play.taken):
            if any(p.program.id in in_flight for p in taken.batch):
                continue
            play.taken.remove(taken)
            found = [judged[p.program.id] for p in taken.batch if p.program.id in judged]
            self._learn(found, search)
            self._credit_one(play, search, taken, found)

    def _credit_one(
        self, play: Play, search: TaskSearch, taken: Taken, found: Sequence[Attempt]
    ) -> None:
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
        if move.step in ASKS_MODEL:
            play.wrote[taken.batch[0].author] = move
        self._learner.credited(search.task, credited)
        play.dry.clear()

    def credit_in_vain(self, play: Play, search: TaskSearch, move: Move, spent: Spent) -> None:
        """Count a step that brought no program; its replies were paid for, too."""
        if not (spent.seconds or spent.dollars):
            play.bandit.credit(move, gain=0.0, dollars=0.0, seconds=1.0)
            return
        credited = play.bandit.credit(move, gain=0.0, dollars=spent.dollars, seconds=spent.seconds)
        self._learner.credited(search.task, credited)

    def charge(self, play: Play, search: TaskSearch, move: Move, spent: Spent) -> None:
        """Count what a step took beside what it is credited with."""
        if not (spent.seconds or spent.dollars):
            return
        charged = play.bandit.charge(move, dollars=spent.dollars, seconds=spent.seconds)
        self._learner.credited(search.task, charged)

    def since_begun(self, play: Play, search: TaskSearch) -> Spent:
        """Return what replies took since the step began."""
        return self._coder.spent(search.task).since(play.spent)

    def _answered(self, taken: Taken) -> Move:
        """Return a step by the model that wrote its programs, whoever was asked for them."""
        author = taken.batch[0].author
        is_told = taken.move.step in ASKS_MODEL and author in self._models
        return replace(taken.move, model=author) if is_told else taken.move

    def _learn(self, found: Sequence[Attempt], search: TaskSearch) -> None:
        for attempt in found:
            program_id = attempt.proposal.program.id
            # What the store knew already has been learnt from.
            if program_id not in search.recalled:
                leads = program_id == search.best_program_id
                self._learner.learn(attempt.proposal, attempt.evaluation, leads=leads)
