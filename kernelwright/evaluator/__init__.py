"""Is it right, is it fast: a deterministic verdict on a program for a task."""

from kernelwright.evaluator.config import EvaluatorConfig, TimingPlan
from kernelwright.evaluator.evaluate import Evaluator, evaluate
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.submission import LaunchText, read_body, read_program
from kernelwright.evaluator.task import Task, Tolerance

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
    "read_body",
    "read_program",
]
