"""Says how to install a package that is missing, by the extra of Kernelwright that brings it."""

import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from kernelwright.errors import KernelwrightError

_REQUIREMENT = re.compile(
    r"""(?P<package>[\w.-]+)[^;]*(?:;.*\bextra\s*==\s*['"](?P<extra>[\w-]+)['"])?"""
)
_ALL = "all"
UPGRADE = "pip install --upgrade kernelwright"
"""Brings what every installation has."""
_OURS = Path(__file__).parent


class MissingExtraError(KernelwrightError, ImportError):
    """A package is not installed that Kernelwright, or only a part of it, needs."""


def missing_extra(error: ImportError) -> MissingExtraError | None:
    """Return one sentence with what to install; None for a module that Kernelwright never needs."""
    module = (error.name or "").partition(".")[0]
    if isinstance(error, MissingExtraError) or not module:
        return None
    if module not in _installs() and not _is_imported_by_us(error, module):
        return None
    return MissingExtraError(
        f"expected the package {module!r}, which is not installed; add it with: "
        f"{install_command(module)}",
        name=module,
    )


def install_command(module: str) -> str:
    """Return what installs a package that Kernelwright uses, by the extra that brings it."""
    wanted = _installs().get(module)
    # An installation that was upgraded by half does not list its newer requirements.
    return f"pip install '{wanted}'" if wanted else UPGRADE


def need_extra(extra: str) -> None:
    """Say what is missing of an extra before anything begins that would fail for it later.

    Raises:
        MissingExtraError: one of its packages is not installed.
    """
    for module, wanted in _installs().items():
        if wanted == f"kernelwright[{extra}]" and not _is_there(module):
            found = missing_extra(ModuleNotFoundError(name=module))
            assert found is not None
            raise found


def missing_modules() -> tuple[str, ...]:
    """Return the modules that every installation has and that are not installed here."""
    return tuple(sorted(m for m, by in _installs().items() if by is None and not _is_there(m)))


def missing_by_extra() -> dict[str, tuple[str, ...]]:
    """Return each extra with those of its modules that are not installed here."""
    found: dict[str, tuple[str, ...]] = {}
    for module, wanted in sorted(_installs().items()):
        if wanted is not None:
            lacking = () if _is_there(module) else (module,)
            extra = wanted.partition("[")[2].removesuffix("]")
            found[extra] = found.get(extra, ()) + lacking
    return found


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
    except ValueError:
        # What is imported as None, or has no specification.
        return sys.modules.get(module) is not None


def _is_imported_by_us(error: ImportError, module: str) -> bool:
    """Say whether the failing import stands in Kernelwright, and in no library or user's file."""
    if not isinstance(error, ModuleNotFoundError) or module == _OURS.name:
        return False
    importer, at = "", error.__traceback__
    while isinstance(at, TracebackType):
        file = at.tb_frame.f_code.co_filename
        importer = importer if file.startswith("<frozen") else file
        at = at.tb_next
    return Path(importer).is_relative_to(_OURS)


@cache
def _installs() -> dict[str, str | None]:
    """Return what brings each module, by this installation's own metadata; None is Kernelwright."""
    # Slow to import, and needed where something is missing.
    from importlib.metadata import PackageNotFoundError, requires

    found: dict[str, str | None] = {}
    try:
        listed = requires("kernelwright") or []
    except PackageNotFoundError:
        return found
    for line in listed:
        if (match := _REQUIREMENT.match(line)) and match["extra"] != _ALL:
            wanted = f"kernelwright[{match['extra']}]" if match["extra"] else None
            found.setdefault(match["package"].replace("-", "_").lower(), wanted)
    return found
