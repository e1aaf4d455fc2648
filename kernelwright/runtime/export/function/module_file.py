"""Writes an exported module into files, and imports it from them."""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType

import mlx.core as mx

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.module_code import FunctionModule
from kernelwright.scratch import ScratchFolder


def files_of(module: FunctionModule) -> tuple[ExportedFile, ...]:
    """Print a module and its data."""
    text = module.text()
    files = [ExportedFile(name=f"{module.name}.py", text=text)]
    if module.data:
        # The text comes first: printing it collects the data, and asks whether there is some.
        files = [ExportedFile(name=f"{module.name}.py", text=module.text())]
        with ScratchFolder() as folder:
            path = folder / "data.safetensors"
            mx.save_safetensors(str(path), module.data)
            files.append(ExportedFile(name=f"{module.name}.safetensors", data=path.read_bytes()))
    return tuple(files)


@contextmanager
def imported(
    files: Sequence[ExportedFile], name: str, around: AbstractContextManager[None] | None = None
) -> Iterator[ModuleType]:
    """Import an exported module from a folder of its own, within `around`."""
    with ScratchFolder() as folder:
        for file in files:
            path = folder / file.name
            if file.data is None:
                path.write_text(file.text, encoding="utf-8")
            else:
                path.write_bytes(file.data)
        spec = importlib.util.spec_from_file_location(
            f"kernelwright_export_{name}", folder / f"{name}.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # A dataclass looks its annotations up in the modules that are imported.
        sys.modules[spec.name] = module
        try:
            with around or nullcontext():
                spec.loader.exec_module(module)
        except Exception as e:
            raise UnsupportedError(
                f"{name} does not work in a module of its own: {type(e).__name__}: {e}."
            ) from e
        else:
            yield module
        finally:
            if sys.modules.get(spec.name) is module:
                del sys.modules[spec.name]
