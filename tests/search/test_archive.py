"""Islands of an archive: who is a parent, and what other ways are shown."""

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.search.archive import Archive, niche_of
from tests.agents.loopback.scene import (
    BODY,
    FIXED_RACE,
    FIXED_TAIL,
    QUARTER,
    TASK,
    correct,
    draft,
    racing,
)


def taking(
    us: float,
    source: str,
    *,
    parent: str | None = None,
    bound: str = "launch",
    idea: str = "x",
    group: int = 64,
) -> Attempt:
    grid = QUARTER if source == FIXED_TAIL else None
    program = draft(source, idea, grid=grid, group=group).program(Interface(TASK))
    evaluation = correct().evaluation.model_copy(
        update={"program": program.id, "predicted_us": us, "bound": bound}
    )
    proposal = Proposal(program=program, author="openai:gpt-5", idea=idea, parent=parent)
    return Attempt(proposal=proposal, evaluation=evaluation)


def archive(*attempts: Attempt) -> Archive:
    slowness = {
        a.proposal.program.id: a.evaluation.predicted_us
        for a in attempts
        if a.evaluation.predicted_us is not None
    }
    return Archive(attempts, slowness)


PLAIN = taking(4.0, BODY)
TILED = taking(5.0, FIXED_RACE, bound="latency")
QUARTERS = taking(4.5, FIXED_TAIL, bound="memory")
SLOW = taking(40.0, BODY.replace("2.0f", "(1.0f + 1.0f)"), bound="issue")


def test_islands_part_programs_by_technique_and_by_what_bounds_them() -> None:
    found = archive(TILED, PLAIN, QUARTERS, racing())
    assert list(found.islands) == [niche_of(PLAIN), niche_of(QUARTERS), niche_of(TILED)]
    assert str(niche_of(TILED)) == "threadgroup memory; bound by latency"


def test_the_first_parent_is_the_best_program() -> None:
    assert archive(TILED, PLAIN, SLOW).parents[0] is PLAIN


def test_a_parent_that_was_worked_on_gives_way_to_one_that_is_new_and_nearly_as_fast() -> None:
    child = taking(4.2, BODY.replace("+ 1.0f", "+ (1.0f)"), parent=PLAIN.proposal.program.id)
    other = taking(4.3, BODY.replace("+ 1.0f", "- -1.0f"), parent=PLAIN.proposal.program.id)
    assert archive(PLAIN, TILED, child, other).parents[0] is TILED


def test_nothing_far_behind_the_best_is_a_parent_or_shown() -> None:
    found = archive(PLAIN, SLOW)
    assert found.parents == [PLAIN]
    assert found.inspirations(PLAIN) == []


def test_inspirations_are_the_best_of_other_islands() -> None:
    slower = taking(4.8, FIXED_TAIL.replace("4;", "4u;"), bound="memory")
    found = archive(PLAIN, TILED, slower, QUARTERS)
    assert found.inspirations(PLAIN) == [QUARTERS, TILED]
    assert found.inspirations(TILED) == [PLAIN, QUARTERS]


def test_the_same_text_in_other_groups_is_no_other_way() -> None:
    narrow = taking(4.4, BODY, bound="latency", group=32)
    wide = taking(4.6, FIXED_TAIL, bound="issue", group=128)
    found = archive(PLAIN, narrow, QUARTERS, wide)
    assert found.inspirations(PLAIN) == [QUARTERS]
    assert found.inspirations(None) == [PLAIN, QUARTERS]


def test_an_empty_archive_has_nobody() -> None:
    assert archive(racing()).parents == []
    assert archive().inspirations(None) == []
