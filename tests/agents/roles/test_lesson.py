"""Lessons come from verdicts, cite them, and stay short."""

import pytest

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.lesson import (
    LONGEST_TOTAL,
    NO_CREDIT,
    Advice,
    Credit,
    Lesson,
    Observation,
    chosen,
    credit,
    derive,
    ranked,
    traits_of,
)
from kernelwright.evaluator.evaluation import Status
from tests.agents.loopback.scene import (
    BODY,
    DEVICE,
    FIXED_RACE,
    attempt,
    correct,
    draft,
    racing,
    uncompiled,
)

WIDE = BODY.replace("x[i]", "(*(const device float4*)(x + i)).x")


def seen(number: int, task: str, source: str, predicted_us: float) -> Observation:
    verdict = attempt(draft(source), Status.CORRECT, "correct", predicted_us=predicted_us)
    return observed(number, task, verdict)


def observed(number: int, task: str, verdict: Attempt) -> Observation:
    return Observation(
        evaluation_id=f"e{number}",
        kind="elementwise",
        program=verdict.proposal.program,
        evaluation=verdict.evaluation.model_copy(update={"task": task}),
    )


def test_a_technique_that_wins_on_most_tasks_is_a_lesson_with_its_evidence() -> None:
    observations = []
    for number in range(4):
        observations.append(seen(2 * number, f"t{number}", BODY, 10.0))
        observations.append(seen(2 * number + 1, f"t{number}", WIDE, 5.0 if number else 11.0))
    lessons = [lesson for lesson in derive(observations) if "Vector" in lesson.text]
    assert [lesson.text for lesson in lessons] == ["Vector loads won on 3 of 4 elementwise tasks."]
    assert lessons[0].evidence == ("e1", "e3", "e5", "e7")


@pytest.mark.parametrize("wins", [0, 1, 2, 3, 4])
def test_what_is_undecided_teaches_nothing(wins: int) -> None:
    observations = []
    for number in range(4):
        observations.append(seen(2 * number, f"t{number}", BODY, 10.0))
        time_us = 5.0 if number < wins else 20.0
        observations.append(seen(2 * number + 1, f"t{number}", WIDE, time_us))
    texts = [lesson.text for lesson in derive(observations) if "Vector" in lesson.text]
    assert len(texts) == (0 if wins == 2 else 1)


def test_one_task_is_no_lesson() -> None:
    assert derive([seen(0, "t", BODY, 10.0), seen(1, "t", WIDE, 5.0)]) == ()


def test_errors_that_keep_coming_back_are_named() -> None:
    lessons = derive([observed(n, f"t{n}", uncompiled()) for n in range(3)])
    assert lessons[0].text == (
        "3 programs failed because the compiler said: invalid suffix … on floating constant."
    )
    assert lessons[0].evidence == ("e0", "e1", "e2")


def lesson(
    subject: str, advice: Advice, kind: str = "elementwise", device: str = DEVICE.chip
) -> Lesson:
    return Lesson(
        kind=kind,
        subject=subject,
        advice=advice,
        text=f"{subject}. " * 40,
        evidence=("e1",),
        device=device,
        strength=1,
    )


def test_only_what_fits_the_task_the_device_and_the_limit_is_chosen() -> None:
    others = [lesson("wide", Advice.USE, "rowwise"), lesson("wide", Advice.USE, device="M9")]
    fitting = [lesson(f"vector loads {n}", Advice.USE) for n in range(9)]
    told = chosen([*others, *fitting], "elementwise", DEVICE.chip)
    assert 0 < len(told) < len(fitting)
    assert list(told) == fitting[: len(told)]
    assert sum(len(each.sentence) for each in told) <= LONGEST_TOTAL
    assert all(each.sentence.endswith("(from 1 verdict)") for each in told)


def test_a_lesson_keeps_its_identity_while_its_evidence_grows() -> None:
    few = derive([observed(n, f"t{n}", uncompiled()) for n in range(3)])
    more = derive([observed(n, f"t{n}", uncompiled()) for n in range(9)])
    assert few[0].text != more[0].text
    assert few[0].id == more[0].id


SHARES = lesson("threadgroup memory", Advice.USE)
AVOIDS = lesson("threadgroup memory", Advice.AVOID)
PREVENTS = derive([observed(n, f"t{n}", uncompiled()) for n in range(3)])[0]
TILED = attempt(draft(FIXED_RACE), Status.CORRECT, "correct")


@pytest.mark.parametrize(
    ("told", "verdict", "leads", "earned"),
    [
        (SHARES, TILED, True, Credit(helped=1)),
        (SHARES, TILED, False, NO_CREDIT),
        (SHARES, racing(), False, Credit(hurt=1)),
        (SHARES, correct(), True, NO_CREDIT),
        (AVOIDS, correct(), True, Credit(helped=1)),
        (AVOIDS, racing(), False, NO_CREDIT),
        (PREVENTS, uncompiled(), False, Credit(hurt=1)),
        (PREVENTS, racing(), False, Credit(helped=1)),
    ],
    ids=[
        "followed and leads",
        "followed and slower",
        "followed and wrong",
        "not followed",
        "avoided and leads",
        "not avoided",
        "the error again",
        "another error",
    ],
)
def test_a_verdict_credits_the_lessons_that_its_program_followed(
    told: Lesson, verdict: Attempt, leads: bool, earned: Credit
) -> None:
    assert credit(told, verdict.proposal.program, verdict.evaluation, leads=leads) == earned


def test_what_helped_is_told_first_and_what_only_hurt_no_more() -> None:
    useful, plain, harmful = (lesson(name, Advice.USE) for name in ("b", "a", "c"))
    earned = {useful.id: Credit(helped=2, hurt=1), harmful.id: Credit(helped=1, hurt=4)}
    assert ranked([harmful, plain, useful], earned) == (useful, plain)


def test_traits_are_read_from_the_source() -> None:
    program = attempt(draft(FIXED_RACE), Status.CORRECT, "").proposal.program
    assert traits_of(program) == {"threadgroup memory"}
