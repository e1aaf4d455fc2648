"""A kernel as a module whose only import is MLX, with its tests and its proof."""

from collections.abc import Sequence

from kernelwright.runtime.export.format import ExportedFile, ExportedModule
from kernelwright.runtime.export.selection import Selection, select
from kernelwright.runtime.export.test_code import test_source
from kernelwright.runtime.export.verification import verification_text
from kernelwright.runtime.export.wrapper_code import module_source
from kernelwright.store import CandidateDetail


class ModuleFormat:
    """A Python module, a pytest file and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Print the three files."""
        (chosen,) = selections
        name, detail = chosen.name, chosen.detail
        text = module_source(detail, name, is_verified=chosen.is_verified)
        return (
            ExportedFile(name=f"{name}.py", text=text),
            ExportedFile(name=f"test_{name}.py", text=test_source(detail, name)),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen)),
        )

    def use(self, name: str) -> str:
        """Return an import."""
        return f"from {name} import {name}"


def export_module(
    detail: CandidateDetail, *, name: str | None = None, force: bool = False
) -> ExportedModule:
    """Turn a candidate into a module, a pytest file and VERIFICATION.md.

    Args:
        detail: the candidate as the store knows it.
        name: of the function and the module; the task's name by default.
        force: export even what no evaluation found correct; the files then say so.

    Raises:
        InputError: the candidate is not verified, or the name is no identifier.
        UnsupportedError: the fallback cannot be printed, because of an op that it names.
    """
    chosen = select(detail, name=name, force=force)
    return ExportedModule(
        name=chosen.name, is_verified=chosen.is_verified, files=ModuleFormat().files([chosen])
    )
