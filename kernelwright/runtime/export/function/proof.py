"""Compares an exported function with the original, on fresh inputs, as its users will call it."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Literal

import mlx.core as mx

from kernelwright.errors import DeviceError, InputError
from kernelwright.ir.trace.refusal import line_of, line_of_definition
from kernelwright.metal.device.simulator.toolchain import compiler_path
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.agreement import difference, disagreement, is_equal
from kernelwright.runtime.export.function.arguments_code import (
    ArgumentsText,
    GivenArguments,
    imported_name,
    target_source,
)
from kernelwright.runtime.export.function.case import Case, Flat, cases_of
from kernelwright.runtime.export.function.function_export import FunctionFiles, ServedCall
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.object_code import MADE
from kernelwright.runtime.export.function.passed_call import _Call, _leaves
from kernelwright.runtime.export.function.simulated import Launch, simulated_kernels
from kernelwright.runtime.export.function.test_code import has_order
from kernelwright.runtime.export.function.ways import outcome, ways
from kernelwright.scratch import ScratchFolder

Outcome = Literal["equal", "differs", "not supported", "not run"]
_TIMEOUT_S = 300
_PLAIN = (bool, int, float, str, type(None))


class Check(Record):
    """One comparison with the original."""

    what: str
    outcome: Outcome
    detail: str = ""
    is_needed: bool = False
    """Without it nothing is known of the call: as searched, called."""
    call: str = ""
    """Its number, the types of its arrays and its plain values: ``1: `f32[8,64], top_k=2` ``."""


def is_proven(checks: Sequence[Check]) -> bool:
    """Say whether every call was compared as it was searched, and nothing differs."""
    is_held = all(check.outcome == "equal" for check in checks if check.is_needed)
    return bool(checks) and is_held and not any(check.outcome == "differs" for check in checks)


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
    for number, served in enumerate(export.calls, 1):
        given = GivenArguments.of(function, served.example.args, served.example.kwargs)
        is_certain = has_order(export.module)
        original = _flat(function, given)
        cases = cases_of(served.graph, given, original)
        _check_runs(function, export.module.called or export.module.name, cases[0], original)
        nest = given.source(export.module.source)
        found = _elsewhere(export, nest, cases, original, has_order=is_certain)
        found += _kernels(export, function, given, cases[:1], threadgroup_bytes, is_certain)
        call = f"{number}: `{_call_text(served)}`"
        checks += [check.model_copy(update={"call": call}) for check in found]
    for check in checks:
        if check.outcome == "differs" and is_strict:
            raise InputError(
                f"{export.module.name} is not exported: {check.what}, it differs from the "
                f"original ({check.detail}); export with --force to see the files."
            )
    return tuple(checks)


def _call_text(served: ServedCall) -> str:
    """Write the arrays of a call, those in nests too, and its plain values, as people read them."""
    example = served.example
    count = len(_Call((example.args, dict(example.kwargs))).arrays)
    types = map(str, served.graph.input_types[:count])
    plain = [repr(value) for value in example.args if isinstance(value, _PLAIN)]
    named = [f"{n}={v!r}" for n, v in example.kwargs.items() if isinstance(v, _PLAIN)]
    return ", ".join((*types, *plain, *named)) or "no arrays"


def _check_runs(function: Callable[..., object], name: str, case: Case, original: Flat) -> None:
    """Refuse a function that fails when it is called: there is nothing to compare with."""
    try:
        mx.eval(original(*case.arrays))
    except Exception as e:
        said = textwrap.shorten(str(e).partition("\n")[0], 140, placeholder=" …").rstrip(".")
        raise InputError(
            f"{name}{line_of(e) or line_of_definition(function)} raises {type(e).__name__} when it "
            f"is called on fresh arrays ({said}); an export is compared with what the function "
            "returns: export it where it runs, with inputs that it takes."
        ) from e


def _flat(function: Callable[..., object], given: GivenArguments) -> Flat:
    def flat(*arrays: mx.array) -> list[mx.array]:
        args, kwargs = given.rebuilt(arrays)
        return _leaves(function(*args, **kwargs))

    return flat


def _elsewhere(
    export: FunctionFiles,
    nest: ArgumentsText | None,
    cases: Sequence[Case],
    original: Flat,
    *,
    has_order: bool,
) -> list[Check]:
    """Import the module in a process that finds MLX alone, and compare what it computes."""
    if nest is None:
        return [
            Check(
                what="imported where MLX alone is",
                outcome="not run",
                detail="an object among the arguments has no text, so no other process can make it",
                is_needed=True,
            )
        ]
    with ScratchFolder() as folder:
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
            what = f"{case.what}, {way}"
            is_needed = case is cases[0] and way == "called"
            if isinstance(wanted, str):
                checks.append(_unsupported(what, wanted, is_needed=is_needed))
                continue
            said = difference(found, wanted, has_order=has_order, same=is_equal)
            checks.append(_check(what, said, is_needed=is_needed))
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
from {export.module.name} import {imported_name(export.module.source)} as found

given = mx.load({str(folder / "inputs.safetensors")!r})
_DATA = mx.load({str(folder / "objects.safetensors")!r})
made = {{}}

{MADE}

def flat(*a):
    args, kwargs = {nest}
    return exported._leaves(exported.{target_source(export.module.source)}(*args, **kwargs))

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


def _unsupported(what: str, message: str, *, is_needed: bool = False) -> Check:
    """What the original refuses is refused by the export: it is the same code."""
    detail = textwrap.shorten(message.splitlines()[0], 140, placeholder=" …")
    return Check(what=what, outcome="not supported", detail=detail, is_needed=is_needed)


def _check(what: str, said: str, *, is_needed: bool = False) -> Check:
    outcome: Outcome = "differs" if said else "equal"
    return Check(what=what, outcome=outcome, detail=said, is_needed=is_needed)


def _check_simulator() -> None:
    """Refuse where no kernel can run: what is missing here is no difference of the export's."""
    try:
        compiler_path()
    except DeviceError as e:
        raise DeviceError(
            f"an export is compared with the original, on a GPU or the simulator; {e}"
        ) from e


def _kernels(
    export: FunctionFiles,
    function: Callable[..., object],
    given: GivenArguments,
    cases: Sequence[Case],
    threadgroup_bytes: int,
    has_order: bool,
) -> list[Check]:
    """Run the kernels themselves: on the GPU, or on the simulator where there is none."""
    is_metal = mx.metal.is_available()
    original = _flat(function, given)
    where = "kernels on the GPU" if is_metal else "kernels on the simulator"
    checks = []
    launches: list[Launch] = []
    if not is_metal:
        _check_simulator()
    with _with_kernels(export, threadgroup_bytes, launches, is_metal=is_metal) as module:
        flat = _flat(_target(module, export), given)
        for case in cases:
            args, kwargs = given.rebuilt(case.arrays)
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
                expected, is_needed = outcome(wanted[way]), way == "called"
                if isinstance(expected, str):
                    checks.append(_unsupported(what, expected, is_needed=is_needed))
                    continue
                found = outcome(compute)
                if isinstance(found, str):
                    checks.append(Check(what=what, outcome="differs", detail=found))
                    continue
                again = partial(_outcome_of, original, way)
                said = disagreement(found, expected, again, case.arrays, has_order)
                checks.append(_check(what, said, is_needed=is_needed))
    return checks


def _outcome_of(flat: Flat, way: str, arrays: Sequence[mx.array]) -> list[mx.array] | str:
    return outcome(dict(ways(flat, arrays))[way])


def _traced(compute: Callable[[], list[mx.array]]) -> list[mx.array] | str:
    """Return results that nobody computes, or why there are none.

    Zeros stand in a trace for what kernels give; an integer that is divided by one of them, as in
    MLX's own `mx.divmod`, ends the process.
    """
    try:
        return compute()
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def _same_launches(
    what: str,
    called: Callable[[], list[mx.array]],
    compiled: Callable[[], list[mx.array]],
    launches: list[Launch],
) -> Check:
    """Compare the launches of a trace, which has no values to compute with, with a call's."""
    found = []
    for made_by, compute in ((outcome, called), (_traced, compiled)):
        launches.clear()
        made = made_by(compute)
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
