"""`kernelwright.export`: the command's export for programs, notebooks and scripts."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kernelwright.annotation import original_of
from kernelwright.campaign.spec.input_value import Inputs
from kernelwright.metal.diagnostic import Record
from kernelwright.public_call import in_python, one_sentence
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
from kernelwright.service.python.made_function import values_kept
from kernelwright.service.python.origin import has_own_name, lasting_file_of, name_of, scope_of
from kernelwright.service.python.target import function_subjects, subjects
from kernelwright.service.searched_input import searched_as
from kernelwright.service.target_argument import is_function
from kernelwright.service.user_output import shown_once
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
    inputs: Inputs = (),
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
        inputs: arrays, types such as `"bf16[2048,4096]"` and plain values, as for
            `kernelwright.search`; by default those of `@kernelwright.example`, and all that the
            function was searched for.
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
        if isinstance(target, str | Path) and (_is_empty(inputs) or not is_function(str(target))):
            written = export_targets(opened, [str(target)], (), request, left_out.append)
        else:
            found = [_target(target, inputs, opened)]
            written = export_functions(opened, found, request, left_out.append)
    return ExportResult(
        written=tuple(
            e.model_copy(update={"remarks": tuple(map(in_python, e.remarks))}) for e in written
        ),
        left_out=tuple(map(in_python, left_out)),
    )


def _target(target: Function | str | Path, inputs: Inputs, store: KernelStore) -> FunctionTarget:
    if isinstance(target, str | Path):
        with shown_once(str(target).partition(":")[0]):
            typed = subjects(target, inputs)
        return target_of(typed[0].name, typed, ())
    function, wanted = target, None if _is_empty(inputs) else inputs
    found = function_subjects(function, wanted, partial(searched_as, store))
    function = original_of(function)
    name, file = name_of(function), lasting_file_of(function)
    searched = () if wanted is not None else searched_inputs(store, name)
    # Functions that others made have no place: they differ by their file, maker and values.
    kept = "" if has_own_name(function) else values_kept(function)
    identity = ":".join(filter(None, (file, scope_of(function), kept, name)))
    return target_of(name, found, searched, identity)


def _is_empty(inputs: Inputs) -> bool:
    return inputs is None or (isinstance(inputs, list | tuple | Mapping) and not inputs)
