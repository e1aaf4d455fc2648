"""Regions and schedules to programs, one file a family."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.metal.lower.lowering import lower
    from kernelwright.metal.lower.space import Footprint, footprint, schedules
else:
    offer_lazily(__name__)


__all__ = ["Footprint", "footprint", "lower", "schedules"]
