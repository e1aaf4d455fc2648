"""A process that dies in the middle of a turn leaves answers that no later one works out again."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from kernelwright.agents.providers.fault import OutageError
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge
from kernelwright.agents.session.ledger import RecordedCall
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.journal import Journal
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import Partner
from tests.agents.loopback.scene import BODY, CHEAT, DEVICE, DONE, TASK, checked, draft
from tests.agents.loopback.server import LoopbackServer, Misbehaviour, Response
from tests.agents.loopback.wire import Said

WIRES = pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])


class _KilledError(BaseException):
    pass


class Dying(Bench):
    """A workbench at which the process dies at its second evaluation."""

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        if self.count:
            raise _KilledError
        return super().evaluate(task, program)


def _held(
    wire: str, journal: Path, bench: Bench, *script: Response
) -> tuple[Sequence[RecordedCall], LoopbackServer]:
    """Hold a conversation, or go on with the one in the journal; return what is on record."""
    said = iter(script)
    with LoopbackServer(lambda _: next(said)) as server:
        partner = Partner(server, wire, ledger=Journal(journal))
        with AsyncBridge(partner.open()) as bridge, suppress(OutageError):
            ModelCoder(bridge, bench).write(TASK, DEVICE, (), count=1)
        return partner.ledger.calls(), server


@WIRES
def test_a_turn_that_a_kill_cut_off_goes_on_behind_its_last_answer(
    wire: str, judge: Shared, tmp_path: Path
) -> None:
    two = Said(calls=(checked(draft(BODY)), checked(draft(CHEAT))))
    journal = tmp_path / "calls.jsonl"
    with pytest.raises(_KilledError):
        _held(wire, journal, Dying(judge), two)
    bench = Bench(judge)
    calls, _ = _held(wire, journal, bench, DONE)
    assert bench.count == 1
    told = calls[-1].call.prompt.turns[-1].results
    assert [result.text[:3] for result in told] == ["d1:", "d2:"]
    # One of these is as the process that died had it.
    assert told[0] == calls[0].answers[0]


@WIRES
def test_answers_that_were_sent_and_met_no_reply_are_not_worked_out_again(
    wire: str, judge: Shared, tmp_path: Path
) -> None:
    journal = tmp_path / "calls.jsonl"
    away = [Misbehaviour("reset_before")] * 20
    calls, _ = _held(wire, journal, Bench(judge), Said(calls=(checked(draft(BODY)),)), *away)
    assert not calls[-1].has_reply
    # As if it were the record of a version that kept no answers apart.
    kept = [line for line in journal.read_text().splitlines() if '"answer"' not in line]
    journal.write_text("".join(f"{line}\n" for line in kept))
    bench = Bench(judge)
    again, server = _held(wire, journal, bench, DONE)
    assert bench.count == 0
    assert again[-1].call.prompt.turns == calls[-1].call.prompt.turns
    assert len(server.requests) == 1
