"""Other shapes of a task, for programs that claim to serve more than one."""

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.launch import fit
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program


def visible_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return the further graphs on which a shape-generic program is judged."""
    if not program.is_generic:
        return ()
    return tuple(graph for graph in task.variants if _fits(program, graph))


def hidden_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return graphs at shapes that no agent has seen, drawn from the secret."""
    return ()


def _fits(program: Program, graph: Graph) -> bool:
    try:
        fit(program, graph)
    except InputError:
        return False
    return True
