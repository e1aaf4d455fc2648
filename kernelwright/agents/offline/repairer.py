"""The repairer that knows the mechanical mistakes, by what the compiler says of them."""

from collections.abc import Sequence

from kernelwright.agents.offline.rule import RULES
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import Kernel

AUTHOR = "offline"


class OfflineRepairer:
    """Applies every rule that a failed compilation calls for."""

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        """Return the corrected program, or None when no rule changes it."""
        if failed.evaluation.status is not Status.COMPILE_ERROR:
            return None
        program = failed.proposal.program
        pairs = [corrected(k, failed.evaluation.diagnostics) for k in program.kernels]
        applied = list(dict.fromkeys(name for _, names in pairs for name in names))
        if not applied:
            return None
        return Proposal(
            program=program.model_copy(update={"kernels": tuple(kernel for kernel, _ in pairs)}),
            author=AUTHOR,
            idea=f"Repaired: {'; '.join(applied)}.",
            parent=program.id,
        )


def corrected(kernel: Kernel, diagnostics: Sequence[Diagnostic]) -> tuple[Kernel, tuple[str, ...]]:
    """Return a kernel after every rule, and the names of those that changed it."""
    applied: list[str] = []
    for rule in RULES:
        changed = rule.apply(kernel, diagnostics)
        if changed != kernel:
            applied.append(rule.name)
            kernel = changed
    return kernel, tuple(applied)
