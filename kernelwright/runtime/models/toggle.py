"""A model with and without its kernels, in turns, without forgetting what was learned."""

from collections.abc import Iterator
from contextlib import contextmanager

from mlx.nn.layers.base import Module

from kernelwright.runtime.models.heir import set_class
from kernelwright.runtime.models.site import site_of, uninstall
from kernelwright.runtime.models.tree import SITE, all_modules


@contextmanager
def without_kernels(model: Module) -> Iterator[None]:
    """Let the model run its own code inside; afterwards everything is as it was."""
    before = [(module, type(module), site_of(module)) for _, module in all_modules(model)]
    for module, _, _ in before:
        uninstall(module)
    try:
        yield
    finally:
        for module, kind, site in before:
            if site is not None:
                vars(module)[SITE] = site
            set_class(module, kind)
