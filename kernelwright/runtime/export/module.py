"""A kernel as a module whose only import is MLX, with its tests and its proof."""

import re
from pathlib import Path

from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export.test_code import test_source
from kernelwright.runtime.export.verification import verification_text
from kernelwright.runtime.export.wrapper_code import module_source
from kernelwright.store import CandidateDetail


class ExportedFile(Record):
    """One file of an export."""

    name: str
    text: str


class ExportedModule(Record):
    """What an export consists of, before anything is written."""

    name: str
    files: tuple[ExportedFile, ...]
    is_verified: bool

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the files; return their paths.

        Raises:
            InputError: the folder cannot be written to.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            paths = []
            for file in self.files:
                path = folder / file.name
                path.write_text(file.text)
                paths.append(path)
        except OSError as e:
            raise InputError(
                f"expected a folder to write to, found {str(folder)!r} ({e.strerror}); "
                "choose another with -o."
            ) from e
        return tuple(paths)


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
    function = name or _identifier(detail.candidate.task.name)
    if not function.isidentifier():
        raise InputError(f"expected a Python identifier as the name, found {function!r}.")
    evaluation = verdict_of(detail)
    is_verified = evaluation is not None and evaluation.is_correct
    if not is_verified and not force:
        found = evaluation.status.value if evaluation else "not evaluated"
        raise InputError(
            f"expected a verified kernel, found one that is {found}; export a champion "
            "(`kernelwright best`), or add --force and check it yourself."
        )
    return ExportedModule(
        name=function,
        is_verified=is_verified,
        files=(
            ExportedFile(
                name=f"{function}.py",
                text=module_source(detail, function, is_verified=is_verified),
            ),
            ExportedFile(name=f"test_{function}.py", text=test_source(detail, function)),
            ExportedFile(
                name="VERIFICATION.md", text=verification_text(detail, function, evaluation)
            ),
        ),
    )


def verdict_of(detail: CandidateDetail) -> Evaluation | None:
    """Return the newest verdict."""
    return detail.evaluations[0].evaluation if detail.evaluations else None


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_").lower() or "kernel"
    return f"kernel_{name}" if name[0].isdigit() else name
