"""Every schedule has one template, and every pattern a family."""

import pytest

from kernelwright.metal.family.classify import Pattern
from kernelwright.metal.lower.registry import FAMILIES, family_of, template_of
from kernelwright.metal.schedule import Schedule, parse, render

SCHEDULES: list[type[Schedule]] = [t.schedule for family in FAMILIES for t in family.templates]


def test_every_schedule_belongs_to_one_template() -> None:
    assert len(SCHEDULES) == len(set(SCHEDULES))
    own = {s for s in Schedule.__subclasses__() if s.__module__.startswith("kernelwright.")}
    assert set(SCHEDULES) == own


def test_every_pattern_that_kernels_serve_has_a_family() -> None:
    assert {family.pattern for family in FAMILIES} == set(Pattern) - {Pattern.NONE}
    assert all(family_of(family.pattern) is family for family in FAMILIES)


@pytest.mark.parametrize("kind", SCHEDULES, ids=lambda kind: str(kind.family))
def test_a_template_says_what_its_schedules_do(kind: type[Schedule]) -> None:
    schedule = parse(render(kind()))
    template = template_of(schedule)
    sentence = template.describe(schedule)
    assert sentence.endswith(".")
    assert sentence[0].isupper() or sentence[0].isdigit()
    assert template.strategy.endswith(".")
