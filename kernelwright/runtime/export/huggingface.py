"""A repository for Hugging Face's `kernels` library: a noarch build, its metadata and a card.

The layout is that of https://huggingface.co/docs/kernels/kernel-requirements: one variant,
`torch-universal`, since Python and Metal text run wherever MLX does, PyTorch or not.
"""

import hashlib
import json
from collections.abc import Sequence

from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.package import PackageFormat
from kernelwright.runtime.export.selection import Selection

VARIANT = "build/torch-universal"
"""Where the one build stands."""

_CARD = """\
---
library_name: kernels
license: other
license_name: see-license-file
license_link: LICENSE
tags:
- kernels
- mlx
- metal
---

# {title}

`{name}` with Metal kernels for [MLX](https://github.com/ml-explore/mlx), found and verified by
Kernelwright; [VERIFICATION.md](VERIFICATION.md) says what was checked, and on what. Other shapes,
dtypes and machines run plain MLX. It needs `pip install kernels {needed}`.

```python
from pathlib import Path

from kernels import get_local_kernel

{public} = get_local_kernel(Path("FOLDER")).{public}
```

Once it is on the Hub as a repository of the type `kernel`:

```python
from kernels import get_kernel

{public} = get_kernel("OWNER/{slug}", version=1, trust_remote_code=["OWNER/{slug}"]).{public}
```
"""

_CONFTEST = '''\
"""Lets the tests import the build under the name of its function."""

import importlib.util
import sys
from pathlib import Path

_BUILD = Path(__file__).parents[1] / "{variant}" / "__init__.py"
_SPEC = importlib.util.spec_from_file_location("{name}", _BUILD)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)
'''


class HuggingFaceFormat:
    """The package's files as a `kernels` repository."""

    takes_several = True

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Lay the package of the kernels out."""
        name = selections[0].name
        return repository_files(name, PackageFormat().files(selections))

    def use(self, name: str) -> str:
        """Return the call that loads it."""
        return loading_line(name)


def loading_line(name: str) -> str:
    """Return the line that loads an exported function."""
    return f'{name} = kernels.get_local_kernel(Path("FOLDER")).{name}'


def repository_files(
    name: str, package: Sequence[ExportedFile], *, public: str = "", needs_numpy: bool = False
) -> tuple[ExportedFile, ...]:
    """Lay the files of a package out as a repository of the type `kernel`.

    Args:
        name: the package's.
        package: its files.
        public: what users import from it, where that is called otherwise.
        needs_numpy: it imports NumPy besides MLX.
    """
    built = [
        f.model_copy(update={"name": f"{VARIANT}/{f.name.removeprefix(f'{name}/')}"})
        for f in package
        if f.name.startswith(f"{name}/")
    ]
    beside = [f for f in package if not f.name.startswith((f"{name}/", "pyproject.toml"))]
    slug = name.strip("_").replace("_", "-").lower()
    card = _CARD.format(
        name=name,
        title=slug,
        slug=slug,
        public=public or name,
        needed='"mlx>=0.32.4,<0.33"' + (" numpy" if needs_numpy else ""),
    )
    has_tests = any(f.name.startswith("tests/") for f in beside)
    conftest = ExportedFile(
        name="tests/conftest.py", text=_CONFTEST.format(variant=VARIANT, name=name)
    )
    return (
        ExportedFile(name="README.md", text=card),
        ExportedFile(name=f"{VARIANT}/metadata.json", text=_metadata(name, slug, built)),
        *built,
        *([conftest] if has_tests else []),
        *beside,
    )


def _metadata(name: str, slug: str, built: Sequence[ExportedFile]) -> str:
    """Return the metadata; the id, which is the module's name in a process, tells builds apart."""
    digest = hashlib.sha256()
    for file in sorted(built, key=lambda f: f.name):
        digest.update(file.name.encode() + b"\0" + file.content + b"\0")
    fields = {
        "id": f"_{name.strip('_').lower()}_{digest.hexdigest()[:12]}",
        "name": slug,
        "version": 1,
        "license": "other",
        "python-depends": [],
        "backend": {"type": "metal"},
    }
    return json.dumps(fields, indent=2) + "\n"
