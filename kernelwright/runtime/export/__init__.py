"""Takes a kernel out of the store as code that needs no Kernelwright."""

from kernelwright.runtime.export.module import ExportedFile, ExportedModule, export_module
from kernelwright.runtime.export.reference_code import function_source

__all__ = ["ExportedFile", "ExportedModule", "export_module", "function_source"]
