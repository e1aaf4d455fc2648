"""Other values of what a program left open, nearest first."""

from collections.abc import Collection, Iterator

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.metal.kernel import Program


def neighbours(program: Program) -> Iterator[Program]:
    """Yield the program with one tunable moved: to the next choices first, then further off."""
    moves: list[tuple[int, str, int]] = []
    for tunable in program.tunables:
        ordered = sorted(set(tunable.choices))
        here = ordered.index(tunable.value)
        moves += [
            (abs(place - here), tunable.name, choice)
            for place, choice in enumerate(ordered)
            if place != here
        ]
    for _, name, choice in sorted(moves):
        yield program.tuned({t.name: t.value for t in program.tunables} | {name: choice})


def tuned(attempt: Attempt, tried: Collection[str], count: int) -> list[Proposal]:
    """Return up to `count` untried neighbours of a program, as proposals of the same author."""
    proposals: list[Proposal] = []
    for program in neighbours(attempt.proposal.program):
        if program.id in tried or len(proposals) >= count:
            continue
        values = ", ".join(f"{t.name} = {t.value}" for t in program.tunables)
        proposals.append(
            Proposal(
                program=program,
                author=attempt.proposal.author,
                idea=f"{attempt.proposal.idea} ({values})",
                parent=attempt.proposal.program.id,
            )
        )
    return proposals
