"""`kernelwright.export`: the command's export for programs, notebooks and scripts."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.annotation import Example, examples_of, original_of
from kernelwright.campaign.spec.input_text import read_inputs
from kernelwright.campaign.spec.search_target import subject_of
from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.public_call import one_sentence
from kernelwright.runtime.export import FormatName
from kernelwright.service.export_source import (
    FunctionTarget,
    searched_inputs,
    target_of,
)
from kernelwright.service.exporting import (
    Exported,
    ExportRequest,
    export_functions,
    export_targets,
)
from kernelwright.service.python.origin import lasting_file_of, name_of, parameters_of
from kernelwright.service.searched_input import searched_as
from kernelwright.store import KernelStore

Function = Callable[..., object]


class ExportResult(Record):
    """What `kernelwright.export` wrote."""

    written: tuple[Exported, ...]
    """One for each function, with its name and the paths of its files."""
    left_out: tuple[str, ...] = ()
    """A sentence for each function of a file that could not be exported."""

    @property
    def is_verified(self) -> bool:
        """Say whether every kernel is verified and every comparison came out equal."""
        return all(exported.is_verified for exported in self.written)


@one_sentence
def export(
    target: Function | str | Path,
    directory: str | Path,
    *,
    inputs: Sequence[str] = (),
    name: str | None = None,
    format_name: FormatName = "module",
    store: str | Path | None = None,
    force: bool = False,
    slower: bool = False,
) -> ExportResult:
    """Write a function with its kernels as code that needs no Kernelwright.

    The result is proven equal to the original before anything is written; nothing that
    Kernelwright did not write is overwritten. Rules and files are those of `kernelwright export`.

    Args:
        target: a function, a method or an object that is called, such as `model.forward`; or, as
            on the command line, `"FILE.py:function"`, `"FILE.py"` for all functions of it, or a
            candidate's id.
        directory: where to write; it is made where it is missing.
        inputs: shapes and dtypes, such as `["bf16[2048,4096]", "n=3"]`; by default those of
            `@kernelwright.example`, and all that the function was searched for.
        name: of the module and the function in it; the function's own by default.
        format_name: `module`, `package`, `huggingface` or `patch` (functions alone) for the
            whole function; `metal`, `mlxfn`, `swift` or `cpp` for its kernels.
        store: a path or SQLAlchemy URL; the default store otherwise.
        slower: take kernels by id that MLX is faster than.
        force: take what is not verified, not faster than MLX or not equal, and overwrite files.

    Raises:
        InputError: there is no such target, no kernel serves it, or a result differs.
        UnsupportedError: the function cannot stand in a module of its own; the reason names it.
        StoreError: there is no such store.
    """
    request = ExportRequest(
        folder=Path(directory), name=name, format_name=format_name, force=force, slower=slower
    )
    left_out: list[str] = []
    with KernelStore(None if store is None else str(store), must_exist=True) as opened:
        if isinstance(target, str | Path):
            written = export_targets(opened, [str(target)], inputs, request, left_out.append)
        else:
            found = [_target(target, inputs, opened)]
            written = export_functions(opened, found, request, left_out.append)
    return ExportResult(written=tuple(written), left_out=tuple(left_out))


def _target(function: Function, inputs: Sequence[str], store: KernelStore) -> FunctionTarget:
    if not callable(function) or isinstance(function, type):
        found = f"the class {function.__name__}" if isinstance(function, type) else repr(function)
        raise InputError(
            f"expected a function, a method or an object that is called, found {found}; "
            "for a file, give its path as text."
        )
    function = original_of(function)
    name, file = name_of(function), lasting_file_of(function)
    examples = list(examples_of(function) or examples_of(type(function).__call__))
    searched = () if inputs else searched_inputs(store, name)
    if inputs:
        examples = read_inputs(inputs, parameters_of(function))
    elif not examples:
        origin = subject_of(name, function, file, Example(())).origin
        parameters = parameters_of(function)
        typed = searched_as(store, origin)
        examples = [call for texts in typed for call in read_inputs(texts, parameters)]
    if not examples:
        raise InputError(
            f"expected inputs for {name}, found none: it has no @kernelwright.example and was "
            "never searched under this name; add inputs=['f16[8,512]', …]."
        )
    subjects = [subject_of(name, function, file, example) for example in examples]
    return target_of(name, subjects, searched)
