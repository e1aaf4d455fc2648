"""A function that notes what its calls take, each to the end of its work on the device."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.runtime.call import flatten
from kernelwright.runtime.derivative import have_values


@dataclass(slots=True)
class Timed:
    """Calls and seconds of a function; a call inside a trace, which computes nothing, is none."""

    run: Callable[..., object]
    calls: int = 0
    seconds: float = 0.0

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call it and wait for its results; what its arguments wait for is no part of it."""
        given = flatten((args, kwargs))
        if given is None or not have_values(given.arrays):
            return self.run(*args, **kwargs)
        mx.synchronize()
        began = time.perf_counter()
        made = self.run(*args, **kwargs)
        results = flatten(made)
        if results is not None and have_values(results.arrays):
            self.calls += 1
            self.seconds += time.perf_counter() - began
        return made
