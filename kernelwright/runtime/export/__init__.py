"""Takes kernels out of the store as code that needs no Kernelwright."""

from kernelwright.runtime.export.catalog import FORMATS, FormatName, export_as
from kernelwright.runtime.export.format import ExportedFile, ExportedModule
from kernelwright.runtime.export.module import export_module
from kernelwright.runtime.export.reference_code import function_source
from kernelwright.runtime.export.selection import fits_metal

__all__ = [
    "FORMATS",
    "ExportedFile",
    "ExportedModule",
    "FormatName",
    "export_as",
    "export_module",
    "fits_metal",
    "function_source",
]
