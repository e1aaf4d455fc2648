"""What `import kernelwright` offers is pinned, callable in any order of imports, and light."""

import inspect
import subprocess
import sys

import pytest

import kernelwright as kw

NAMES = {
    "best": ("op", "dtype", "shape", "device", "chip", "limit", "store"),
    "campaign": ("settings", "store", "progress"),
    "elementwise": ("expression", "names", "name", "inputs", "device", "store"),
    "example": ("inputs", "keyword_inputs"),
    "explain": ("function", "args", "kwargs"),
    "export": (
        *("target", "directory", "inputs", "name", "format_name", "store", "force", "slower"),
    ),
    "kernel": ("function", "inputs", "device", "store"),
    "optimize": (
        *("function", "store", "device", "buckets", "axis", "padded", "threadgroup_bytes", "warm"),
    ),
    "plan": ("target", "inputs", "device", "chip", "threadgroup_memory", "store"),
    "restore": ("model",),
    "rowwise": ("map", "reduce", "finish", "names", "name", "inputs", "device", "store"),
    "search": (
        *("target", "inputs", "device", "model", "budget", "tokens", "calls", "candidates"),
        *("repairs", "evaluations", "seconds", "jobs", "base_url", "chip", "threadgroup_memory"),
        *("store", "progress"),
    ),
    "verify": (
        *("source", "target", "inputs", "grid", "threadgroup", "input_names", "output_names"),
        *("template", "header", "name", "device", "through", "threadgroup_memory", "store"),
    ),
}


def test_the_public_names_are_pinned() -> None:
    assert sorted(kw.__all__) == sorted([*NAMES, "registry"])
    assert dir(kw) == sorted([*kw.__all__, "__version__"])


@pytest.mark.parametrize("name", NAMES)
def test_a_public_function_takes_what_is_pinned(name: str) -> None:
    function = getattr(kw, name)
    assert tuple(inspect.signature(function).parameters) == NAMES[name]


@pytest.mark.parametrize(
    "first", ["search.spec", "search", "service.python.search", "campaign", "campaign.event"]
)
@pytest.mark.sampled(3)
def test_a_room_with_a_functions_name_is_callable_whatever_was_imported_first(first: str) -> None:
    code = (
        f"import kernelwright.{first}, kernelwright as kw; import kernelwright.search.spec as spec;"
        "from kernelwright.search.spec import SearchSpec; assert spec.SearchSpec is SearchSpec;"
        "assert callable(kw.search) and callable(kw.plan) and callable(kw.campaign);"
        "from kernelwright.campaign import Engine; import kernelwright.campaign.event"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
