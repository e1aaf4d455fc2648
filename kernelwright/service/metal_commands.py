"""`kernelwright metal`: compile, run, sanitize and profile a Metal file without a GPU."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelwright.errors import InputError
from kernelwright.metal.device.base import Counters, FastError
from kernelwright.metal.diagnostic import (
    CompileError,
    Diagnostic,
    Record,
    SanitizerReport,
)
from kernelwright.metal.msl.language import DEFAULT, LanguageVersion, language_of
from kernelwright.metal.perf import Prediction, find_profile, predict
from kernelwright.service.console import console, error_console
from kernelwright.service.option import JsonOption, print_json, read_chips

if TYPE_CHECKING:
    from kernelwright.metal import simulator
    from kernelwright.metal.device.simulator.record import Outcome
    from kernelwright.service.metal_launch import TypedLaunch

FileArgument = Annotated[Path, typer.Argument(help="A Metal file.", show_default=False)]
KernelOption = Annotated[
    str | None, typer.Option("--kernel", "-k", help="Which one, if the file has several.")
]
GridOption = Annotated[
    str, typer.Option("--grid", "-g", help="Threads, such as 4096 or 32,64.", show_default=False)
]
ThreadgroupOption = Annotated[
    str | None,
    typer.Option("--threadgroup", "-t", help="Threads of a threadgroup.", show_default="256"),
]
BufferOption = Annotated[
    list[str] | None,
    typer.Option(
        "--buffer",
        "-b",
        help="NAME=x.npy, NAME=f32[1024] (random for inputs, fresh for outputs), "
        "NAME=zeros:f32[1024] or NAME=3; the index works as a name.",
    ),
]
MemoryOption = Annotated[
    list[str] | None,
    typer.Option("--threadgroup-bytes", help="NAME=BYTES of a [[threadgroup(n)]] argument."),
]
ConstantOption = Annotated[
    list[str] | None, typer.Option("--constant", help="NAME=VALUE of a function constant.")
]
IncludeOption = Annotated[
    list[Path] | None,
    typer.Option("--include", "-I", help="Where #include looks.", exists=True, file_okay=False),
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", help="Seeds random inputs and the order.", min=0, max=(1 << 64) - 1),
]
TimeoutOption = Annotated[float, typer.Option("--timeout", help="Seconds before giving up.")]


class Checked(Record):
    """The result of `check`."""

    file: str
    compiles: bool
    kernels: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class WrittenArray(Record):
    """One array that a kernel may have written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    least: float
    most: float


class Ran(Record):
    """The result of `run`, `sanitize` and `profile`."""

    kernel: str
    elapsed_s: float
    arrays: tuple[WrittenArray, ...] = ()
    reports: tuple[SanitizerReport, ...] = ()
    counters: Counters | None = None
    predictions: tuple[Prediction, ...] = ()


def check(
    file: FileArgument,
    include: IncludeOption = None,
    macos: Annotated[
        int | None,
        typer.Option("--macos", help="Whose version of the language, such as 15.", min=14),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compile a file and print what Apple's compiler would say; exit 1 if it refuses it."""
    from kernelwright.service.view.metal import print_diagnostics

    try:
        language = DEFAULT if macos is None else language_of(macos)
        library = _compile(file, include, language)
    except CompileError as e:
        if json:
            print_json(Checked(file=str(file), compiles=False, diagnostics=e.diagnostics))
        else:
            print_diagnostics(error_console(), e.diagnostics, str(file))
        raise typer.Exit(1) from e
    if json:
        found = Checked(
            file=str(file),
            compiles=True,
            kernels=library.kernels,
            diagnostics=library.warnings,
        )
        print_json(found)
        return
    print_diagnostics(error_console(), library.warnings, str(file))
    names = ", ".join(library.kernels) or "no kernel"
    console().print(Text.assemble(("compiles", "good"), f"  {names}"))


def run(
    file: FileArgument,
    grid: GridOption,
    kernel: KernelOption = None,
    threadgroup: ThreadgroupOption = None,
    buffer: BufferOption = None,
    threadgroup_bytes: MemoryOption = None,
    constant: ConstantOption = None,
    include: IncludeOption = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FOLDER", help="A folder for what the kernel wrote, as .npy."
        ),
    ] = None,
    seed: SeedOption = 0,
    timeout: TimeoutOption = 30.0,
    worst_fast_math: Annotated[
        bool,
        typer.Option("--worst-fast-math", help="Move results of fast:: by all that Apple allows."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run a kernel and show the arrays that it wrote."""
    from kernelwright.service.metal_launch import save_arrays
    from kernelwright.service.view.metal import print_arrays

    typed = _typed(
        file,
        include,
        kernel,
        grid,
        threadgroup,
        buffer,
        threadgroup_bytes,
        constant,
        seed,
        "worst" if worst_fast_math else "usual",
    )
    outcome = _launch(typed, seed=seed, timeout_s=timeout)
    if save is not None:
        save_arrays(save, typed.written)
    if json:
        print_json(_ran(typed, outcome))
        return
    print_arrays(console(), typed.written)


def sanitize(
    file: FileArgument,
    grid: GridOption,
    kernel: KernelOption = None,
    threadgroup: ThreadgroupOption = None,
    buffer: BufferOption = None,
    threadgroup_bytes: MemoryOption = None,
    constant: ConstantOption = None,
    include: IncludeOption = None,
    seed: SeedOption = 0,
    timeout: TimeoutOption = 30.0,
    json: JsonOption = False,
) -> None:
    """Run a kernel and report what a GPU hides: bounds, races, divergence; exit 1 if anything."""
    from kernelwright.service.view.metal import print_reports

    typed = _typed(
        file, include, kernel, grid, threadgroup, buffer, threadgroup_bytes, constant, seed
    )
    outcome = _launch(typed, seed=seed, timeout_s=timeout, sanitize=True)
    if json:
        print_json(_ran(typed, outcome))
    else:
        print_reports(console(), outcome.reports, str(file), file.read_text().split("\n"))
    if outcome.reports:
        raise typer.Exit(1)


def profile(
    file: FileArgument,
    grid: GridOption,
    kernel: KernelOption = None,
    threadgroup: ThreadgroupOption = None,
    buffer: BufferOption = None,
    threadgroup_bytes: MemoryOption = None,
    constant: ConstantOption = None,
    include: IncludeOption = None,
    chip: Annotated[
        list[str] | None,
        typer.Option(
            "--chip",
            callback=read_chips,
            help="Chips to predict for.",
            show_default="m1, m4-max",
        ),
    ] = None,
    seed: SeedOption = 0,
    timeout: TimeoutOption = 60.0,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Count every threadgroup, not a sample of more than 512."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Say how the simulator runs large launches of it.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Count what a launch costs and predict its time on a chip."""
    from kernelwright.service.view.metal import print_counters, print_predictions

    profiles = [find_profile(name) for name in chip or ("m1", "m4-max")]
    typed = _typed(
        file, include, kernel, grid, threadgroup, buffer, threadgroup_bytes, constant, seed
    )
    outcome = _launch(typed, seed=seed, timeout_s=timeout, count=True, count_all=exact)
    if outcome.counters is None:
        raise InputError("the launch was not counted; run it on one core of work at least.")
    predictions = tuple(predict(outcome.counters, p) for p in profiles)
    if json:
        print_json(_ran(typed, outcome, predictions))
        return
    print_counters(console(), outcome.counters)
    print_predictions(console(), predictions)
    if verbose:
        console().print(typed.kernel.form, style="quiet", highlight=False, soft_wrap=True)


def _compile(
    file: Path,
    include: list[Path] | None,
    language: LanguageVersion = DEFAULT,
    fast_error: FastError = "usual",
) -> "simulator.Library":
    from kernelwright.metal import simulator

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{file} cannot be read as text: {e}.") from e
    folders = (file.parent, *(include or ()))
    return simulator.compile(text, folders=folders, language=language, fast_error=fast_error)


def _typed(
    file: Path,
    include: list[Path] | None,
    kernel: str | None,
    grid: str,
    threadgroup: str | None,
    buffers: list[str] | None,
    threadgroup_bytes: list[str] | None,
    constants: list[str] | None,
    seed: int,
    fast_error: FastError = "usual",
) -> "TypedLaunch":
    from kernelwright.service.metal_launch import parse_launch
    from kernelwright.service.view.metal import print_diagnostics

    try:
        library = _compile(file, include, fast_error=fast_error)
    except CompileError as e:
        print_diagnostics(error_console(), e.diagnostics, str(file))
        raise typer.Exit(1) from e
    return parse_launch(
        library,
        name=kernel,
        grid=grid,
        threadgroup=threadgroup,
        buffers=buffers or [],
        threadgroup_bytes=threadgroup_bytes or [],
        constants=constants or [],
        seed=seed,
    )


def _launch(
    typed: "TypedLaunch",
    *,
    seed: int,
    timeout_s: float,
    sanitize: bool = False,
    count: bool = False,
    count_all: bool = False,
) -> "Outcome":
    return typed.kernel.launch(
        typed.buffers,
        grid=typed.grid,
        threadgroup=typed.threadgroup,
        threadgroup_bytes=typed.threadgroup_bytes,
        fresh=typed.fresh,
        sanitize=sanitize,
        count=count,
        count_all=count_all,
        order_seed=seed,
        timeout_s=timeout_s,
    )


def _ran(typed: "TypedLaunch", outcome: "Outcome", predictions: tuple[Prediction, ...] = ()) -> Ran:
    import numpy as np

    arrays = []
    for name, array in typed.written.items():
        numbers = array.reshape(-1).astype(np.float64)
        least, most = (numbers.min(), numbers.max()) if numbers.size else (np.nan, np.nan)
        arrays.append(
            WrittenArray(
                name=name,
                dtype=str(array.dtype),
                shape=array.shape,
                least=float(least),
                most=float(most),
            )
        )
    return Ran(
        kernel=typed.kernel.name,
        elapsed_s=outcome.elapsed_s,
        arrays=tuple(arrays),
        reports=outcome.reports,
        counters=outcome.counters,
        predictions=predictions,
    )
