"""A red team over a scripted model: what passes a weak judge is shown wrong, kept and reported."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.agents.budget import Caps
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.campaign.history.evaluation_history import StoredMemory
from kernelwright.campaign.redteam import RedTeamReport, RedTeamSpec, Target, run_red_team
from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.stated_case import StatedCaughtCase
from kernelwright.metal.kernel import Program
from kernelwright.service.commands import app
from kernelwright.store import KernelStore
from tests.agents.loopback.partner import NAMES, QUICK
from tests.agents.loopback.scene import BODY, TASK, draft
from tests.agents.loopback.server import LoopbackServer
from tests.agents.loopback.wire import Heard, Said

HONEST = draft(BODY).program(Interface(TASK))
RARE = BODY.replace("* 2.0f + 1.0f", "* (x[i] == 31337.0f ? 3.0f : 2.0f) + 1.0f")
TARGET = Target(TASK, HONEST, "champion 0000")
TRIGGER = {
    "seed": 1,
    "inputs": [
        {
            "fill": "normal",
            "value": "1",
            "edits": [{"start": 5, "stop": 6, "step": 1, "value": "31337"}],
        }
    ],
}
HARMLESS = {"seed": 1, "inputs": [{"fill": "normal", "value": "1", "edits": []}]}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-red")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-red")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


@pytest.fixture(scope="module")
def weak() -> Iterator[Evaluator]:
    """A judge that looks at memory alone, as one with a hole would."""
    with Evaluator(config=EvaluatorConfig(secret="weak", through=Stage.SANITIZE)) as opened:
        yield opened


def _reply(body: str, trigger: dict[str, object], idea: str = "Another factor.") -> Said:
    attack = {"idea": idea, "program": draft(body).model_dump(), "trigger": trigger}
    return Said(json.dumps({"attacks": [attack]}))


class Script:
    """Attacks once, then has no ideas."""

    def __init__(self, first: Said) -> None:
        self.first = first
        self.heard: list[Heard] = []

    def __call__(self, request: Heard) -> Said:
        self.heard.append(request)
        return self.first if len(self.heard) == 1 else Said(json.dumps({"attacks": []}))


def _raided(
    store: KernelStore, weak: Evaluator, script: Script, provider: str = "anthropic"
) -> RedTeamReport:
    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(script) as server:
        spec = RedTeamSpec(
            models=(name,),
            base_url=server.base_url(provider),
            caps=Caps(dollars=1.0),
            battery_s=5,
            secrets=1,
        )
        return run_red_team([TARGET], spec, store, settings=QUICK, evaluator=weak)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_breach_is_shown_by_its_trigger_kept_and_closed(
    store: KernelStore, weak: Evaluator, provider: str
) -> None:
    script = Script(_reply(RARE, TRIGGER))
    report = _raided(store, weak, script, provider)
    (strike,) = report.strikes
    assert strike.result == "breach"
    assert strike.disproof is not None
    assert strike.disproof.index == (0, 5)
    assert strike.disproof.expected == pytest.approx(62675)
    assert strike.disproof.found == pytest.approx(94012)
    (case,) = StoredMemory(store).regressions(TASK)
    assert isinstance(case, StatedCaughtCase)
    with Evaluator(config=EvaluatorConfig(secret="later"), regressions=[case]) as later:
        assert later.evaluate(TASK, strike.program).status is Status.WRONG
        assert later.evaluate(TASK, HONEST).is_correct


def test_the_attacker_sees_the_champion_the_promises_and_what_was_tried(
    store: KernelStore, weak: Evaluator
) -> None:
    script = Script(_reply(RARE, TRIGGER, "A rare factor."))
    _raided(store, weak, script)
    first, second = script.heard
    assert "You attack a judge" in first.system
    assert "float64 reference" in first.system
    assert BODY in first.text
    assert "A rare factor." not in first.text
    assert "A rare factor. Accepted, and wrong" in second.text


def test_what_is_accepted_but_not_shown_wrong_is_no_breach(
    store: KernelStore, weak: Evaluator
) -> None:
    other = BODY.replace("x[i] * 2.0f", "(x[i] + x[i])")
    report = _raided(store, weak, Script(_reply(other, HARMLESS)))
    assert [strike.result for strike in report.strikes] == ["accepted"]
    assert StoredMemory(store).regressions(TASK) == ()


def test_a_reply_whose_trigger_no_caller_may_pass_is_asked_for_again(
    store: KernelStore, weak: Evaluator
) -> None:
    bad = {"seed": 1, "inputs": []}
    script = Script(_reply(RARE, bad))
    report = _raided(store, weak, script)
    assert report.strikes == ()
    assert "expected 1 inputs to be stated, found 0" in script.heard[1].text


def test_a_cap_ends_the_night_with_a_sentence(store: KernelStore, weak: Evaluator) -> None:
    with LoopbackServer(Script(_reply(RARE, TRIGGER))) as server:
        spec = RedTeamSpec(
            models=(f"anthropic:{NAMES['anthropic']}",),
            base_url=server.base_url("anthropic"),
            caps=Caps(tokens=10),
        )
        report = run_red_team([TARGET], spec, store, settings=QUICK, evaluator=weak)
    assert report.strikes == ()
    assert "cap of 10 tokens" in report.ended


def test_mutants_attack_where_there_is_no_model(store: KernelStore, weak: Evaluator) -> None:
    spec = RedTeamSpec(attacks=8, battery_s=5, secrets=1, seed=3)
    report = run_red_team([TARGET], spec, store, evaluator=weak)
    assert len(report.strikes) == 8
    assert {strike.author for strike in report.strikes} == {"mutation"}
    assert report.breaches, "a judge that compares nothing accepts mutants that are wrong"


def test_a_champion_that_is_refused_today_is_reported(store: KernelStore, weak: Evaluator) -> None:
    kernel = HONEST.kernels[0].model_copy(update={"source": "out[0] = x[0];"})
    broken = Program.model_validate({**HONEST.model_dump(), "kernels": [kernel.model_dump()]})
    report = run_red_team(
        [Target(TASK, broken, "champion 1")], RedTeamSpec(), store, evaluator=weak
    )
    assert report.strikes == ()
    assert "champion 1: unsafe" in report.refused_targets[0]


def test_nobody_to_attack_is_an_error_with_advice(store: KernelStore, weak: Evaluator) -> None:
    with pytest.raises(InputError, match="run a search first, or name a function"):
        run_red_team([], RedTeamSpec(), store, evaluator=weak)


def test_the_command_reports_what_mutants_came_to(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text("def double_plus_one(x):\n    return x * 2.0 + 1.0\n")
    arguments = ["redteam", f"{tmp_path / 'double.py'}:double_plus_one", "-i", "f32[6,71]"]
    options = ["--attacks", "3", "--battery-seconds", "2", "--store", str(tmp_path / "k.db")]
    done = CliRunner().invoke(app, [*arguments, *options, "--json"])
    assert done.exit_code in (0, 2), done.output
    report = json.loads(done.stdout)
    assert report["targets"] == 1
    assert len(report["strikes"]) == 3
