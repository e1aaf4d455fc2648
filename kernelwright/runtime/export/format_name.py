"""The names of the formats, without what writes them."""

from typing import Literal

KernelFormatName = Literal["module", "package", "metal", "mlxfn", "swift", "cpp", "huggingface"]
"""Those that take kernels by id."""
FormatName = Literal[KernelFormatName, "patch"]
"""A patch is of a function's file."""
