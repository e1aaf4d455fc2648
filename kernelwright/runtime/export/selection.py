"""Decides what may leave the store: verified kernels, or others by force and labelled so."""

import re
import sys
from dataclasses import dataclass, replace
from keyword import iskeyword

from kernelwright.errors import InputError, UsageError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.gain import gain_of
from kernelwright.evaluator.static.vocabulary import UNPRINTABLE
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.nest import Output, made, moved
from kernelwright.metal.kernel import Program
from kernelwright.store import CandidateDetail

WARNING = "NOT VERIFIED: no standing evaluation found this kernel correct."


@dataclass(frozen=True, slots=True)
class Selection:
    """A kernel that may be exported, under the name that it goes by."""

    detail: CandidateDetail
    name: str
    is_verified: bool
    is_revoked: bool = False

    @property
    def evaluation(self) -> Evaluation | None:
        """The newest verdict."""
        return verdict_of(self.detail)


def check_name(name: str) -> None:
    """Refuse what no module can be called.

    Raises:
        UsageError: the name is no identifier, or Python's own.
    """
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(f"expected a Python identifier as the name, found {name!r}.")
    if name in {*sys.stdlib_module_names, "mlx", "numpy"}:
        raise UsageError(
            f"expected a name of your own, found {name!r}, which is a module of Python's or MLX's; "
            "choose another with --name."
        )


def select(detail: CandidateDetail, *, name: str | None, force: bool) -> Selection:
    """Admit a candidate to an export.

    Raises:
        InputError: it is not verified, was revoked or fits no Mac, the name is no identifier, or
            its source reads as another than it is.
    """
    if (hidden := hidden_character(detail.program)) is not None:
        raise InputError(
            f"expected a source that reads as what it is, found {hidden!a} in it, which leaves no "
            "mark where it stands; search its task again."
        )
    function = name or _identifier(detail.candidate.task.name)
    check_name(function)
    evaluation = verdict_of(detail)
    is_revoked = any(champion.freshness == "revoked" for champion in detail.champion_on)
    is_verified = evaluation is not None and evaluation.is_correct and not is_revoked
    if is_verified and not fits_metal(detail) and not force:
        assert evaluation is not None
        raise InputError(
            "expected a kernel for Metal's 32 KB of threadgroup memory, found one judged on "
            f"{evaluation.device.chip}; serve it with kernelwright.optimize("
            f"threadgroup_bytes={evaluation.device.threadgroup_bytes}), or add --force."
        )
    if not is_verified and not force:
        found = "not evaluated" if evaluation is None else evaluation.status.value
        raise InputError(
            f"expected a verified kernel, found one that is {'revoked' if is_revoked else found}; "
            "export a champion (`kernelwright best`), or add --force and check it yourself."
        )
    if is_verified and not (evaluation is not None and evaluation.has_passed_hidden_gate):
        if not force:
            raise InputError(
                "expected a kernel that passed the hidden gate, found one judged on visible cases "
                "only; export a champion (`kernelwright best`), or check it with `kernelwright "
                f"verify {detail.candidate.id[:12]}` and add --force."
            )
        is_verified = False
    return Selection(_as_called(detail), function, is_verified, is_revoked)


def hidden_character(program: Program) -> str | None:
    """Return a character of a program's sources that leaves no mark where it stands."""
    texts = (text for kernel in program.kernels for text in (kernel.header, kernel.source))
    found = (UNPRINTABLE.search(text) for text in texts)
    return next((character[0] for character in found if character), None)


def require_gain(detail: CandidateDetail) -> None:
    """Refuse a kernel that MLX beats.

    Raises:
        InputError: it is right, and no faster than MLX.
    """
    evaluation = verdict_of(detail)
    if evaluation is None or not evaluation.is_correct or evaluation.beats_mlx:
        return
    gain = gain_of(evaluation, detail.graph)
    raise InputError(
        f"expected a kernel that is faster than MLX, found {gain.words}: MLX is best here; keep "
        "the original, or add --slower to export the kernel all the same."
    )


def _as_called(detail: CandidateDetail) -> CandidateDetail:
    """Return a candidate whose arrays and results come as its function takes and gives them."""
    graph, program = detail.graph, detail.program
    taken, given = graph.as_called(), _as_returned(graph)
    named = replace(
        graph,
        inputs=tuple(graph.inputs[i] for i in taken),
        names=tuple(graph.input_names()[i] for i in taken),
        turns=(),
        outputs=tuple(graph.outputs[i] for i in given),
        results=moved(
            graph.results,
            {place: Output(turn) for turn, place in enumerate(given)},
            {place: turn for turn, place in enumerate(taken)},
        ),
    )
    if named == graph:
        return detail
    arrays = {
        "inputs": tuple(program.inputs[i] for i in taken),
        "outputs": tuple(program.outputs[i] for i in given),
    }
    moved_program = program.model_copy(update=arrays)
    return detail.model_copy(update={"graph_json": named.to_json(), "program": moved_program})


def _as_returned(graph: Graph) -> tuple[int, ...]:
    """Return the positions of the outputs in the order in which a caller gets them."""
    returned = (leaf.place for leaf in made(graph.results))
    return tuple(dict.fromkeys((*returned, *range(len(graph.outputs)))))


def fits_metal(detail: CandidateDetail) -> bool:
    """Say whether an Apple GPU has the threadgroup memory, as far as the newest verdict tells."""
    evaluation = verdict_of(detail)
    return evaluation is None or evaluation.fits_metal


def verdict_of(detail: CandidateDetail) -> Evaluation | None:
    """Return the newest verdict."""
    return detail.evaluations[0].evaluation if detail.evaluations else None


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_").lower() or "kernel"
    return f"kernel_{name}" if name[0].isdigit() else name


def is_verified(detail: CandidateDetail) -> bool:
    """Say whether a kernel is correct, passed the hidden gate and was never revoked."""
    evaluation = verdict_of(detail)
    revoked = any(champion.freshness == "revoked" for champion in detail.champion_on)
    if evaluation is None or revoked:
        return False
    return evaluation.is_correct and evaluation.has_passed_hidden_gate
