"""Which judge a candidate gets."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from kernelwright.campaign.execution.evaluator_pool import EvaluatorPool
from kernelwright.evaluator import Evaluation, Task
from kernelwright.evaluator.attacks.corpus import task_of
from kernelwright.metal import Program
from tests.campaign.scripted import INFO, ScriptedCoder, ScriptedJudge


def test_a_task_goes_to_the_judge_that_has_its_cases() -> None:
    asked: list[tuple[ScriptedJudge, str]] = []
    both_are_busy = Barrier(2, timeout=60)

    class Judge(ScriptedJudge):
        def evaluate(self, task: Task, program: Program) -> Evaluation:
            asked.append((self, task.name))
            if len(asked) <= 2:
                both_are_busy.wait()
            return super().evaluate(task, program)

    tasks = [task_of(name) for name in ("rotate", "softmax")]
    programs = [ScriptedCoder().write(task, INFO, (), count=1)[0].program for task in tasks]
    with (
        EvaluatorPool(Judge, 2, lambda seconds, reason: False) as pool,
        ThreadPoolExecutor(2) as threads,
    ):
        list(threads.map(pool.evaluate, tasks, programs))
        for number in (0, 0, 1, 1, 0):
            pool.evaluate(tasks[number], programs[number])
    owners = {name: {id(judge) for judge, of in asked if of == name} for _, name in asked}
    assert [len(judges) for judges in owners.values()] == [1, 1]
