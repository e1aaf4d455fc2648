"""Takes kernels out of the store as code that needs no Kernelwright."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.runtime.export.catalog import FORMATS, export_as, export_into
    from kernelwright.runtime.export.folder import ExportFolder
    from kernelwright.runtime.export.format import ExportedFile, ExportedModule
    from kernelwright.runtime.export.format_name import FormatName, KernelFormatName
    from kernelwright.runtime.export.function.alone import ExampleCall
    from kernelwright.runtime.export.function.export import export_target, function_kernels
    from kernelwright.runtime.export.function.function_export import export_obstacle
    from kernelwright.runtime.export.module import export_module
    from kernelwright.runtime.export.reference_code import function_source
    from kernelwright.runtime.export.selection import fits_metal, require_gain
else:
    offer_lazily(__name__)


__all__ = [
    "FORMATS",
    "ExampleCall",
    "ExportFolder",
    "ExportedFile",
    "ExportedModule",
    "FormatName",
    "KernelFormatName",
    "export_as",
    "export_into",
    "export_module",
    "export_obstacle",
    "export_target",
    "fits_metal",
    "function_kernels",
    "function_source",
    "require_gain",
]
