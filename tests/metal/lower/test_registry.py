"""Every schedule has one template, and every pattern a family."""

from typing import Never

import pytest

from kernelwright.metal.family.classify import Pattern
from kernelwright.metal.lower.registry import FAMILIES, family_of, template_of
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Schedule, parse, render

TEMPLATES = [template for family in FAMILIES for template in family.templates]


def test_every_schedule_belongs_to_one_template() -> None:
    served = [template.schedule for template in TEMPLATES]
    assert len(served) == len(set(served))
    assert set(served) == set(Schedule.__subclasses__())


def test_every_pattern_that_kernels_serve_has_a_family() -> None:
    assert {family.pattern for family in FAMILIES} == set(Pattern) - {Pattern.NONE}
    assert all(family_of(family.pattern) is family for family in FAMILIES)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.schedule.family)
def test_a_template_says_what_its_schedules_do(template: Template[Never]) -> None:
    schedule = parse(render(template.schedule()))
    sentence = template_of(schedule).describe(schedule)
    assert sentence.endswith(".")
    assert sentence[0].isupper() or sentence[0].isdigit()
    assert template.strategy.endswith(".")
