"""The names of the formats, without what writes them."""

from typing import Literal

FormatName = Literal["module", "package", "metal", "mlxfn", "swift", "cpp", "huggingface", "patch"]
