"""Finds faster Metal kernels for MLX code, proves them, and hands them over."""

from importlib import import_module
from typing import TYPE_CHECKING

from kernelwright.annotation import example

if TYPE_CHECKING:
    from kernelwright.runtime.optimize import explain, optimize, restore
    from kernelwright.service.export_function import export
    from kernelwright.service.python.authoring.define import elementwise, kernel, rowwise
    from kernelwright.service.python.campaign import campaign
    from kernelwright.service.python.champion import best
    from kernelwright.service.python.loaded import registry
    from kernelwright.service.python.plan import plan
    from kernelwright.service.python.search import search
    from kernelwright.service.python.verify import verify

    __version__: str

__all__ = [
    "best",
    "campaign",
    "elementwise",
    "example",
    "explain",
    "export",
    "kernel",
    "optimize",
    "plan",
    "registry",
    "restore",
    "rowwise",
    "search",
    "verify",
]
_MODULES = {
    "best": "kernelwright.service.python.champion",
    "elementwise": "kernelwright.service.python.authoring.define",
    "explain": "kernelwright.runtime.optimize",
    "export": "kernelwright.service.export_function",
    "kernel": "kernelwright.service.python.authoring.define",
    "optimize": "kernelwright.runtime.optimize",
    "registry": "kernelwright.service.python.loaded",
    "restore": "kernelwright.runtime.optimize",
    "rowwise": "kernelwright.service.python.authoring.define",
    "verify": "kernelwright.service.python.verify",
}
"""Where each name comes from when it is first used, so that `import kernelwright` stays light."""
_ROOMS = ("campaign", "plan", "search")
"""Packages that are called as functions; see `callable_room`."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("kernelwright")
    if name not in __all__:
        raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")
    try:
        if name in _ROOMS:
            return import_module(f"kernelwright.{name}")
        return getattr(import_module(_MODULES[name]), name)
    except ImportError as e:
        from kernelwright.extra import missing_extra

        if (missing := missing_extra(e)) is not None:
            raise missing from e
        raise


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
