"""Is it right, is it fast: a deterministic verdict on a program for a task."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.evaluator.config import EvaluatorConfig, TimingPlan
    from kernelwright.evaluator.evaluate import Evaluator, evaluate
    from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
    from kernelwright.evaluator.inputs.caught_case import CaughtCase
    from kernelwright.evaluator.submission import LaunchText, read_body, read_program
    from kernelwright.evaluator.task import Task, Tolerance
    from kernelwright.evaluator.worker.start import open_worker
else:
    offer_lazily(__name__)


__all__ = [
    "CaughtCase",
    "Evaluation",
    "Evaluator",
    "EvaluatorConfig",
    "LaunchText",
    "Stage",
    "Status",
    "Task",
    "TimingPlan",
    "Tolerance",
    "evaluate",
    "open_worker",
    "read_body",
    "read_program",
]
