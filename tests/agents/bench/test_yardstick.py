"""The yardstick runs end to end with a scripted engineer, and again from its recording."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from kernelwright.agents.providers import key
from kernelwright.agents.roles.text.prompt_version import prompt_versions
from kernelwright.campaign.agent_bench import bench_tasks
from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.plot import bench_plot
from kernelwright.campaign.agent_bench.recording import Recording
from kernelwright.campaign.agent_bench.run import Yardstick
from kernelwright.campaign.agent_bench.score import BenchReport, TaskScore
from kernelwright.campaign.agent_bench.spec import BenchSpec
from kernelwright.campaign.agent_bench.variant import ABLATIONS, Variant, models_of, team_of
from kernelwright.campaign.planning.capturing import capture_subjects
from kernelwright.errors import InputError, ModelError
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.spec import TeamSpec
from kernelwright.service.commands import app
from kernelwright.service.console import THEME
from kernelwright.service.view.agent_bench import print_bench_table, score_line
from tests.agents.bench.engineer import NAME, engineer
from tests.agents.bench.record_score import SCORE
from tests.agents.bench.record_score import TASKS as RECORDED
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import QUICK
from tests.agents.loopback.server import LoopbackServer

MODEL = f"anthropic:{NAME}"
# Templates leave room above its floor: where they reach it, no model is asked.
TASKS = bench_tasks(("response_norm",))


def yardstick(
    judge: Shared, folder: Path, url: str | None, replayed: Recording | None = None
) -> Yardstick:
    variants = (Variant.OFFLINE, Variant.FULL, Variant.NO_TOOLS)
    return Yardstick(
        spec=BenchSpec(models=(MODEL,), base_url=url, variants=variants, candidates=2),
        folder=folder,
        make_judge=lambda: judge,
        device=judge.info,
        settings=QUICK,
        replayed=replayed,
    )


def test_a_missing_key_is_told_before_anything_is_searched(
    judge: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key, "_from_keyring", lambda provider: "")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ModelError, match="expected a key for anthropic, found none"):
        yardstick(judge, tmp_path / "bench", None).run(TASKS)
    assert not (tmp_path / "bench").exists()


def test_the_yardstick_runs_end_to_end_goes_on_and_is_replayed(
    judge: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer(engineer) as server:
        first = yardstick(judge, tmp_path / "first", server.base_url("anthropic"))
        report = first.run(TASKS)
        asked = len(server.requests)
        again = yardstick(judge, tmp_path / "first", server.base_url("anthropic")).run(TASKS)
        assert len(server.requests) == asked
    assert again.rows == report.rows
    offline, full, blind = report.rows
    assert (offline.variant, offline.tokens, offline.solved) == (Variant.OFFLINE, 0, True)
    assert (full.variant, full.solved) == (Variant.FULL, True)
    assert (blind.variant, blind.solved) == (Variant.NO_TOOLS, True)
    assert full.tokens > blind.tokens > 0
    held = first.recording.calls(Variant.FULL, "response_norm")
    called = [c.name for recorded in held for c in recorded.reply.calls]
    assert called[:4] == ["check", "edit", "measure", "submit"]
    assert full.times_floor is not None
    assert full.times_floor >= 1
    assert report.prompts == prompt_versions()

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    first.recording.write(tmp_path / "recorded.jsonl")
    replayed = Recording.read(tmp_path / "recorded.jsonl")
    third = yardstick(judge, tmp_path / "second", None, replayed).run(TASKS)
    assert [_outcome(row) for row in third.rows] == [_outcome(row) for row in report.rows]
    assert all(row.dollars == 0 for row in third.rows)


def _outcome(row: TaskScore) -> tuple[object, ...]:
    return row.variant, row.solved, row.author, row.best_us


def test_forty_tasks_in_four_levels_are_captured(judge: Shared) -> None:
    tasks = bench_tasks()
    assert [sum(t.level is level for t in tasks) for level in Level] == [10, 10, 10, 10]
    captured = capture_subjects([task.subject for task in tasks])
    assert captured.refused == ()
    assert len(captured.functions) == 40


def test_an_unknown_task_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"expected tasks of the yardstick .* found 'nothing'"):
        bench_tasks(("nothing",))


def test_a_file_that_holds_no_recording_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"expected recorded conversations in .*odd\.jsonl"):
        Recording.read(tmp_path / "odd.jsonl")


def test_each_ablation_leaves_out_one_thing() -> None:
    usual = TeamSpec()
    changed = {v: team_of(v, usual) != usual or models_of(v, (MODEL,)) != (MODEL,) for v in Variant}
    assert [variant for variant, is_changed in changed.items() if is_changed] == [
        Variant.OFFLINE,
        *ABLATIONS,
    ]


def row(task: str, variant: Variant, best_us: float, author: str) -> TaskScore:
    return TaskScore(
        task=task,
        level=Level.ROWS,
        variant=variant,
        solved=True,
        author=author,
        best_us=best_us,
        kind="predicted",
        floor_us=5.0,
        tokens=1000 if author != "offline" else 0,
        dollars=0.01,
        seconds=30.0,
    )


def test_a_task_at_the_floor_is_solved_by_whoever_solved_it(judge: Shared, tmp_path: Path) -> None:
    with LoopbackServer(lambda request: pytest.fail("a model was asked")) as server:
        spec = BenchSpec(
            models=(MODEL,),
            base_url=server.base_url("anthropic"),
            variants=(Variant.FULL,),
            team=TeamSpec(roles=("coder",)),
            candidates=2,
        )
        (score,) = (
            Yardstick(
                spec=spec,
                folder=tmp_path,
                make_judge=lambda: judge,
                device=judge.info,
                settings=QUICK,
            )
            .run(bench_tasks(("heat_plane",)))
            .rows
        )
    assert (score.solved, score.at_floor, score.tokens) == (True, True, 0)
    assert score.author == "offline"
    assert score.times_floor == pytest.approx(1, abs=0.03)


REPORT = BenchReport(
    models=(MODEL,),
    device=DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False),
    prompts={"coder": "0"},
    rows=(
        row("a", Variant.OFFLINE, 10.0, "offline"),
        row("b", Variant.OFFLINE, 20.0, "offline"),
        row("a", Variant.FULL, 5.0, MODEL),
        row("b", Variant.FULL, 20.0, "offline"),
    ),
)


def test_sums_compare_a_team_with_the_offline_agents() -> None:
    offline, full = REPORT.table
    assert (offline.beats_offline, full.beats_offline) == (0, 1)
    assert full.times_floor == pytest.approx(2.0)
    assert full.offline_times_floor == pytest.approx(8**0.5)
    assert (full.tokens, full.dollars, full.minutes) == (1000, 0.02, 1.0)


def test_a_score_tells_what_was_billed_from_what_calls_without_a_bill_may_cost() -> None:
    scored = row("softmax", Variant.FULL, 9.0, MODEL)
    unsure = scored.model_copy(update={"dollars": 0.03, "assumed_dollars": 0.02})
    assert score_line(scored).endswith(", $0.01")
    assert score_line(unsure).endswith(", $0.01–0.03")
    report = REPORT.model_copy(update={"rows": (scored, unsure)})
    (full,) = report.table
    assert (full.dollars, full.assumed_dollars) == pytest.approx((0.04, 0.02))


def test_the_table_and_the_plot_show_every_variant() -> None:
    console = Console(width=80, record=True, theme=THEME)
    print_bench_table(console, REPORT)
    shown = console.export_text()
    assert "offline" in shown
    assert "full" in shown
    plot = bench_plot(REPORT)
    assert plot.startswith("<svg")
    assert "full, rows" in plot or "full, all" in plot


def test_the_prompts_are_those_whose_score_is_recorded() -> None:
    recorded = json.loads(SCORE.read_text())
    assert recorded["prompts"] == prompt_versions(), (
        "a prompt changed since its score was recorded; see what it is worth now, and record it: "
        "python -m tests.agents.bench.record_score"
    )
    assert recorded["models"] == [MODEL]
    assert [row["task"] for row in recorded["rows"]] == [t.name for t in bench_tasks(RECORDED)] * 2


def test_the_command_runs_the_offline_agents_without_a_key(tmp_path: Path) -> None:
    plot, saved = tmp_path / "table.svg", tmp_path / "report.json"
    arguments = ["bench-agents", "--task", "horner", "--candidates", "1", "--device", "simulator"]
    paths = ["--folder", str(tmp_path / "b"), "--plot", str(plot), "--save", str(saved)]
    result = CliRunner().invoke(app, [*arguments, *paths, "--json"])
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["task"], row["variant"], row["dollars"]) == ("horner", "offline", 0)
    assert "\n<svg" in plot.read_text()
    assert json.loads(saved.read_text())["table"][0]["tasks"] == 1


def test_an_ablation_needs_a_model() -> None:
    result = CliRunner().invoke(app, ["bench-agents", "--ablations"])
    assert "expected --model for an ablation" in str(result.exception)
