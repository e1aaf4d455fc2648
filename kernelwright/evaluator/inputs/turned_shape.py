"""Shapes at which conditions of a program's text on its sizes turn out otherwise."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.extent import extent_of
from kernelwright.evaluator.inputs.shape import (
    MOST_THREADS,
    Sizes,
    graphs_at,
    open_names,
    own_sizes,
    sizes_at,
    threads_of,
)
from kernelwright.evaluator.inputs.size_condition import size_conditions
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program

_SMALL = (1, 5, 2, 3)
"""Of names that stay while another takes all sizes."""
_EVERY_SIZE, _LARGEST_TURNED, _SIZES_BEYOND = 1 << 14, 1 << 18, 300
"""Sizes of one name at which conditions on sizes are evaluated, and some above them."""
_LARGEST_JOINT, _JOINT_SIZES = 600, 1 << 13
"""Of sizes that are tried together: their arrays stay small."""
_MOST_TURNED, _MOST_PLACES = 4, 3
_TURNED_PER_CASE = 4
"""Sizes of cases, that one may have which a condition on sizes asks for."""


def turned_graphs(
    task: Task, program: Program, graphs: Sequence[Graph], config: EvaluatorConfig
) -> tuple[Graph, ...]:
    """Return graphs at sizes that turn a condition on sizes which is the same at all `graphs`.

    The condition may be a comparison, a remainder, or bits of a hash: all are evaluated at every
    size of each name up to 16384, at some beyond, and at many joint ones.
    """
    names = open_names(task, program)
    if not names:
        return ()
    own = own_sizes(task, program)
    known = [sizes_at(program, graph) for graph in graphs]
    tried = {name: _tried(name, names, own, known) for name in own}
    volume = np.prod([tried[name].astype(np.float64) for name in names], axis=0)
    order = np.argsort(volume, kind="stable")
    count, found = len(known), dict[str, Graph]()
    for flags in size_conditions(program, tried):
        if flags.size == 1 or len(found) == _MOST_TURNED:
            continue
        seen = flags[:count]
        if seen.all() == seen.any():
            turned = order[(flags != seen[0])[order]]
            graph = _smallest(task, program, tried, turned, config)
            if graph is not None:
                found[graph.fingerprint] = graph
    return tuple(found.values())


def _tried(
    name: str, names: Sequence[str], own: Sizes, known: Sequence[Sizes]
) -> NDArray[np.int64]:
    """Return a name's part of all sizes that are tried: those known, own ranges, joint ones."""
    random = np.random.default_rng(0)
    whole = np.arange(1, _EVERY_SIZE + 1)
    beyond = np.geomspace(_EVERY_SIZE, _LARGEST_TURNED, _SIZES_BEYOND).astype(np.int64)
    line = np.concatenate([whole, beyond, beyond | 1])
    parts = [np.array([sizes[name] for sizes in known], np.int64)]
    for other in names:
        small = _SMALL[names.index(name) % len(_SMALL)] if name in names else own[name]
        parts.append(line if other == name else np.full(line.size, small))
    joint = np.exp(random.uniform(0, np.log(_LARGEST_JOINT), (len(names), _JOINT_SIZES)))
    is_open = name in names
    parts.append(
        joint[names.index(name)].astype(np.int64) if is_open else np.full(_JOINT_SIZES, own[name])
    )
    return np.concatenate(parts)


def _smallest(
    task: Task,
    program: Program,
    tried: Mapping[str, NDArray[np.int64]],
    places: NDArray[np.int64],
    config: EvaluatorConfig,
) -> Graph | None:
    """Return the graph at the first of some places that is cheap enough, if there is one."""
    names = open_names(task, program)
    for place in places[:_MOST_PLACES]:
        sizes = {name: int(tried[name][place]) for name in names}
        for graph in graphs_at(task, program, [sizes]):
            is_small = extent_of(graph) <= _TURNED_PER_CASE * config.case_elements
            if is_small and graph.element_count and threads_of(program, graph) <= MOST_THREADS:
                return graph
    return None
