"""What a caller passes to a launch besides its arrays, checked before anything runs."""

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeGuard

import numpy as np

from kernelwright.metal.device.simulator.element import SCALARS
from kernelwright.metal.device.simulator.record import ThreadgroupArgument
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.msl.signature import Entry, Parameter

Key = int | str
"""A buffer's index, or the parameter's name."""
_MOST_SEED = (1 << 64) - 1
_MOST_TIMEOUT_S = 1e6
_MOST_BYTES = (1 << 32) - 1
_MOST_SHOWN = 60


def whole_number(kernel: str, argument: str, value: object, *, least: int, most: int) -> int:
    """Return a whole number within bounds.

    Raises:
        LaunchError: it is none.
    """
    if not isinstance(value, bool | np.bool_ | np.ndarray):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
            if least <= number <= most:
                return number
        except TypeError:
            pass
    raise LaunchError(
        f"{kernel}: {argument} is expected to be a whole number of {least} to {most}, found "
        f"{shown(value)}."
    )


def order_seed_of(kernel: str, value: object) -> int:
    """Return the seed of a launch's order.

    Raises:
        LaunchError: it is none.
    """
    return whole_number(kernel, "order_seed", value, least=0, most=_MOST_SEED)


def timeout_of(kernel: str, value: object) -> float:
    """Return what a launch may take, in seconds.

    Raises:
        LaunchError: it is no number above 0, or too large.
    """
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        seconds = value if isinstance(value, int) else float(value)
        if 0 < seconds <= _MOST_TIMEOUT_S:
            return float(seconds)
    raise LaunchError(
        f"{kernel}: timeout_s is expected to be a number of seconds above 0, {_MOST_TIMEOUT_S:.0e} "
        f"at most, found {shown(value)}."
    )


def switch(kernel: str, argument: str, value: object) -> bool:
    """Return a value that is True or False.

    Raises:
        LaunchError: it is neither.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise LaunchError(
        f"{kernel}: {argument} is expected to be True or False, found {shown(value)}."
    )


def fresh_names(entry: Entry, fresh: object) -> frozenset[str]:
    """Return the names of the outputs that hold nothing yet.

    Raises:
        LaunchError: they are no collection of the kernel's outputs, each of them once.
    """
    if isinstance(fresh, tuple) and not fresh:
        return frozenset()
    if isinstance(fresh, str | bytes | Mapping) or not isinstance(fresh, Collection):
        raise LaunchError(
            f'{entry.name}: fresh is expected to be a list of buffers, such as ["y"], found '
            f"{shown(fresh)}."
        )
    names = [known_name(entry, "fresh", key, entry.buffers) for key in fresh]
    for name in names:
        if names.count(name) > 1:
            raise LaunchError(f"{entry.name}: fresh names {name} twice; name it once.")
    for p in entry.buffers:
        if p.name in names and p.is_const:
            raise LaunchError(
                f"{entry.name}: fresh is expected to name outputs, and {p.name} is an input."
            )
    return frozenset(names)


def threadgroup_arguments(entry: Entry, sizes: object) -> tuple[ThreadgroupArgument, ...]:
    """Return the kernel's threadgroup arguments with their sizes in bytes, by index or name.

    Raises:
        LaunchError: one has none, or something else has one.
    """
    given = by_name(entry, "threadgroup_bytes", sizes, entry.threadgroups)
    arguments = []
    for p in entry.threadgroups:
        if p.name not in given:
            raise LaunchError(
                f"{entry.name} needs the size in bytes of its threadgroup argument {p.name} "
                f"({p.index}); pass threadgroup_bytes."
            )
        size = whole_number(
            entry.name, f"threadgroup_bytes of {p.name}", given[p.name], least=1, most=_MOST_BYTES
        )
        itemsize = SCALARS[p.type].itemsize if p.type in SCALARS else 4
        arguments.append(ThreadgroupArgument(p.name, size, itemsize))
    return tuple(arguments)


def by_name(
    entry: Entry, argument: str, given: object, parameters: Sequence[Parameter]
) -> dict[str, object]:
    """Return what a caller gives by index or name, by name.

    Raises:
        LaunchError: it is no dictionary, names what the kernel has not, or names something twice.
    """
    if not isinstance(given, dict | Mapping):
        raise LaunchError(
            f"{entry.name}: {argument} is expected to be a dict by name or index, found "
            f"{shown(given)}."
        )
    found: dict[str, object] = {}
    for key, value in given.items():
        name = known_name(entry, argument, key, parameters)
        if name in found:
            raise LaunchError(
                f"{entry.name}: {argument} has {name} twice, by its name and by its index; keep "
                f"one."
            )
        found[name] = value
    return found


def known_name(entry: Entry, argument: str, key: object, parameters: Sequence[Parameter]) -> str:
    """Return the name of the parameter that a caller means.

    Raises:
        LaunchError: there is none.
    """
    for p in parameters:
        if _is_key(key) and key == (p.index if isinstance(key, int) else p.name):
            return p.name
    kind = "threadgroup argument" if argument == "threadgroup_bytes" else "buffer"
    named = "" if argument == "buffers" else f", which {argument} names"
    raise LaunchError(
        f"{entry.name} has no {kind} {shown(key)}{named}; its {kind}s are: "
        f"{listed(parameters) or 'none'}."
    )


def listed(parameters: Iterable[Parameter]) -> str:
    """Name parameters with their indices."""
    return ", ".join(f"{p.name} ({p.index})" for p in parameters)


def shown(value: object) -> str:
    """Show a value in an error, shortened where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _is_key(key: object) -> TypeGuard[Key]:
    return isinstance(key, int | str) and not isinstance(key, bool)
