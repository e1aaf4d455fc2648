"""`kernelwright run -- mlx_lm.generate …`: a program that nobody edits, with kernels in place."""

import runpy
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer

from kernelwright.errors import InputError
from kernelwright.service.exit_code import FAILED
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
    # As Python does, so that a program imports what stands beside it.
    sys.path.insert(0, str(Path(program).parent.resolve()) if program.endswith(".py") else "")
    _check(program)
    from kernelwright.runtime.models.loading_hook import optimize_what_is_loaded

    optimize_what_is_loaded(store, device)
    sys.argv = [program, *context.args]
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except Exception as e:
        # The program's own, as Python shows it: without the frames that started it.
        traceback.print_exception(e.with_traceback(_of_program(e.__traceback__)))
        raise typer.Exit(FAILED) from e


def _check(program: str) -> None:
    if program.endswith(".py"):
        if not Path(program).is_file():
            raise InputError(
                f"expected a Python file to run, found nothing at {program!r}; check the path."
            )
    elif not _can_run(program):
        raise InputError(
            f"expected a module that runs, as python -m does, or a file that ends in .py, found "
            f"{program!r}; check the name."
        )


def _can_run(module: str) -> bool:
    try:
        spec = find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{module}.__main__")
    except ModuleNotFoundError as e:
        if e.name is None or not module.startswith(e.name):
            raise
        return False
    except ValueError:
        return False
    return spec is not None


def _of_program(frames: TracebackType | None) -> TracebackType | None:
    starters = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in starters:
        frames = frames.tb_next
    return frames
