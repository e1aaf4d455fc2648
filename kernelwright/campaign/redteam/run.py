"""One night of a red team: attacks are judged, what passes is tried again, and kept if wrong."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from kernelwright.agents.budget import Budget
from kernelwright.agents.cap_text import cap_reached, in_time
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.attacker import Attack, ModelAttacker, TriedAttack
from kernelwright.agents.session import AsyncBridge, ChatSettings, ModelSpec, open_model
from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.history.evaluation_history import StoredMemory
from kernelwright.campaign.history.ledger import StoreLedger, calls_to_replay
from kernelwright.campaign.redteam.mutation import mutation_attacks
from kernelwright.campaign.redteam.record import RedTeamReport, Strike, Target
from kernelwright.campaign.redteam.spec import RedTeamSpec
from kernelwright.errors import BudgetError, DeviceError, InputError, ModelError
from kernelwright.evaluator.attacks.redteam.disproof import (
    Battery,
    Finding,
    disprove,
    disprove_on,
)
from kernelwright.evaluator.attacks.redteam.runner import Runner
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.stated_case import StatedCase, StatedCaughtCase
from kernelwright.store import KernelStore

NAME = "red team"
Listen = Callable[[Strike], None]


def run_red_team(
    targets: Sequence[Target],
    spec: RedTeamSpec,
    store: KernelStore,
    *,
    listen: Listen = lambda strike: None,
    settings: ChatSettings | None = None,
    evaluator: Evaluator | None = None,
) -> RedTeamReport:
    """Attack the evaluator with programs that start from accepted ones.

    Without a model, the attacks are mutants. What is accepted and shown to be wrong becomes a
    case in the store, on which every later candidate of the task is judged.

    Args:
        targets: accepted programs and their tasks.
        spec: how much may be tried and spent.
        store: remembers calls, breaches and cases.
        listen: is told of each attack when it is judged.
        settings: how patiently to talk to models.
        evaluator: who judges; one on the simulator, through every stage, by default.

    Raises:
        InputError: there is nobody to attack, or a model's name is none.
    """
    if not targets:
        raise InputError(
            "expected champions or functions to attack, found none; run a search first, or name "
            "a function such as model.py:softmax."
        )
    with ExitStack() as stack:
        config = EvaluatorConfig(through=Stage.CONFIRMATION)
        judge = evaluator or stack.enter_context(Evaluator("simulator", config))
        runner = stack.enter_context(Runner())
        night = _Night(spec, store, judge, runner, listen)
        return night.run(targets, settings or ChatSettings())


@dataclass
class _Night:
    spec: RedTeamSpec
    store: KernelStore
    evaluator: Evaluator
    runner: Runner
    listen: Listen
    strikes: list[Strike] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    started_s: float = field(default_factory=time.monotonic)

    def run(self, targets: Sequence[Target], settings: ChatSettings) -> RedTeamReport:
        campaign = self.store.begin_campaign(
            name=NAME,
            spec=self.spec.model_dump_json(),
            environment=environment_of(self.evaluator.info),
        )
        budget = Budget(self.spec.caps.model_copy(update={"seconds": self.spec.seconds}))
        ended = ""
        try:
            with ExitStack() as stack:
                board = self._board(campaign.id, budget, settings)
                if board is not None:
                    stack.enter_context(board)
                attacker = ModelAttacker(board) if board is not None else None
                try:
                    for target in targets:
                        self._attack(campaign.id, target, attacker)
                except (BudgetError, ModelError, _OutOfTimeError) as e:
                    ended = str(e)
        except BaseException:
            self.store.end_campaign(campaign.id, "failed", elapsed_s=self._elapsed_s())
            raise
        self.store.end_campaign(campaign.id, "finished", elapsed_s=self._elapsed_s())
        return RedTeamReport(
            campaign_id=campaign.id,
            targets=len(targets),
            strikes=tuple(self.strikes),
            refused_targets=tuple(self.refused),
            ended=ended,
            dollars=budget.spent().dollars,
            assumed_dollars=budget.spent().assumed_dollars,
            duration_s=self._elapsed_s(),
        )

    def _elapsed_s(self) -> float:
        return time.monotonic() - self.started_s

    def _board(
        self, campaign_id: str, budget: Budget, settings: ChatSettings
    ) -> AsyncBridge | None:
        named = [ModelSpec.parse(name, self.spec.base_url) for name in self.spec.models]
        model = open_model(
            [spec for spec in named if spec.provider != "none"],
            ledger=StoreLedger(self.store, campaign_id),
            budget=budget,
            recorded=lambda prefix: calls_to_replay(self.store, prefix),
            settings=settings,
        )
        return None if model is None else AsyncBridge(model)

    def _attack(self, campaign_id: str, target: Target, attacker: ModelAttacker | None) -> None:
        """Judge the attacks that start from one target."""
        self.store.keep_task(target.task)
        known = self.evaluator.regressions
        kept = StoredMemory(self.store).regressions(target.task)
        known.extend(case for case in kept if case not in known)
        found = self.evaluator.evaluate(target.task, target.program)
        if not found.is_correct:
            self.refused.append(
                f"{target.task.name}, {target.origin}: {found.status}: {found.summary}"
            )
            return
        for attack in self._attacks(target, found, attacker):
            strike = self._judged(target, attack)
            self.strikes.append(strike)
            self.listen(strike)
            if strike.result == "breach":
                self.store.log(campaign_id, "Breach", strike.model_dump_json())
            self._check_time()
        self.runner.forget()

    def _check_time(self) -> None:
        limit = self.spec.seconds
        if limit is not None and self._elapsed_s() > limit:
            raise _OutOfTimeError(f"{cap_reached(in_time(limit))}.")

    def _attacks(
        self, target: Target, found: Evaluation, attacker: ModelAttacker | None
    ) -> Iterator[Attack]:
        if attacker is None:
            yield from mutation_attacks(target, self.spec.attacks, self.spec.seed)
            return
        champion = Attempt(
            proposal=Proposal(
                program=target.program, author="champion", idea=target.idea or target.origin
            ),
            evaluation=found,
        )
        left = self.spec.attacks
        while left > 0:
            tried = [TriedAttack(s.idea, _told(s)) for s in self.strikes if _is_of(s, target)]
            batch = attacker.attack(
                target.task,
                self.evaluator.info,
                champion,
                tried,
                count=min(self.spec.batch, left),
            )
            if not batch:
                return
            left -= len(batch)
            yield from batch

    def _judged(self, target: Target, attack: Attack) -> Strike:
        base = Strike(
            task=target.task.name,
            fingerprint=target.task.fingerprint,
            author=attack.author,
            idea=attack.idea,
            result="no verdict",
            program=attack.program,
        )
        try:
            found = self.evaluator.evaluate(target.task, attack.program)
        except DeviceError as e:
            return base.model_copy(update={"summary": str(e)})
        verdict = {"status": found.status, "summary": found.summary}
        if not found.is_correct:
            stage = found.stages[-1].stage if found.stages else None
            return base.model_copy(update={**verdict, "result": "refused", "stage": stage})
        finding = self._disproof(target, attack)
        if finding is None:
            return base.model_copy(update={**verdict, "result": "accepted"})
        return base.model_copy(
            update={
                **verdict,
                "result": "breach",
                "disproof": finding.disproof,
                "case_kept": self._keep(target, finding),
            }
        )

    def _disproof(self, target: Target, attack: Attack) -> Finding | None:
        """Try an accepted program on the inputs that its author names, then on many others."""
        if attack.trigger is not None:
            case = StatedCase.of(target.task.graph, attack.trigger)
            found = disprove_on(case, "stated", attack.program, target.program, self.runner)
            if found is not None:
                return Finding(found, case, "stated")
        battery = Battery.of(self.spec.seed, self.spec.secrets, self.spec.battery_s)
        return disprove(target.task, attack.program, target.program, battery, self.runner)

    def _keep(self, target: Target, finding: Finding) -> bool:
        """Have later candidates of the task judged on what showed a breach."""
        task, case = target.task.fingerprint, finding.case
        kept: CaughtCase
        if isinstance(case, StatedCase):
            kept = StatedCaughtCase.stated(task, case)
        else:
            kept = CaughtCase.of(task, case, finding.secret)
        StoredMemory(self.store).keep(kept)
        self.evaluator.regressions.append(kept)
        return True


class _OutOfTimeError(Exception):
    """The night is over."""


def _is_of(strike: Strike, target: Target) -> bool:
    return strike.fingerprint == target.task.fingerprint


def _told(strike: Strike) -> str:
    """Say what became of an attack, without what the evaluator keeps to itself."""
    if strike.result == "refused":
        return f"Refused: {strike.status}, at {strike.stage}."
    if strike.result == "accepted":
        return "Accepted, and not shown to be wrong: the trigger shows no difference that counts."
    return "Accepted, and wrong: a hole that is known now." if strike.result == "breach" else ""
