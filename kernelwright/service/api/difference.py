"""How the sources of two candidates differ, line by line."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from kernelwright.metal.kernel import Program
from kernelwright.service.api.highlight import sources_of
from kernelwright.service.api.record import (
    CandidateDiff,
    DiffRow,
    SourceDiff,
    SourceLine,
    SourceText,
)
from kernelwright.store import CandidateDetail


def difference(old: CandidateDetail, new: CandidateDetail) -> CandidateDiff:
    """Compare the sources of two candidates kernel by kernel."""
    return CandidateDiff(
        old_id=old.candidate.id, new_id=new.candidate.id, parts=_parts(old.program, new.program)
    )


def _parts(old: Program, new: Program) -> tuple[SourceDiff, ...]:
    before = _by_place(old)
    after = _by_place(new)
    return tuple(
        _part(after.get(place) or before[place], before.get(place), after.get(place))
        for place in dict.fromkeys([*after, *before])
    )


def _by_place(program: Program) -> dict[tuple[int, str], SourceText]:
    """Kernels are renamed from one candidate to the next, and keep their order."""
    names = [kernel.name for kernel in program.kernels]
    return {(names.index(t.kernel), t.part): t for t in sources_of(program)}


def _part(named: SourceText, old: SourceText | None, new: SourceText | None) -> SourceDiff:
    rows = tuple(_rows(old.lines if old else (), new.lines if new else ()))
    return SourceDiff(
        kernel=named.kernel,
        part=named.part,
        rows=rows,
        added=sum(row.change == "added" for row in rows),
        removed=sum(row.change == "removed" for row in rows),
    )


def _rows(old: Sequence[SourceLine], new: Sequence[SourceLine]) -> Iterator[DiffRow]:
    matcher = SequenceMatcher(None, [*map(_text, old)], [*map(_text, new)], autojunk=False)
    for tag, old_first, old_end, new_first, new_end in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(range(old_first, old_end), range(new_first, new_end), strict=True)
            for i, j in pairs:
                yield DiffRow(change="same", old=i + 1, new=j + 1, line=new[j])
            continue
        for i in range(old_first, old_end):
            yield DiffRow(change="removed", old=i + 1, new=None, line=old[i])
        for j in range(new_first, new_end):
            yield DiffRow(change="added", old=None, new=j + 1, line=new[j])


def _text(line: SourceLine) -> str:
    return "".join(span.text for span in line)
