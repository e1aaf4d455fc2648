"""Ready tasks: what people run on MLX, each as reference code in a few lines."""

from kernelwright.catalog import (  # noqa: F401
    activation,
    attention,
    bits,
    convolution,
    glu,
    gradient,
    indexing,
    loss,
    moe,
    norm,
    optimizer,
    projection,
    quantization,
    reduction,
    rope,
    scan,
    softmax,
)
from kernelwright.catalog.entry import Entry, registered
from kernelwright.errors import InputError

__all__ = ["Entry", "entries", "find"]


def entries() -> tuple[Entry, ...]:
    """Return the whole catalog, group by group."""
    return registered()


def find(name: str) -> Entry:
    """Return one task by name.

    Raises:
        InputError: the catalog has no such task.
    """
    for entry in registered():
        if entry.name == name:
            return entry
    raise InputError(
        f"expected a catalog task, found {name!r}; list them with: kernelwright catalog."
    )
