"""A frame of `campaign watch` fits its terminal and keeps what matters."""

import io

import pytest
from rich.console import Console

from kernelwright.campaign.report.live_status import Limits, LiveStatus, LiveTask, UnderWay, Used
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain
from kernelwright.service.console import THEME
from kernelwright.service.view.watch import frame
from kernelwright.store import Rank, TaskSummary

GAIN = Gain(
    kind="measured",
    baseline="mx.compile",
    chip="Apple M2 Pro",
    ratio=1.52,
    lower=1.48,
    upper=1.55,
    confidence=0.95,
)


def task(number: int, *, reason: str = "", gain: Gain | None = None) -> LiveTask:
    name = f"attention_block_{number}/softmax+multiply+add"
    return LiveTask(
        task=TaskSummary(id=f"t{number}", name=name, signature="s", dtype="f16", shapes="f16[8,8]"),
        verdicts={Status.CORRECT: 5, Status.WRONG: 2, Status.COMPILE_ERROR: 1},
        under_way=number == 1,
        waiting=1,
        best=Rank(kind="measured", value=41.25),
        champion=None,
        gain=gain,
        limit=12,
        reason=reason,
    )


def status(tasks: int, state: str = "running") -> LiveStatus:
    work = UnderWay(
        candidate_id="c0ffee" * 10, task="attention_block_1", idea="rows " * 30, state="evaluating"
    )
    return LiveStatus(
        id="ab12" * 16,
        name="nightly",
        device="metal",
        chip="Apple M4 Pro",
        state=state,
        reason="",
        runs=2,
        tasks=tuple(
            task(n, reason="done" if n > 3 else "", gain=GAIN if n % 2 else None)
            for n in range(1, tasks + 1)
        ),
        now=(work,),
        asked=("opus (coder)",),
        next=(work.model_copy(update={"state": "intended"}),) * 5,
        used=Used(
            seconds=4000,
            evaluations=321,
            dollars=1.25,
            tokens=123456,
            calls=40,
            unbilled_calls=0,
            known_dollars=1.25,
            known_tokens=123456,
        ),
        limits=Limits(seconds=28800, evaluations=2000, dollars=5, tokens=None, calls=None),
        left_s=5400.0,
    )


def drawn(shown: LiveStatus, width: int, height: int = 40) -> list[str]:
    page = io.StringIO()
    console = Console(theme=THEME, file=page, width=width, height=height, color_system=None)
    console.print(frame(shown, width=width, height=height))
    return page.getvalue().splitlines()


@pytest.mark.parametrize("width", [44, 75, 76, 80, 96, 140])
def test_nothing_wraps_and_every_task_keeps_its_figures(width: int) -> None:
    lines = drawn(status(4), width)
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if "att" in line and "41.2 µs" in line]
    assert len(rows) == 4
    assert all(row.split().count("8") == 1 and row.split().count("5") == 1 for row in rows)
    assert sum("1.52×" in row for row in rows) == 2


def test_a_wide_frame_tells_intervals_limits_and_what_comes() -> None:
    text = "\n".join(drawn(status(4), 160))
    for words in (
        "nightly ab12ab12 running on metal (Apple M4 Pro), run 2",
        "1.52× [1.48, 1.55] at 95% over mx.compile on Apple M2 Pro (measured)",
        "8 wrong, 4 compile error",
        "asking opus (coder)",
        "and 2 more",
        "1 h 06 min of 8 h 00 min; at most 1 h 30 min left at this pace",
        "321 of 2000 evaluations",
        "$1.25 of $5.00, 40 calls, 123,456 tokens",
    ):
        assert words in text


@pytest.mark.parametrize("width", [72, 80])
def test_what_may_be_billed_besides_is_told_in_full_in_a_usual_terminal(width: int) -> None:
    shown = status(1)
    used = shown.used.model_copy(
        update={"evaluations": 1, "unbilled_calls": 12, "dollars": 2.5, "tokens": 234567}
    )
    limits = shown.limits.model_copy(update={"evaluations": None, "tokens": 1_000_000})
    text = "\n".join(drawn(shown.model_copy(update={"used": used, "limits": limits}), width))
    assert "judged  1 evaluation\n" in text
    assert "$1.25 of $5.00, 40 calls, 123,456 of 1,000,000 tokens" in text
    assert "at most $1.25 and 111,111 tokens more, for 12 calls cut off" in text


@pytest.mark.parametrize("height", [16, 24, 60])
def test_a_low_terminal_keeps_the_tasks_that_move(height: int) -> None:
    lines = drawn(status(40), 100, height)
    assert len(lines) <= height
    assert "▶" in "\n".join(lines)
    assert ("more tasks" in "\n".join(lines)) == (height < 60)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("paused", "asking opus"),
        ("dead", "next    kernelwright campaign resume ab12ab12"),
        ("finished", "next    kernelwright report ab12ab12 --html report.html"),
    ],
)
def test_a_run_at_rest_says_what_to_type(state: str, words: str) -> None:
    text = "\n".join(drawn(status(4, state), 100))
    assert words in text
    assert ("at this pace" in text) == (state == "paused")
