"""What makes two programs the same idea: their code without names, comments and layout."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

from kernelwright.agents.protocols import Attempt
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.static.vocabulary import RESERVED
from kernelwright.metal.kernel import Program
from kernelwright.metal.msl.token import Token, TokenKind, code, tokenize

_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = frozenset({".", "->", "::"})


def marks(program: Program) -> frozenset[str]:
    """Return what a program shares with attempts whose verdict is its own, by `mark_of`."""
    return frozenset({program.id, signature(program)})


def mark_of(attempt: Attempt) -> str:
    """Return what programs share for which an attempt's verdict holds: a signature, or an id.

    Static rules read comments and layout, too: what they refused was not judged, and holds for
    this very text.
    """
    program = attempt.proposal.program
    is_judged = attempt.evaluation.status is not Status.FORBIDDEN
    return signature(program) if is_judged else program.id


def signature(program: Program) -> str:
    """Return 64 hex digits that programs share when they differ in nothing that matters.

    Names that a programmer chose, those of extents among them, are numbered by first use;
    launches, constants and tunable choices count, the order in which choices are listed and their
    present value do not.
    """
    numbers: dict[str, int] = {}
    extents: dict[str, str] = {t.name: t.name for t in program.tunables}

    def plain(sizes: Iterable[int | str]) -> str:
        return ",".join(
            _WORD.sub(lambda w: extents.setdefault(w[0], f"#{len(extents)}"), str(size))
            for size in sizes
        )

    arrays = (*program.inputs, *program.temporaries)
    parts: list[str] = [plain(t.shape) + t.dtype for t in arrays]
    for kernel in program.kernels:
        for text in (kernel.header, kernel.source):
            parts.extend(_normalised(code(tokenize(text)), numbers))
        parts.append(_numbered((*kernel.inputs, "|", *kernel.outputs), numbers))
        parts.append(f"{plain(kernel.grid)};{plain(kernel.threadgroup)}")
        parts.append(f"{kernel.math_mode}{kernel.init_value}")
        values = {name: extents.get(str(v), str(v)) for name, v in kernel.template.items()}
        template = sorted((numbers.get(k, -1), v) for k, v in values.items())
        parts.append(f"{template}{kernel.atomic_outputs}{kernel.ensure_row_contiguous}")
    parts += sorted(f"{t.name}{sorted(t.choices)}" for t in program.tunables)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _normalised(tokens: Sequence[Token], numbers: dict[str, int]) -> Iterator[str]:
    before = ""
    for place, token in enumerate(tokens):
        word = token.spelling
        after = tokens[place + 1].spelling if place + 1 < len(tokens) else ""
        is_own = token.kind is TokenKind.IDENTIFIER and word not in RESERVED
        if is_own and before not in _MEMBER and after != "::":
            yield f"@{numbers.setdefault(word, len(numbers))}"
        else:
            yield word
        before = word


def _numbered(names: Iterable[str], numbers: dict[str, int]) -> str:
    return ",".join(name if name == "|" else str(numbers.get(name, -1)) for name in names)
