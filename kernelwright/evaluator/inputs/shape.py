"""Other shapes of a task, for programs that claim to serve more than one."""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.static.launch import fit
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.resize import resize
from kernelwright.metal.kernel import Program

Sizes = Mapping[str, int]
"""A size for each name in the program's input shapes."""
_OFF_GRID = (33, 1, 257, 7, 31, 255, 8, 127)
_SMALL = (1, 5, 2, 3)
_LARGE = 1031
"""A prime beyond a byte, a threadgroup and every tile; each name takes it once."""
_LARGEST_HIDDEN = 300
_SHARES_OF_OWN = ((0.4, 0.65), (0.7, 0.95))
"""What is left of each open size where an unseen shape is timed."""


def visible_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return the further graphs on which a shape-generic program is judged."""
    if not program.is_generic:
        return ()
    given = (graph for graph in task.variants if _fits(program, graph))
    awkward = _off_grid(names_of(program), config.generic_shapes)
    sizes = [_lowered(task, program, chosen, config.generic_elements) for chosen in awkward]
    resized = graphs_at(task, program, sizes)
    return tuple({g.fingerprint: g for g in (*given, *resized)}.values())


def hidden_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return graphs at shapes that no agent has seen, drawn from the secret."""
    if not program.is_generic:
        return ()
    random = np.random.default_rng(_seed("hidden", task, config))
    sizes = []
    for drawn in _drawn(names_of(program), config.generic_shapes, random):
        lowered = _lowered(task, program, drawn, config.generic_elements)
        # Where the largest that fit would be the same for every secret, some below them are not.
        changed = {name: n for name, n in lowered.items() if n < drawn[name]}
        sizes.append({**lowered, **{k: int(random.integers(1, n + 1)) for k, n in changed.items()}})
    return tuple({g.fingerprint: g for g in graphs_at(task, program, sizes)}.values())


def timed_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return graphs somewhat smaller than the task's, drawn from the secret, to time a program on.

    At far smaller ones a launch takes longer than all work, and nothing could be said of it.
    """
    if not program.is_generic:
        return ()
    random = np.random.default_rng(_seed("hidden timing", task, config))
    own = {
        extent: task.graph.input_types[position].shape[axis]
        for position, tensor in enumerate(program.inputs)
        for axis, extent in enumerate(tensor.shape)
        if isinstance(extent, str)
    }
    sizes = [
        {name: max(int(size * random.uniform(low, high)), 1) for name, size in own.items()}
        for low, high in _SHARES_OF_OWN
    ]
    graphs = {g.fingerprint: g for g in graphs_at(task, program, sizes)}
    graphs.pop(task.fingerprint, None)
    return tuple(graphs.values())


def _seed(purpose: str, task: Task, config: EvaluatorConfig) -> int:
    text = f"{purpose}|{config.secret}|{task.fingerprint}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def graphs_at(task: Task, program: Program, sizes: Iterable[Sizes]) -> Iterator[Graph]:
    """Yield the task's graph at each of the sizes that graph and program both allow."""
    for chosen in sizes:
        axes = {
            (position, axis): chosen[extent]
            for position, tensor in enumerate(program.inputs)
            for axis, extent in enumerate(tensor.shape)
            if isinstance(extent, str)
        }
        try:
            graph = resize(task.graph, axes)
        except (InputError, UnsupportedError):
            continue
        if _fits(program, graph):
            yield graph


def _lowered(task: Task, program: Program, sizes: Sizes, most: int) -> Sizes:
    """Return the sizes, the largest lowered to an odd one at which there are `most` elements."""
    name = max(sizes, key=lambda name: sizes[name])

    def is_too_large(size: int) -> bool:
        graphs = graphs_at(task, program, [{**sizes, name: size}])
        return any(graph.element_count > most for graph in graphs)

    if not is_too_large(sizes[name]):
        return sizes
    largest = max(bisect_left(range(1, sizes[name]), True, key=is_too_large), 1)
    return {**sizes, name: largest - (largest % 2 == 0)}


def names_of(program: Program) -> tuple[str, ...]:
    """Return the names in a program's input shapes, in order."""
    names = (e for t in program.inputs for e in t.shape if isinstance(e, str))
    return tuple(dict.fromkeys(names))


def _off_grid(names: tuple[str, ...], count: int) -> Iterator[Sizes]:
    """Give each name in turn an awkward size, then each a large one, and the others small ones."""
    awkward = max(count, len(names))
    for number in range(awkward + len(names)):
        chosen = len(names) - 1 - number % len(names)
        size = _OFF_GRID[number % len(_OFF_GRID)] if number < awkward else _LARGE
        yield {
            name: size if place == chosen else _SMALL[(number + place) % len(_SMALL)]
            for place, name in enumerate(names)
        }


def _drawn(names: tuple[str, ...], count: int, random: np.random.Generator) -> Iterator[Sizes]:
    for number in range(count):
        chosen = len(names) - 1 - number % len(names)
        yield {
            name: int(random.integers(2, _LARGEST_HIDDEN if place == chosen else 9))
            for place, name in enumerate(names)
        }


def _fits(program: Program, graph: Graph) -> bool:
    try:
        fit(program, graph)
    except InputError:
        return False
    return True
