"""Says which extra of Kernelwright brings a module that is missing."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires

from kernelwright.errors import KernelwrightError

_REQUIREMENT = re.compile(
    r"""(?P<package>[\w.-]+)(?:\[[^]]*\])?[^;]*;.*\bextra\s*==\s*['"](?P<extra>[\w-]+)['"]"""
)
_ALL = "all"


class MissingExtraError(KernelwrightError, ImportError):
    """A package is not installed that only a part of Kernelwright needs."""


def missing_extra(error: ImportError) -> MissingExtraError | None:
    """Return one sentence with the extra to install; None where the module is of none of them."""
    module = (error.name or "").partition(".")[0]
    extra = _extras().get(module)
    if isinstance(error, MissingExtraError) or extra is None:
        return None
    return MissingExtraError(
        f"expected the package {module!r}, which is not installed; add it with: "
        f"pip install 'kernelwright[{extra}]'",
        name=module,
    )


@cache
def _extras() -> dict[str, str]:
    """Return the extra that brings each module, by this installation's own metadata."""
    found: dict[str, str] = {}
    try:
        listed = requires("kernelwright") or []
    except PackageNotFoundError:
        return found
    for line in listed:
        if (match := _REQUIREMENT.match(line)) and match["extra"] != _ALL:
            found.setdefault(match["package"].replace("-", "_").lower(), match["extra"])
    return found
