"""A pip-installable package over several kernels, with gradients, tests and its proof."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.errors import InputError
from kernelwright.ir.graph.nest import flat
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.carried_text import derivative_text
from kernelwright.runtime.export.license_text import license_text
from kernelwright.runtime.export.literal_code import dtype_source
from kernelwright.runtime.export.reference_code import as_returned, nested
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.test_code import test_source
from kernelwright.runtime.export.verification import verification_text
from kernelwright.runtime.export.wrapper_code import module_source
from kernelwright.store import CandidateDetail

_LIMITS = (
    "Other shapes, dtypes and machines go to the fallback, which is plain MLX.",
    "Gradients, `jvp` and `vmap` are those of the fallback; they are MLX's own.",
)

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "0.1.0"
description = "{description}"
readme = "VERIFICATION.md"
license-files = ["LICENSE"]
requires-python = ">=3.11"
dependencies = [{dependencies}]

[tool.hatch.build.targets.wheel]
packages = ["{name}"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""

_DISPATCH = '''\
"""{name} by the fastest kernel that serves the arrays and this chip, else by plain MLX.

Found by Kernelwright; VERIFICATION.md says what was checked.{warning}
"""

import functools
from collections.abc import Callable, Sequence

import mlx.core as mx

from . import {modules}

# The chip that each kernel was judged on, its input dtypes, and its module.
_VARIANTS = [
{variants}]


def {name}(*arrays):
    """Compute {name}; `mx.grad`, `mx.jvp` and `mx.vmap` give what MLX gives for the fallback."""
    variant = serving(*arrays)
    if variant is None:
        return reference(*arrays)
    return _results(*_served(variant)(*arrays))


def reference(*arrays):
    """Compute the same with MLX's own ops, by the code for the nearest dtypes."""
    dtypes = tuple(a.dtype for a in arrays)
    matching = [module for _, known, module in _VARIANTS if known == dtypes]
    module = matching[0] if matching else _VARIANTS[0][2]
    return _results(*_listed(module.reference(*arrays)))


def _results({results}):
    """Hand results back as the function does that the kernels were found for."""
    return {nest}


def serving(*arrays):
    """Return the module whose kernel serves the arrays; None where none does.

    Kernels that were judged on this chip come before all others.
    """
    if not mx.metal.is_available():
        return None
    chip = _chip()
    ordered = sorted(_VARIANTS, key=lambda variant: variant[0] != chip)
    return next((module for _, _, module in ordered if module._serves(*arrays)), None)


@functools.cache
def _chip():
    return mx.device_info(mx.gpu).get("device_name")


@functools.cache
def _served(module):
    """Give a kernel the derivatives of its fallback; it has none of its own."""
    return _differentiable(
        lambda *arrays: _listed(module.{name}(*arrays)),
        lambda *arrays: _listed(module.reference(*arrays)),
    )


{derivatives}'''

_GRADIENT_TEST = """

def test_derivatives_are_those_of_the_fallback():
    arrays = example(0)
    places = [i for i, a in enumerate(arrays) if mx.issubdtype(a.dtype, mx.floating)]
    if not places:
        pytest.skip("no input has a gradient")

    def gradients(function):
        def total(*given):
            return sum(r.astype(mx.float32).sum() for r in outputs(function(*given)))

        return outputs(mx.grad(total, argnums=places)(*arrays))

    found, wanted = gradients(package.{name}), gradients(exported.reference)
    relative, absolute = map(max, zip(*TOLERANCES))
    for a, b in zip(found, wanted):
        assert mx.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True).item()
"""


class PackageFormat:
    """pyproject.toml, a package with a module for each kernel, its tests and VERIFICATION.md."""

    takes_several = True

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Print the package; the first kernel's fallback serves dtypes that none knows."""
        _check(selections)
        name = selections[0].name
        modules = [f"kernel_{place + 1}" for place in range(len(selections))]
        return (
            ExportedFile(name="pyproject.toml", text=_pyproject(selections)),
            ExportedFile(name="LICENSE", text=license_text()),
            ExportedFile(name=f"{name}/py.typed"),
            ExportedFile(name=f"{name}/__init__.py", text=_dispatch(selections, modules)),
            *(
                ExportedFile(
                    name=f"{name}/{module}.py",
                    text=module_source(_flat(chosen.detail), name, is_verified=chosen.is_verified),
                )
                for chosen, module in zip(selections, modules, strict=True)
            ),
            *(
                ExportedFile(name=f"tests/test_{module}.py", text=_tests(chosen, module))
                for chosen, module in zip(selections, modules, strict=True)
            ),
            ExportedFile(
                name="VERIFICATION.md",
                text="\n".join(verification_text(chosen, _LIMITS) for chosen in selections),
            ),
        )

    def use(self, name: str) -> str:
        """Return an import."""
        return f"from {name} import {name}"


def _check(selections: Sequence[Selection]) -> None:
    first = selections[0].detail
    programs = {chosen.detail.candidate.id for chosen in selections}
    if len(programs) != len(selections):
        raise InputError("expected different kernels, found one of them twice; name each once.")
    for chosen in selections[1:]:
        found = chosen.detail
        arity = (len(found.graph.inputs), len(found.graph.outputs))
        if found.candidate.task.name != first.candidate.task.name or arity != (
            len(first.graph.inputs),
            len(first.graph.outputs),
        ):
            raise InputError(
                f"a package of ids holds one region, found {first.candidate.task.name!r} "
                f"and {found.candidate.task.name!r}; name the function instead, as in "
                "`kernelwright export FILE.py:function --format package`."
            )


def _flat(detail: CandidateDetail) -> CandidateDetail:
    """Return a candidate whose results are no nest: derivatives are of flat ones."""
    graph = detail.graph
    if graph.results is None:
        return detail
    graph = replace(graph, results=flat(graph.results))
    return detail.model_copy(update={"graph_json": graph.to_json()})


def _pyproject(selections: Sequence[Selection]) -> str:
    name = selections[0].name
    verified = all(chosen.is_verified for chosen in selections)
    description = f"{name} as Metal kernels for MLX."
    return pyproject_text(name, description if verified else f"{description} {WARNING}")


def pyproject_text(name: str, description: str, *, needs_numpy: bool = False) -> str:
    """Return the project file of a package that is called as its function."""
    needed = ["mlx>=0.32.4,<0.33", *(["numpy>=2"] if needs_numpy else [])]
    return _PYPROJECT.format(
        name=name,
        distribution=name.strip("_").replace("_", "-"),
        description=description,
        dependencies=", ".join(f'"{dependency}"' for dependency in needed),
    )


def _dispatch(selections: Sequence[Selection], modules: Sequence[str]) -> str:
    verified = all(chosen.is_verified for chosen in selections)
    graph = as_returned(selections[0].detail.graph)
    results = [f"r{i}" for i in range(len(graph.outputs))]
    return _DISPATCH.format(
        results=", ".join(results),
        nest=nested(graph, results),
        name=selections[0].name,
        derivatives=derivative_text(),
        warning="" if verified else f"\n\n{WARNING}",
        modules=", ".join(modules),
        variants="".join(
            f"    ({_chip(chosen)!r}, {_dtypes(chosen)}, {module}),\n"
            for chosen, module in zip(selections, modules, strict=True)
        ),
    )


def _chip(chosen: Selection) -> str:
    return chosen.evaluation.device.chip if chosen.evaluation else ""


def _dtypes(chosen: Selection) -> str:
    names = [dtype_source(type_.dtype) for type_ in chosen.detail.graph.input_types]
    return f"({', '.join(names)},)"


def _tests(chosen: Selection, module: str) -> str:
    text = test_source(_flat(chosen.detail), chosen.name)
    imported = f"import {chosen.name} as exported\n"
    replaced = f"import {chosen.name} as package\nfrom {chosen.name} import {module} as exported\n"
    return text.replace(imported, replaced) + _GRADIENT_TEST.format(name=chosen.name)
