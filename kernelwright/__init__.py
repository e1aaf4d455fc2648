"""Finds faster Metal kernels for MLX code, proves them, and hands them over."""

from typing import TYPE_CHECKING

from kernelwright.annotation import example

if TYPE_CHECKING:
    from kernelwright.runtime.optimize import explain, optimize, restore
    from kernelwright.service.export_function import export

__all__ = ["example", "explain", "export", "optimize", "restore"]


def __getattr__(name: str) -> object:
    """Import dispatch when it is first used, so that `import kernelwright` stays light."""
    if name in ("explain", "optimize", "restore"):
        from kernelwright.runtime import optimize as module

        return getattr(module, name)
    if name == "export":
        from kernelwright.service.export_function import export

        return export
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")
