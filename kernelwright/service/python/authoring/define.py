"""`kernelwright.elementwise`, `rowwise` and `kernel`: functions from a line or a few."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar, overload

import mlx.core as mx

from kernelwright.campaign.spec.input_value import Inputs
from kernelwright.public_call import one_sentence
from kernelwright.service.python.authoring.authored import (
    AuthoredFunction,
    authored,
    checked_name,
    checked_names,
)
from kernelwright.service.python.authoring.body import meaning_of
from kernelwright.service.python.authoring.meaning import elementwise_meaning, rowwise_meaning
from kernelwright.service.python.request import DeviceChoice

P = ParamSpec("P")
R = TypeVar("R")


@one_sentence
def elementwise(
    expression: str,
    *,
    names: Sequence[str] | None = None,
    name: str = "elementwise",
    inputs: Inputs | None = None,
    device: DeviceChoice = "auto",
    store: str | Path | None = None,
) -> AuthoredFunction[mx.array]:
    """Make a function of a line such as `"x * sigmoid(y)"`, computed element by element.

    The line means what Python and MLX compute: numbers, names, `+ - * / % **`, comparisons, `and`,
    `or`, `not`, `a if c else b`, and functions such as `exp` and `sigmoid`. `c ? a : b`, `&&`,
    `||`, `!` and `1.0f` are taken too, and a function behind `metal::` means Metal's. Arrays and
    numbers broadcast and promote as in MLX. The first call at
    some shapes and dtypes has a kernel written and verified where the machine has a GPU; calls at
    others run MLX, until `prepare` or `kernelwright.search` found kernels for them.

    Args:
        expression: the line; it is parsed and never executed.
        names: the parameters in order; by default the line's names as they first appear.
        name: what errors, the store and exports call the function.
        inputs: verify a kernel for these now: arrays or types such as `["f16[8,512]"]`.
        device: where kernels run: `auto` is this machine's GPU, and MLX where there is none.
        store: a path or SQLAlchemy URL; the default store otherwise.

    Raises:
        InputError: it is no expression; the sentence names the column.
        DeviceError: this machine has no such device.
    """
    meaning = elementwise_meaning(expression, checked_name(name), checked_names(names))
    return authored(meaning, inputs=inputs, device=device, store=store)


@one_sentence
def rowwise(
    *,
    map: str | Mapping[str, str],  # noqa: A002
    reduce: str | Mapping[str, str],
    finish: str | None = None,
    names: Sequence[str] | None = None,
    name: str = "rowwise",
    inputs: Inputs | None = None,
    device: DeviceChoice = "auto",
    store: str | Path | None = None,
) -> AuthoredFunction[mx.array]:
    """Make a function of rows, the last axis: map each element, reduce a row, finish each element.

    `rowwise(map="x * x", reduce="mean", finish="x * rsqrt(reduced + 1e-6) * w")` is RMS norm. With
    names, reductions follow one another: `map={"m": "x", "s": "exp(x - m)"}`, `reduce={"m":
    "max", "s": "sum"}`, `finish="exp(x - m) / s"` is softmax. See `elementwise` for the lines.

    Args:
        map: what is reduced: a line, or a line for each name.
        reduce: `sum`, `mean`, `max`, `min` or `prod`, or one for each name.
        finish: the result's line; it may read `reduced`, or the names, and `n`, the length of a
            row. Without it the reductions themselves are returned, without the last axis, as a
            tuple where there are several.
        names: the parameters in order; by default the lines' names as they first appear.
        name: what errors, the store and exports call the function.
        inputs: verify a kernel for these now: arrays or types such as `["f16[8,512]"]`.
        device: where kernels run: `auto` is this machine's GPU, and MLX where there is none.
        store: a path or SQLAlchemy URL; the default store otherwise.

    Raises:
        InputError: a line is no expression, or names do not match.
        DeviceError: this machine has no such device.
    """
    meaning = rowwise_meaning(map, reduce, finish, checked_name(name), checked_names(names))
    return authored(meaning, inputs=inputs, device=device, store=store)


@overload
def kernel(function: Callable[P, R]) -> AuthoredFunction[R]: ...


@overload
def kernel(
    *,
    inputs: Inputs | None = None,
    device: DeviceChoice = "auto",
    store: str | Path | None = None,
) -> Callable[[Callable[P, R]], AuthoredFunction[R]]: ...


def kernel(
    function: Callable[P, R] | None = None,
    *,
    inputs: Inputs | None = None,
    device: DeviceChoice = "auto",
    store: str | Path | None = None,
) -> AuthoredFunction[R] | Callable[[Callable[P, R]], AuthoredFunction[R]]:
    """Make a kernel of a Python function whose body is assignments and a return.

    Use it as `@kernelwright.kernel` or `@kernelwright.kernel(device=…)`. The body is read, not
    run: lines as in `elementwise`, and `sum(x)`, `mean(x)`, `max(x)`, `min(x)`, `prod(x)` of one
    argument over a row, the last axis, which stays with size 1. Parameters with a number as
    default, and numbers around the function, are constants.

    Args:
        function: made by `def` in a file or a notebook.
        inputs: verify a kernel for these now: arrays or types such as `["f16[8,512]"]`.
        device: where kernels run: `auto` is this machine's GPU, and MLX where there is none.
        store: a path or SQLAlchemy URL; the default store otherwise.

    Raises:
        InputError: the source is not there, or a line is no expression; the sentence names it.
        DeviceError: this machine has no such device.
    """

    def decorate(given: Callable[P, R]) -> AuthoredFunction[R]:
        meaning = meaning_of(given, getattr(given, "__name__", "kernel"))
        return authored(meaning, inputs=inputs, device=device, store=store)

    return decorate if function is None else decorate(function)
