"""Kernels for whatever mlx-lm loads, in a program that knows nothing of them."""

import importlib.util
from collections.abc import Callable
from functools import wraps

from mlx.nn.layers.base import Module

from kernelwright.metal.device.base import DeviceName
from kernelwright.runtime.models.install import optimize_model
from kernelwright.runtime.server import KernelServer


def optimize_what_is_loaded(store: str | None = None, device: DeviceName | None = None) -> None:
    """Let `mlx_lm.utils.load_model` return models with kernels, in this process.

    Raises:
        ModuleNotFoundError: mlx-lm is not installed.
    """
    if importlib.util.find_spec("mlx_lm") is None:
        raise ModuleNotFoundError("mlx-lm is not installed.", name="mlx_lm")
    from mlx_lm import utils

    original: Callable[..., tuple[Module, object]] = utils.load_model
    server = KernelServer(store, device)

    @wraps(original)
    def load_model(*args: object, **kwargs: object) -> tuple[Module, object]:
        model, config = original(*args, **kwargs)
        return optimize_model(model, server), config

    # `load` and the others look the function up in its module when they are called.
    vars(utils)["load_model"] = load_model
