"""Compares an exported function with the original, on fresh inputs, as its users will call it."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Literal

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.capture import to_dtype
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.arguments_code import (
    arguments_source,
    arguments_with,
    imported_name,
    target_source,
)
from kernelwright.runtime.export.function.case import Case, Flat, cases_of
from kernelwright.runtime.export.function.dispatch import _Call, _leaves
from kernelwright.runtime.export.function.function_export import FunctionFiles, imported, seen
from kernelwright.runtime.export.function.simulated import Launch, simulated_kernels
from kernelwright.runtime.export.function.test_code import has_order
from kernelwright.runtime.export.function.ways import outcome, ways

Outcome = Literal["equal", "differs", "not supported", "not run"]
_TIMEOUT_S = 300
_PERTURBED = 3
# A few roundings on the way add to the one of the input.
_NOISE = 8.0


class Check(Record):
    """One comparison with the original."""

    what: str
    outcome: Outcome
    detail: str = ""


def prove(
    export: FunctionFiles,
    function: Callable[..., object],
    threadgroup_bytes: int,
    *,
    is_strict: bool = True,
) -> tuple[Check, ...]:
    """Compare the module with the original; nothing is written outside of temporary folders.

    Raises:
        InputError: a result differs and `is_strict`, or the module cannot be imported where MLX
            alone is.
    """
    checks: list[Check] = []
    for number, served in enumerate(export.calls):
        call = seen(function, served.args, served.kwargs, ())
        is_certain = has_order(export.module)
        original = _flat(function, call)
        cases = cases_of(export, number, call, original)
        checks += _elsewhere(export, call, cases, original, has_order=is_certain)
        checks += _kernels(export, function, call, cases[:1], threadgroup_bytes, is_certain)
    for check in checks:
        if check.outcome == "differs" and is_strict:
            raise InputError(
                f"{export.module.name} is not exported: {check.what}, it differs from the "
                f"original ({check.detail}); export with --force to see the files."
            )
    return tuple(checks)


def _flat(function: Callable[..., object], call: _Call) -> Flat:
    def flat(*arrays: mx.array) -> list[mx.array]:
        args, kwargs = arguments_with(call, arrays)
        return _leaves(function(*args, **kwargs))

    return flat


def _elsewhere(
    export: FunctionFiles, call: _Call, cases: Sequence[Case], original: Flat, *, has_order: bool
) -> list[Check]:
    """Import the module in a process that finds MLX alone, and compare what it computes."""
    nest = arguments_source(call, export.module.source)
    if nest is None:
        return [
            Check(
                what="imported where MLX alone is",
                outcome="not run",
                detail="an argument is an object",
            )
        ]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write(export.files, folder / "module")
        site = folder / "site"
        site.mkdir()
        for package in (
            "mlx",
            *(["numpy", "numpy.libs"] if export.module.source.needs_numpy else []),
        ):
            _link(package, site)
        named = {f"{i}/{j}": a for i, c in enumerate(cases) for j, a in enumerate(c.arrays)}
        mx.save_safetensors(str(folder / "inputs.safetensors"), named)
        mx.save_safetensors(str(folder / "objects.safetensors"), {**nest.data, "": mx.array(0)})
        script = _script(export, folder, nest.text, len(cases))
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(
                f"{export.module.name} does not work where MLX alone is installed: {last}."
            )
        made = mx.load(str(folder / "results.safetensors"))
        assert isinstance(made, dict)
        mx.eval(list(made.values()))
    checks = []
    for i, case in enumerate(cases):
        for way, compute in ways(original, case.arrays):
            wanted = outcome(compute)
            found = [
                made[k]
                for k in sorted((k for k in made if k.startswith(f"{i}/{way}/")), key=_place)
            ]
            checks.append(
                _compared(f"{case.what}, {way}", found, wanted, exact=True, has_order=has_order)
            )
    return checks


def _place(key: str) -> int:
    return int(key.rpartition("/")[2])


def _link(package: str, site: Path) -> None:
    roots = [Path(p) for p in sys.path if p and (Path(p) / package).is_dir()]
    own = Path(mx.__file__).parent
    source = own if package == "mlx" else next((r / package for r in roots), None)
    if source is not None:
        (site / package).symlink_to(source, target_is_directory=True)


def _script(export: FunctionFiles, folder: Path, nest: str, count: int) -> str:
    text = (Path(__file__).parent / "ways.py").read_text(encoding="utf-8")
    return f"""
import sys
sys.path += [{str(folder / "site")!r}, {str(folder / "module")!r}]
{text}
import {export.module.name} as exported
from {export.module.name} import {imported_name(export.module.source)}

given = mx.load({str(folder / "inputs.safetensors")!r})
_DATA = mx.load({str(folder / "objects.safetensors")!r})
made = {{}}

def flat(*a):
    args, kwargs = {nest}
    return exported._leaves({target_source(export.module.source)}(*args, **kwargs))

for i in range({count}):
    count = sum(k.startswith(f"{{i}}/") for k in given)
    arrays = [given[f"{{i}}/{{j}}"] for j in range(count)]
    for way, compute in ways(flat, arrays):
        results = outcome(compute)
        if not isinstance(results, str):
            made |= {{f"{{i}}/{{way}}/{{j}}": r for j, r in enumerate(results)}}
mx.save_safetensors({str(folder / "results.safetensors")!r}, made or {{"none": mx.array(0)}})
"""


def write(files: Sequence[ExportedFile], folder: Path) -> None:
    """Write files into a folder of their own."""
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.data is None:
            path.write_text(file.text, encoding="utf-8")
        else:
            path.write_bytes(file.data)


def _compared(
    what: str,
    found: Sequence[mx.array],
    wanted: list[mx.array] | str,
    *,
    exact: bool,
    has_order: bool = True,
    noise: Sequence[mx.array] = (),
) -> Check:
    if isinstance(wanted, str):
        # What the original refuses is refused by the export: it is the same code.
        return Check(what=what, outcome="not supported", detail=wanted.splitlines()[0][:100])
    difference = unlike(found, wanted, exact=exact, has_order=has_order, noise=noise)
    return Check(what=what, outcome="differs" if difference else "equal", detail=difference)


def unlike(
    found: Sequence[mx.array],
    wanted: Sequence[mx.array],
    *,
    exact: bool,
    has_order: bool = True,
    noise: Sequence[mx.array] = (),
) -> str:
    """Say how results differ, or nothing.

    Where the graph takes ranks of unsorted rows, a row's elements may come in any order. `noise`
    says how far each element may be off beside the tolerance, if it is given.
    """
    if len(found) != len(wanted):
        return f"{len(found)} arrays, expected {len(wanted)}"
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {place} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        same = _close(a, b, exact=exact, noise=noise[place] if noise else None)
        if not same and not has_order and a.ndim:
            same = _close(mx.sort(a, axis=-1), mx.sort(b, axis=-1), exact=exact)
        if not same:
            return f"result {place} has other values"
    return ""


def noise_of(
    flat: Flat, results: Sequence[mx.array], arrays: Sequence[mx.array], way: str
) -> list[mx.array]:
    """Estimate how far rounding alone moves each result: inputs are moved by their last bit.

    The cosine of an angle of thousands has no more digits than that, in MLX or in a kernel.
    """
    worst: list[mx.array] = []
    for seed in range(_PERTURBED):
        moved = [_moved(a, seed, place) for place, a in enumerate(arrays)]
        made = outcome(dict(ways(flat, moved))[way])
        if isinstance(made, str):
            return []
        steps = [_distance(a, b) for a, b in zip(made, results, strict=True)]
        worst = [mx.maximum(w, s) for w, s in zip(worst, steps, strict=True)] if worst else steps
    return [_NOISE * w for w in worst]


def _moved(array: mx.array, seed: int, place: int) -> mx.array:
    """Return an array whose floats are off by half of their last bit, up or down."""
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    key = mx.random.key(7919 * seed + place)
    sign = 2.0 * mx.random.bernoulli(0.5, array.shape, key=key).astype(mx.float32) - 1
    step = mx.finfo(array.dtype).eps
    return (array.astype(mx.float32) * (1 + step * sign)).astype(array.dtype)


def _distance(a: mx.array, b: mx.array) -> mx.array:
    if not mx.issubdtype(b.dtype, mx.inexact):
        return mx.zeros(b.shape)
    wide = mx.complex64 if mx.issubdtype(b.dtype, mx.complexfloating) else mx.float32
    apart = mx.abs(a.astype(wide) - b.astype(wide))
    return mx.where(mx.isfinite(apart), apart, 0)


def _close(a: mx.array, b: mx.array, *, exact: bool, noise: mx.array | None = None) -> bool:
    inexact = mx.issubdtype(a.dtype, mx.inexact)
    if exact or not inexact or not a.size:
        return bool(mx.array_equal(a, b, equal_nan=inexact).item())
    tolerance = Tolerance.of(to_dtype(a.dtype))
    wide = mx.complex64 if mx.issubdtype(a.dtype, mx.complexfloating) else mx.float32
    a, b = a.astype(wide), b.astype(wide)
    # Both sides round, and may err to either side; where terms cancel, by the largest of them.
    largest = mx.max(mx.where(mx.isfinite(b), mx.abs(b), 0)).item()
    relative = 2 * tolerance.relative
    absolute = max(2 * tolerance.absolute, relative * abs(complex(largest)))
    if noise is not None:
        # What rounding moves so far is compared no closer.
        a = mx.where(mx.abs(a - b) <= noise, b, a)
    return bool(mx.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True).item())


def _kernels(
    export: FunctionFiles,
    function: Callable[..., object],
    call: _Call,
    cases: Sequence[Case],
    threadgroup_bytes: int,
    has_order: bool,
) -> list[Check]:
    """Run the kernels themselves: on the GPU, or on the simulator where there is none."""
    is_metal = mx.metal.is_available()
    original = _flat(function, call)
    where = "kernels on the GPU" if is_metal else "kernels on the simulator"
    checks = []
    launches: list[Launch] = []
    with _with_kernels(export, threadgroup_bytes, launches, is_metal=is_metal) as module:
        target = _target(module, export)
        flat = _flat(target, call)
        for case in cases:
            args, kwargs = arguments_with(call, case.arrays)
            if not _serves(module, export, args, kwargs):
                checks.append(Check(what=where, outcome="differs", detail="they do not serve it"))
                continue
            wanted = dict(ways(original, case.arrays))
            for way, compute in ways(flat, case.arrays):
                what = f"{where}, {case.what}, {way}"
                if way == "mx.compile" and not is_metal:
                    called = dict(ways(flat, case.arrays))["called"]
                    checks.append(_same_launches(what, called, compute, launches))
                    continue
                expected = outcome(wanted[way])
                if isinstance(expected, str):
                    checks.append(_compared(what, (), expected, exact=False))
                    continue
                found = outcome(compute)
                if isinstance(found, str):
                    checks.append(Check(what=what, outcome="differs", detail=found))
                    continue
                noise = noise_of(original, expected, case.arrays, way)
                checks.append(
                    _compared(what, found, expected, exact=False, has_order=has_order, noise=noise)
                )
    return checks


def _same_launches(
    what: str,
    called: Callable[[], list[mx.array]],
    compiled: Callable[[], list[mx.array]],
    launches: list[Launch],
) -> Check:
    """Compare the launches of a trace, which has no values to compute with, with a call's."""
    found = []
    for compute in (called, compiled):
        launches.clear()
        made = outcome(compute)
        if isinstance(made, str):
            return Check(what=what, outcome="differs", detail=made)
        found.append((list(launches), [(a.shape, a.dtype) for a in made]))
    if found[0] != found[1]:
        detail = "it launches other kernels than a call, or gives other shapes or dtypes"
        return Check(what=what, outcome="differs", detail=detail)
    count = len(found[0][0])
    words = "1 launch, that" if count == 1 else f"{count} launches, those"
    detail = f"{words} of a call; the simulator has no values in a trace"
    return Check(what=what, outcome="equal", detail=detail)


@contextmanager
def _with_kernels(
    export: FunctionFiles, threadgroup_bytes: int, launches: list[Launch], *, is_metal: bool
) -> Iterator[ModuleType]:
    name = export.module.name
    # The simulator asks MLX itself for a kernel's text, so the module alone may see the other.
    around = nullcontext() if is_metal else simulated_kernels(threadgroup_bytes, launches)
    with imported(export.files, name, around) as module:
        if not is_metal:
            vars(module)["_runs_metal"] = lambda: True
        yield module


def _target(module: ModuleType, export: FunctionFiles) -> Callable[..., object]:
    source = export.module.source
    found: Callable[..., object] = getattr(module, imported_name(source))
    if source.public:
        return found
    if source.attributes in ((), ("__call__",)):
        return found
    return getattr(found, source.attributes[0])  # type: ignore[no-any-return]


def _serves(
    module: ModuleType, export: FunctionFiles, args: tuple[object, ...], kwargs: dict[str, object]
) -> bool:
    source = export.module.source
    found = getattr(module, source.name)
    if not source.attributes:
        return bool(found.serves(*args, **kwargs))
    return bool(getattr(type(found), source.attributes[0]).serves(found, *args, **kwargs))
