"""Regions and schedules to programs, one file a family."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.metal.lower.lowering import lower
    from kernelwright.metal.lower.registry import template_of
    from kernelwright.metal.lower.resource import Footprint
    from kernelwright.metal.lower.space import footprint, schedules
else:
    offer_lazily(__name__)


__all__ = ["Footprint", "footprint", "lower", "schedules", "template_of"]
