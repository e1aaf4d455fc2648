"""Whether a region's lanes had better make vectors together, or each one of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.metal.device.simulator.wide.assembly import Instruction
from kernelwright.metal.device.simulator.wide.flow import Piece

_MOVING = frozenset(("load", "store"))
_FREE = frozenset(("getelementptr", "phi", "alloca", "br"))
_FEWEST_APART = 16
_APART_BYTES = 16
_WORK_BESIDE = 2.5
"""So many other operations for each access leave more to gain from vectors over lanes."""


@dataclass(frozen=True)
class Loops:
    """Numbers of the metadata nodes for a loop over lanes."""

    wide: int
    """It becomes vectors over lanes."""
    narrow: int
    """It stays as it is."""
    unrolled: int
    """A loop within one lane is unrolled."""


class Shape:
    """What the pieces of a region do in which order."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        start: str,
        step: Callable[[Instruction], int | None],
        loops: Loops,
    ) -> None:
        """Look at a region; `step` tells how far from each other two lanes reach."""
        self._start = start
        self._after = {p.label: frozenset(p.successors if p.stop is None else ()) for p in pieces}
        self._looped = frozenset(label for label in self._after if self._leads(label, label))
        self.is_narrow = _is_unrolled(pieces, loops) or (
            not self._looped and _reaches_apart(pieces, step)
        )
        """Lanes make no vectors together; each has some of its own to make, or stores apart."""

    def may_mask(self, piece: Piece) -> bool:
        """Say whether a vector of a piece's loads may have a mask: see opaque.py.

        LLVM makes vectors of innermost loops alone: where a region has one, none of lanes.
        """
        if self._looped:
            is_alone = piece.label in self._after[piece.label]
            return piece.label in self._looped and not is_alone
        return not self.is_narrow and piece.label != self._start

    def _leads(self, label: str, goal: str) -> bool:
        seen, pending = set[str](), [label]
        while pending:
            for following in self._after.get(pending.pop(), frozenset()) - seen:
                if following == goal:
                    return True
                seen.add(following)
                pending.append(following)
        return False


def _is_unrolled(pieces: Sequence[Piece], loops: Loops) -> bool:
    """Say whether a loop of a region is unrolled, so that LLVM might make vectors of lanes."""
    mark = f"!llvm.loop !{loops.unrolled}"
    return any(p.terminator is not None and p.terminator.text.endswith(mark) for p in pieces)


def _reaches_apart(pieces: Sequence[Piece], step: Callable[[Instruction], int | None]) -> bool:
    """Say whether most of what lanes do is to move what does not lie beside that of other lanes.

    A vector over lanes would be put together element by element; along a lane's own elements it is
    one access.
    """
    doing = [i for p in pieces for i in p.instructions]
    moving = [i for i in doing if i.operation in _MOVING]
    others = sum(i.operation not in _MOVING | _FREE for i in doing)
    steps = (step(i) for i in moving)
    apart = sum(s is not None and abs(s) >= _APART_BYTES for s in steps)
    is_most = apart >= _FEWEST_APART and apart * 4 >= len(moving) * 3
    return is_most and others <= _WORK_BESIDE * apart
