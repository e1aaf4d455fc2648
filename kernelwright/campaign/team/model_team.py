"""The team that asks language models, with the offline one beside and behind it."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kernelwright.agents.budget import Budget, Caps
from kernelwright.agents.cap_text import cap_reached
from kernelwright.agents.message import Purpose
from kernelwright.agents.providers.price import Price
from kernelwright.agents.roles.coder import CoderOptions, ModelCoder, no_lessons
from kernelwright.agents.roles.planner import ModelPlanner
from kernelwright.agents.roles.repairer import FirstRepairer, ModelRepairer
from kernelwright.agents.session import (
    AsyncBridge,
    ChatSettings,
    ModelSpec,
    RecordedCall,
    load_prices,
    open_model,
)
from kernelwright.agents.session.spec import Rewire, check_prices, key_of, price_of
from kernelwright.agents.session.tools.schema import WITHOUT_TRIALS
from kernelwright.agents.session.transcript import Ending
from kernelwright.campaign.event import ModelRemarked
from kernelwright.campaign.execution.executor import Executor
from kernelwright.campaign.execution.run_settings import CampaignTeam, TeamFactory
from kernelwright.campaign.history.ledger import (
    StoreLedger,
    calls_to_replay,
    conversations_before,
    note_ending,
    runs_to_replay,
)
from kernelwright.campaign.team.lesson_book import Experience
from kernelwright.campaign.team.offline_team import offline_team
from kernelwright.campaign.team.workbench import ExecutorWorkbench
from kernelwright.plural import counted
from kernelwright.search.bandit import ModelOffer
from kernelwright.search.bandit_strategy import BanditStrategy
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import Team
from kernelwright.store import KernelStore

_BATCHED_AT_ONCE = 32
_LONGEST_REASON = 500
Listen = Callable[[ModelRemarked], None]
Recorded = Callable[[str], Sequence[RecordedCall]]
"""Gives the calls that `replay:NAME` answers from."""


def checked_models(
    names: Sequence[str], base_url: str | None, caps: Sequence[Caps], prices: Mapping[str, Price]
) -> list[ModelSpec]:
    """Return the models of these names but `none`, each with what it needs: a key, a price.

    Raises:
        InputError: a name is no model's.
        ModelError: a model's key is missing, or its price under a cap in dollars.
    """
    specs = [ModelSpec.parse(name, base_url) for name in names]
    named = [model for model in specs if model.provider != "none"]
    for model in named:
        if model.is_live:
            key_of(model)
    check_prices(named, caps, prices)
    return named


@contextmanager
def open_team(
    store: KernelStore,
    spec: SearchSpec,
    settings: ChatSettings | None = None,
    listen: Listen = lambda event: None,
    rewire: Rewire = lambda wire: wire,
    recorded: Recorded | None = None,
) -> Iterator[TeamFactory | None]:
    """Give what opens a team of models for a search, None where it names none; close it at the end.

    `listen` is told, once each, why models brought nothing; `rewire` is for rehearsals. `recorded`
    gives the calls that `replay:` answers from, where they are not in the store.

    Raises:
        InputError: a name is no model's, or no campaign's.
        ModelError: a model's key is missing, or its price under a cap in dollars.
    """
    # Before the campaign stands in the store.
    named = checked_models(spec.models, spec.base_url, (spec.caps, spec.task_caps), spec.prices)
    if not named:
        yield None
        return
    for model in named:
        if model.provider == "replay" and recorded is None:
            runs_to_replay(store, model.name)
    if any(model.asks_by_the_batch for model in named):
        # A batch is worth waiting for when many tasks ask at once.
        at_once = max(spec.calls_at_once, _BATCHED_AT_ONCE)
        spec = spec.model_copy(update={"calls_at_once": at_once})
    settings = settings or ChatSettings(concurrency=spec.calls_at_once)
    factory = _ModelTeamFactory(store, spec, named, settings, listen, rewire, recorded)
    try:
        yield factory.open
    finally:
        factory.close()


class _ModelTeamFactory:
    """Opens a team once the campaign has begun, and closes its connections and threads."""

    def __init__(
        self,
        store: KernelStore,
        spec: SearchSpec,
        models: list[ModelSpec],
        settings: ChatSettings,
        listen: Listen,
        rewire: Rewire,
        recorded: Recorded | None,
    ) -> None:
        self._store = store
        self._spec = spec
        self._models = models
        self._settings = settings
        self._listen = listen
        self._rewire = rewire
        self._recorded = recorded or (lambda prefix: calls_to_replay(store, prefix))
        self._replayed = [
            run
            for model in models
            if model.provider == "replay" and recorded is None
            for run in runs_to_replay(store, model.name)
        ]
        self._campaign_id = ""
        self._said: set[str] = set()
        self._ended: set[Purpose] = set()
        self._standing_in: set[tuple[Purpose, str]] = set()
        self._before: dict[str, int] = {}
        """How many conversations about a task earlier campaigns held."""
        self._saying = threading.Lock()
        self._board: AsyncBridge | None = None
        self._bandit: BanditStrategy | None = None
        self._executor: Executor | None = None

    def open(self, campaign_id: str, executor: Executor) -> CampaignTeam:
        """Return the team and the strategy of a campaign."""
        self._campaign_id = campaign_id
        self._executor = executor
        model = open_model(
            self._models,
            ledger=StoreLedger(self._store, campaign_id),
            # A call in flight at the deadline is cut off there.
            budget=Budget(
                self._spec.caps.model_copy(update={"seconds": self._spec.seconds}),
                self._spec.task_caps,
            ),
            recorded=self._recorded,
            settings=self._settings,
            prices=self._spec.prices,
            rewire=self._rewire,
            remark=self._remark,
        )
        assert model is not None
        self._board = board = AsyncBridge(model, self._remark, self._note_stand_in)
        offline, strategies = offline_team(), dict[str, str]()
        options = self._spec.team
        planner, repairer = offline.planner, offline.repairer
        if "planner" in options.roles:
            planner = ModelPlanner(board, offline.planner, strategies)
        if "repairer" in options.roles:
            # The offline repairer mends the mechanical classes and costs nothing.
            repairer = FirstRepairer((offline.repairer, ModelRepairer(board)))
        team = Team(planner=planner, coder=offline.coder, repairer=repairer)
        experience = Experience(self._store, campaign_id, self._replayed)
        self._bandit = BanditStrategy(
            team,
            ModelCoder(
                board,
                ExecutorWorkbench(executor, self._store, self._cap),
                experience if options.archive else no_lessons,
                strategies,
                CoderOptions(
                    tool_caps=options.tool_caps,
                    tool_names=() if options.tries else WITHOUT_TRIALS,
                    shows_siblings=options.archive,
                ),
                self._note_end,
            ),
            executor.info,
            self._spec,
            learner=experience if options.archive else None,
            offers=self._offers(board.models),
            uses_archive=options.archive,
        )
        return CampaignTeam(team, self._bandit)

    def _offers(self, models: Sequence[str]) -> tuple[ModelOffer, ...]:
        """Return who may be asked, and what each charges."""
        table = load_prices(self._spec.prices)
        offers = []
        for name in models:
            price = price_of(ModelSpec.parse(name, self._spec.base_url), table)
            dollars = price.input + price.output if price is not None else 0.0
            offers.append(ModelOffer(name, dollars))
        return tuple(offers)

    def _cap(self) -> str:
        """Say that the cap on evaluations is reached; nothing while it is not."""
        most = self._spec.evaluations
        if most is None or self._executor is None or self._executor.evaluations < most:
            return ""
        return cap_reached(counted(most, "evaluation"))

    def _remark(self, sentence: str, *, is_handover: bool = False) -> None:
        """Tell people and the campaign's log, once; called from the threads that ask."""
        with self._saying:
            if sentence in self._said:
                return
            self._said.add(sentence)
            event = ModelRemarked(sentence=sentence, is_handover=is_handover)
            self._store.log(self._campaign_id, ModelRemarked.__name__, event.model_dump_json())
            self._listen(event)

    def _note_stand_in(self, purpose: Purpose, model: str, reason: str) -> None:
        """Tell once who answers instead of a model that gave nothing, and why."""
        with self._saying:
            is_told = (purpose, model) in self._standing_in
            self._standing_in.add((purpose, model))
        if is_told:
            return
        where = f"conversation {self._number(purpose)}" if purpose.conversation else purpose.role
        self._remark(
            f"{self._name(purpose)}, {where}: {model} answers instead, because {_brief(reason)}.",
            is_handover=True,
        )

    def _name(self, purpose: Purpose) -> str:
        """Return the name of a task, or that of the function that is planned."""
        if purpose.role == "planner":
            return "planning"
        name: str = self._store.browse.task(purpose.task).name
        return name

    def _note_end(self, ending: Ending) -> None:
        """Write down why a conversation is over, and tell people once, whatever the reason."""
        note_ending(self._store, self._campaign_id, ending)
        if ending.is_final or ending.is_left:
            self._tell_end(ending)

    def _tell_end(self, ending: Ending) -> None:
        with self._saying:
            is_told = ending.purpose in self._ended
            self._ended.add(ending.purpose)
        if not is_told:
            name, reason = self._name(ending.purpose), _brief(ending.reason)
            number = self._number(ending.purpose)
            model = ending.model or str(self._models[0])
            self._remark(f"{name}: conversation {number} with {model} ended: {reason}.")

    def _number(self, purpose: Purpose) -> int:
        """Return which conversation about its task it is, as `show --conversation` counts them."""
        if purpose.task not in self._before:
            before = conversations_before(self._store, purpose.task, self._campaign_id)
            self._before[purpose.task] = before
        return self._before[purpose.task] + purpose.conversation

    def close(self) -> None:
        if self._bandit is not None:
            self._bandit.close()
        if self._board is not None:
            self._board.close()


def _brief(reason: str) -> str:
    """Return a reason in a line, cut where it is long."""
    line = " ".join(reason.split()).rstrip(".")
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON].rstrip()} …"
