"""What the hand-written kernels compute: plain MLX functions of arrays."""

from collections.abc import Callable
from inspect import getmembers, isfunction

import mlx.core as mx

from kernelwright.evaluator.attacks.honest import integer, movement, reduction, transformer
from kernelwright.evaluator.attacks.reference import FUNCTIONS

Function = Callable[..., mx.array | tuple[mx.array, ...]]

TASKS: dict[str, Function] = {**FUNCTIONS}
for _module in (integer, movement, reduction, transformer):
    TASKS.update(getmembers(_module, isfunction))
