"""Which cases of a suite the sanitizer, the repeated runs and the hidden predictions take."""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.reference import Reference

_TELLING = (
    *(Distribution.MIXED, Distribution.MASKED, Distribution.SPECIAL, Distribution.TIED),
    *(Distribution.CONSTANT, Distribution.WIDE),
)
"""Kinds whose data may lead a program where ordinary data does not."""
_MOST_ELEMENTS = 1 << 16
"""Of a case for the sanitizer beside the first: it takes some six times a plain run."""
_MOST_SHAPES = 3
"""Each shape is compiled again."""
_MOST_PACED = 4


@dataclass(frozen=True)
class Repeat:
    """A case, by its place in the suite, and how many runs of it must agree to the bit."""

    place: int
    runs: int


def sanitized(suite: Suite) -> tuple[Reference, ...]:
    """Return what runs under the sanitizer: the task's own shape, and telling kinds at odd ones."""
    own = suite.references[0]
    chosen = {id(own): own}
    shapes = _odd_shapes(suite, own)
    for kind in _TELLING:
        for reference in suite.references:
            is_small = reference.elements <= _MOST_ELEMENTS
            if reference.case.distribution is kind and is_small and _shape(reference) in shapes:
                chosen.setdefault(id(reference), reference)
                if _shape(reference) != _shape(own):
                    break
    return tuple(chosen.values())


def _odd_shapes(suite: Suite, own: Reference) -> frozenset[str]:
    """Return the shapes whose sizes are least like powers of two, and the task's own."""
    found = {
        _shape(r): r.case.graph.input_types
        for r in suite.references
        if r.elements and r.elements <= _MOST_ELEMENTS and r.case.distribution in _TELLING
    }
    found.pop(_shape(own), None)

    def evenness(shape: str) -> tuple[int, int]:
        sizes = [n for t in found[shape] for n in t.shape]
        even = sum(n % 4 == 0 for n in sizes)
        return even, -max(sizes, default=0)

    odd = sorted(found, key=evenness)
    return frozenset((_shape(own), *odd[:_MOST_SHAPES]))


def repeated(suite: Suite, runs: int) -> tuple[Repeat, ...]:
    """Return what runs again: the largest case so many times, others of telling kinds once more."""
    largest = suite.largest
    return (Repeat(largest, runs), *(Repeat(p, 2) for p in _telling_places(suite) if p != largest))


def _telling_places(suite: Suite) -> Iterator[int]:
    """Yield the place of one case of each telling kind, and of the oddest shape."""
    for kind in _TELLING:
        places = [
            place
            for place, reference in enumerate(suite.references)
            if reference.case.distribution is kind and reference.elements <= _MOST_ELEMENTS
        ]
        if places:
            yield max(places, key=lambda p: suite.references[p].elements)


def paced(suite: Suite, own: str) -> tuple[Reference, ...]:
    """Return one case of each of the largest shapes but the task's own, by its fingerprint."""
    largest: dict[str, Reference] = {}
    for reference in sorted(suite.references, key=lambda r: -r.elements):
        if _shape(reference) != own:
            largest.setdefault(_shape(reference), reference)
    return tuple(largest.values())[:_MOST_PACED]


def _shape(reference: Reference) -> str:
    return reference.case.graph.fingerprint
