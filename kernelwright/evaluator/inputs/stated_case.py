"""A case whose inputs somebody states, as the trigger on which a program is said to be wrong."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from kernelwright.errors import InputError
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.verify import read_graph
from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import Record

Fill = Literal["normal", "uniform", "constant", "range"]
_MOST_EDITS = 64


class Edit(Record):
    """Elements `start`, `start + step` … below `stop`, counted in memory order, become `value`."""

    start: int = Field(ge=0)
    stop: int = Field(ge=0)
    step: int = Field(default=1, ge=1)
    value: str
    """A number, `nan`, `inf` or `-inf`."""


class InputRecipe(Record):
    """How one input is filled: `value` scales what is drawn, or is the constant."""

    fill: Fill = "normal"
    value: str = "1"
    edits: tuple[Edit, ...] = Field(default=(), max_length=_MOST_EDITS)


class Recipe(Record):
    """All inputs of a task, in call order, from a seed."""

    seed: int = Field(default=0, ge=0)
    inputs: tuple[InputRecipe, ...]

    def arrays(self, graph: Graph) -> tuple[Array, ...]:
        """Make the inputs.

        Raises:
            InputError: the recipe does not fit the graph, or holds what the task may not be given.
        """
        if len(self.inputs) != len(graph.inputs):
            raise InputError(
                f"expected {len(graph.inputs)} inputs to be stated, found {len(self.inputs)}."
            )
        random = np.random.default_rng(self.seed)
        made = [
            _filled(recipe, type_, random)
            for recipe, type_ in zip(self.inputs, graph.input_types, strict=True)
        ]
        _check(made, graph)
        return tuple(made)


@dataclass(frozen=True)
class StatedCase(Case):
    """A case that is not drawn: no secret changes it."""

    recipe: Recipe | None = None

    @classmethod
    def of(cls, graph: Graph, recipe: Recipe) -> "StatedCase":
        """Return the case of a recipe.

        Raises:
            InputError: the recipe makes no inputs of the graph.
        """
        recipe.arrays(graph)
        return cls(graph, Distribution.NORMAL, recipe=recipe)

    @property
    def name(self) -> str:
        """Name the case for people."""
        text = self.recipe.model_dump_json() if self.recipe else ""
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"stated {digest} {' '.join(self.shapes)}"

    def inputs(self, secret: str) -> tuple[Array, ...]:
        """Return the stated inputs, whatever the secret."""
        assert self.recipe is not None
        return self.recipe.arrays(self.graph)


class StatedCaughtCase(CaughtCase):
    """A stated case that has caught a program; it is put to every later one of the task."""

    recipe: Recipe

    @classmethod
    def stated(cls, task: str, case: StatedCase) -> "StatedCaughtCase":
        """Keep a stated case."""
        assert case.recipe is not None
        return cls(
            task=task,
            graph=case.graph.to_json(),
            distribution=case.distribution,
            layout=Layout.DENSE,
            attempt=0,
            secret="stated",
            recipe=case.recipe,
        )

    @property
    def case(self) -> Case:
        """The case, as it was stated."""
        return StatedCase.of(read_graph(self.graph), self.recipe)


def _filled(recipe: InputRecipe, type_: TensorType, random: np.random.Generator) -> Array:
    # Infinity times 0 is NaN and what is too large becomes infinite, as in a kernel.
    with np.errstate(over="ignore", invalid="ignore"):
        return _drawn(recipe, type_, random)


def _drawn(recipe: InputRecipe, type_: TensorType, random: np.random.Generator) -> Array:
    value = _number(recipe.value, type_.dtype)
    values: Array
    if recipe.fill == "constant":
        values = np.full(type_.size, value)
    elif recipe.fill == "range":
        values = np.arange(type_.size) * value
    elif recipe.fill == "uniform":
        values = random.uniform(0, 1, type_.size) * value
    else:
        values = random.standard_normal(type_.size) * value
    for edit in recipe.edits:
        values[edit.start : edit.stop : edit.step] = _number(edit.value, type_.dtype)
    if not (type_.dtype.is_float or type_.dtype is Dtype.BOOL):
        values = _whole(values, type_.dtype)
    return values.astype(type_.dtype.numpy).reshape(type_.shape)


def _number(text: str, dtype: Dtype) -> float:
    try:
        value = float(text)
    except ValueError as e:
        raise InputError(f"expected a number, nan, inf or -inf as a value, found {text!r}.") from e
    if not (dtype.is_float or np.isfinite(value)):
        raise InputError(f"expected a finite number for {dtype.short}, found {text!r}.")
    if np.isinf(value) and "inf" not in text.lower():
        raise InputError(
            f"expected a number below 1.8e308, or inf, as a value, found {text!r}: it is larger "
            "than float64 holds."
        )
    return value


def _whole(values: Array, dtype: Dtype) -> Array:
    limits = np.iinfo(dtype.numpy)
    rounded = np.rint(values)
    if (rounded < limits.min).any() or (rounded > limits.max).any():
        raise InputError(f"the stated integers leave the range of {dtype.short}.")
    return rounded


def _check(arrays: Sequence[Array], graph: Graph) -> None:
    """Refuse what no caller may pass: an index beyond its axis, a zero to divide by.

    MLX itself would write outside of its arrays on the former.
    """
    for place, (array, domain) in enumerate(zip(arrays, domains_of(graph), strict=True)):
        is_integer = array.dtype.kind in "iu"
        limit = domain.index_limit
        is_index = is_integer and limit is not None and array.size > 0
        if is_index and (array.min() < 0 or array.max() >= max(limit or 1, 1)):
            raise InputError(f"input {place} holds indices: from 0 to below {limit}.")
        if is_integer and domain.is_divisor and not array.all():
            raise InputError(f"input {place} divides integers; it holds no zero.")
