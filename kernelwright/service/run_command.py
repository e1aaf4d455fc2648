"""`kernelwright run -- mlx_lm.generate …`: a program that nobody edits, with kernels in place."""

import runpy
import sys
from typing import Annotated

import typer

from kernelwright.errors import InputError
from kernelwright.runtime.models.loading_hook import optimize_what_is_loaded
from kernelwright.service.option import DeviceOption, StoreOption


def run(
    context: typer.Context,
    program: Annotated[
        str,
        typer.Argument(metavar="MODULE|FILE.py", help="What to run, such as mlx_lm.generate."),
    ],
    device: DeviceOption = None,
    store: StoreOption = None,
) -> None:
    """Run a Python program; every model that mlx-lm loads in it gets the store's kernels."""
    optimize_what_is_loaded(store, device)
    sys.argv = [program, *context.args]
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except ImportError as e:
        if e.name is None or not program.startswith(e.name):
            raise
        raise InputError(f"expected a module or a file to run, found {program!r}: {e}.") from e
