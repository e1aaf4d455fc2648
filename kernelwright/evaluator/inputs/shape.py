"""Other shapes of a task, for programs that claim to serve more than one."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice

import numpy as np

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.extent import extent_of
from kernelwright.evaluator.inputs.literals import sizes_of
from kernelwright.evaluator.static.launch import fit
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes.resize import resize
from kernelwright.metal.extent import evaluate, symbols_in
from kernelwright.metal.kernel import Program

Sizes = Mapping[str, int]
"""A size for each name in the program's input shapes."""
_OFF_GRID = (33, 1, 257, 7, 31, 255, 8, 127)
_SMALL = (1, 5, 2, 3)
_LARGE_COLUMNS, _LARGE = 4111, 1031
"""Primes beyond a byte, a threadgroup and every tile, one of them beyond what a threadgroup of
1024 takes at four elements a thread; each name takes one once."""
_MANY_ROWS = 1 << 16
"""Beyond 16 bits."""
_MOST_LONG, _FEW, _MOST_OF_MANY = 3, ((3, 6), (1, 3)), 1 << 20
"""Names that are so many once, what the others are then, fewer beside all but the first or where
the elements were too many."""
MOST_THREADS = 5 << 20
"""Of a launch over many rows: what the simulator ends within a second or two."""
_RESIDUES, _STEP = 32, 3
"""Sizes modulo this take all values over a program's suites; the step mixes those modulo 4."""
_HIDDEN_PER_VISIBLE = 4
_HIDDEN_ELEMENTS = 1 << 18
_FEWEST_STEPS = 16
"""Sizes up to this one are drawn however large every step is."""
_LEAST_RANGE = 300
_MOST_SIZED = 6
_STEPS_ASIDE = (1, 2, 4, 8, 32)
"""To sizes that a task may have if it may have any other."""
_SHARES_OF_OWN = ((0.4, 0.65), (0.7, 0.95))
"""What is left of each open size where an unseen shape is timed."""


def visible_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return the further graphs on which a shape-generic program is judged."""
    if not program.is_generic:
        return ()
    given = (graph for graph in task.variants if _fits(program, graph))
    awkward = _off_grid(open_names(task, program), 2 * config.generic_shapes)
    sizes = [_lowered(task, program, chosen, config.generic_elements) for chosen in awkward]
    resized = graphs_at(task, program, sizes)
    return tuple({g.fingerprint: g for g in (*given, *resized)}.values())


def hidden_graphs(
    task: Task, program: Program, config: EvaluatorConfig, *, again: bool = False
) -> tuple[Graph, ...]:
    """Return graphs at shapes that no agent has seen, drawn from the secret.

    Each name's sizes are spread over all powers of two up to beyond the task's own, and take half
    of all residues; those of the suite that is drawn `again` take the others.
    """
    if not program.is_generic:
        return ()
    random = np.random.default_rng(_seed("hidden", task, config))
    names, count = open_names(task, program), _HIDDEN_PER_VISIBLE * config.generic_shapes
    if not names:
        return ()
    drawn = _drawn(task, program, count, random, first=count if again else 0)
    most = config.generic_elements
    related = _related(names, own_sizes(task, program), random)
    sizes = [_within(task, program, sizes, random, most) for sizes in (*drawn, *related)]
    if not again:
        for place, name in enumerate(names[:_MOST_LONG]):
            many = (_many_of(name, names, random, few) for few in _FEW[min(place, 1) :])
            kept = (one for one in many if _fits_in(task, program, one, _MOST_OF_MANY))
            sizes += islice(kept, 1)
    graphs = {g.fingerprint: g for g in graphs_at(task, program, sizes)}
    return tuple(g for g in graphs.values() if threads_of(program, g) <= MOST_THREADS)


def sized_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return graphs whose sizes stand in the program's own text, or are one larger."""
    names, written = open_names(task, program), sizes_of(program)
    if not names or not written:
        return ()
    chosen = []
    for number, size in enumerate(written):
        larger = size + number % 2
        paired = written[-1 - number]
        for name in names:
            beside = _SMALL if size <= _LARGE_COLUMNS else _SMALL[:1]
            others = {n: beside[(number + i) % len(beside)] for i, n in enumerate(names)}
            chosen.append({**others, name: size})
        chosen.append({name: larger if i else paired for i, name in enumerate(reversed(names))})
    found = graphs_at(task, program, chosen)
    small = (g for g in found if g.element_count and extent_of(g) <= config.case_elements)
    graphs = {g.fingerprint: g for g in small}
    graphs.pop(task.fingerprint, None)
    return tuple(graphs.values())[:_MOST_SIZED]


def timed_graphs(task: Task, program: Program, config: EvaluatorConfig) -> tuple[Graph, ...]:
    """Return graphs somewhat smaller than the task's, drawn from the secret, to time a program on.

    At far smaller ones a launch takes longer than all work, and nothing could be said of it.
    """
    if not program.is_generic:
        return ()
    random = np.random.default_rng(_seed("hidden timing", task, config))
    own = {name: own_sizes(task, program)[name] for name in open_names(task, program)}
    sizes = [
        {name: max(int(size * random.uniform(low, high)), 1) for name, size in own.items()}
        for low, high in _SHARES_OF_OWN
    ]
    graphs = {g.fingerprint: g for g in graphs_at(task, program, sizes)}
    graphs.pop(task.fingerprint, None)
    return tuple(graphs.values())


def own_sizes(task: Task, program: Program) -> dict[str, int]:
    """Return the task's own size of each name in a program's input shapes."""
    return sizes_at(program, task.graph)


def sizes_at(program: Program, graph: Graph) -> dict[str, int]:
    """Return what each name in a program's input shapes is at a graph's."""
    sizes = program.sizes_at(graph.input_types)
    return {name: sizes[name] for name in program.dimensions}


def _seed(purpose: str, task: Task, config: EvaluatorConfig) -> int:
    text = f"{purpose}|{config.secret}|{task.fingerprint}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def graphs_at(task: Task, program: Program, sizes: Iterable[Sizes]) -> Iterator[Graph]:
    """Yield the task's graph at each of the sizes that graph and program both allow.

    Names that have no size there keep the task's own.
    """
    own = program.sizes_at(task.graph.input_types)
    for chosen in sizes:
        known = {**own, **chosen}
        axes = {
            (position, axis): evaluate(extent, known)
            for position, tensor in enumerate(program.inputs)
            for axis, extent in enumerate(tensor.shape)
            if not symbols_in(extent).isdisjoint(chosen)
        }
        graph = _resized(task.graph, tuple(axes.items()))
        if graph is not None and _fits(program, graph):
            yield graph


# The programs of a task are judged at the same sizes, some fifty of them.
@lru_cache(maxsize=256)
def _resized(graph: Graph, axes: tuple[tuple[tuple[int, int], int], ...]) -> Graph | None:
    """Return a graph with other sizes of some inputs' axes; None where it allows none."""
    try:
        return resize(graph, dict(axes))
    except (InputError, UnsupportedError):
        return None


def _lowered(task: Task, program: Program, sizes: Sizes, most: int) -> Sizes:
    """Return the sizes, the largest lowered to an odd one at which there are `most` elements."""
    name = max(sizes, key=lambda name: sizes[name])

    def is_too_large(size: int) -> bool:
        return not _fits_in(task, program, {**sizes, name: size}, most)

    if not is_too_large(sizes[name]):
        return sizes
    largest = max(bisect_left(range(1, sizes[name]), True, key=is_too_large), 1)
    return {**sizes, name: largest - (largest % 2 == 0)}


def _fits_in(task: Task, program: Program, sizes: Sizes, most: int) -> bool:
    return all(extent_of(graph) <= most for graph in graphs_at(task, program, [sizes]))


def open_names(task: Task, program: Program) -> tuple[str, ...]:
    """Return the names whose sizes can change without making another task of it.

    Where a constant may have been computed of one size, as 1 / 512 of a mean, the others still
    can. Names that change together alone are all open.
    """
    names = program.dimensions
    own = own_sizes(task, program)

    def can_change(some: Iterable[str]) -> bool:
        tried = [{name: own[name] + step for name in some} for step in _STEPS_ASIDE]
        return any(True for _ in graphs_at(task, program, tried))

    if can_change(names):
        return names
    return tuple(name for name in names if can_change((name,)))


def _off_grid(names: tuple[str, ...], count: int) -> Iterator[Sizes]:
    """Give each name in turn an awkward size, then each a large one, and the others small ones."""
    awkward = max(count, len(names)) if names else 0
    for number in range(awkward + len(names)):
        chosen = len(names) - 1 - number % len(names)
        large = _LARGE_COLUMNS if chosen == len(names) - 1 else _LARGE
        size = _OFF_GRID[number % len(_OFF_GRID)] if number < awkward else large
        yield {
            name: size if place == chosen else _SMALL[(number + place) % len(_SMALL)]
            for place, name in enumerate(names)
        }


def _drawn(
    task: Task, program: Program, count: int, random: np.random.Generator, *, first: int
) -> Iterator[Sizes]:
    """Draw sizes log-uniformly, each name in turn up to twice its own; residues come in turn."""
    names, own = open_names(task, program), own_sizes(task, program)
    residues = {
        name: random.permutation([(first + i) * _STEP % _RESIDUES for i in range(count)])
        for name in names
    }
    for number in range(count):
        chosen = len(names) - 1 - number % len(names)
        sizes = {}
        for place, name in enumerate(names):
            most = max(2 * own[name], _LEAST_RANGE) if place == chosen else _RESIDUES
            drawn = int(np.exp(random.uniform(0, np.log(most))))
            sizes[name] = _with_residue(drawn, int(residues[name][number]))
        yield sizes


def _related(names: tuple[str, ...], own: Sizes, random: np.random.Generator) -> Iterator[Sizes]:
    """Draw sizes that hang together: all equal, also to one that stays, and all but one one."""
    fixed = [size for name, size in own.items() if name not in names]
    if fixed:
        yield dict.fromkeys(names, fixed[int(random.integers(len(fixed)))])
    if len(names) > 1:
        yield dict.fromkeys(names, int(random.integers(2, _LEAST_RANGE)))
        large = names[int(random.integers(len(names)))]
        yield {**dict.fromkeys(names, 1), large: int(random.integers(_LEAST_RANGE, _LARGE_COLUMNS))}


def _with_residue(size: int, residue: int) -> int:
    """Return the size near another that leaves a residue, at least 1."""
    return size - size % _RESIDUES + residue or _RESIDUES


def _within(
    task: Task, program: Program, sizes: Sizes, random: np.random.Generator, most: int
) -> Sizes:
    """Lower the largest size until the arrays are small, and keep its residue."""
    least = [extent_of(g) for g in graphs_at(task, program, [dict.fromkeys(sizes, 1)])]
    most = min(max(_HIDDEN_ELEMENTS, _FEWEST_STEPS * max(least, default=1)), most)
    lowered = _lowered(task, program, sizes, most)
    changed = {name: n for name, n in lowered.items() if n < sizes[name]}
    # Where the largest that fit would be the same for every secret, some below them are not.
    fewer = {name: int(random.integers(max(n // 2, 1), n + 1)) for name, n in changed.items()}
    kept = {
        name: _with_residue(n, sizes[name] % _RESIDUES) if n >= 2 * _RESIDUES else n
        for name, n in fewer.items()
    }
    return {**sizes, **kept}


def _many_of(
    name: str, names: tuple[str, ...], random: np.random.Generator, few: tuple[int, int]
) -> Sizes:
    """Give one name more than 16 bits count, and every other a few.

    Indices that reach beyond 16 bits need some room to be drawn, so one of two is too few.
    """
    others = {other: int(random.integers(*few)) for other in names if other != name}
    return {**others, name: _MANY_ROWS + int(random.integers(1, _LEAST_RANGE))}


def threads_of(program: Program, graph: Graph) -> int:
    """Count the threads of a program's launches at a graph's shapes."""
    return sum(math.prod(launch.grid) for launch in program.bind(graph.input_types).launches)


def _fits(program: Program, graph: Graph) -> bool:
    try:
        fit(program, graph)
    except InputError:
        return False
    return True
