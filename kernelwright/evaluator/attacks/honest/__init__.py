"""Programs that compute their task: none of them may be rejected."""

from functools import partial

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.honest.kernel import HonestKernel
from kernelwright.evaluator.attacks.honest.lowered import honest_kernels
from kernelwright.evaluator.attacks.honest.written import written_kernels

__all__ = ["HonestKernel", "all_honest", "honest_kernels", "written_kernels"]


def all_honest() -> tuple[HonestKernel, ...]:
    """Return the programs behind the mutants, and the lowered kernels."""
    behind = (
        HonestKernel(name, task_of(name), partial(getattr, base, "program"))
        for name, base in bases().items()
    )
    return (*behind, *honest_kernels())
