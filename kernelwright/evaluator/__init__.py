"""Is it right, is it fast: a deterministic verdict on a program for a task."""

from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.task import Task, Tolerance

__all__ = ["Evaluation", "Stage", "Status", "Task", "Tolerance"]
