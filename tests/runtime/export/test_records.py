"""Records and objects that a call passes or gives are compared, tested and shown as nests are."""

# MLX's stubs lack its layers, and what is called here comes from printed text.
# mypy: ignore-errors

import enum
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import mlx.nn as nn
import pytest

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.runtime.export.function.alone import ExampleCall, seen
from kernelwright.runtime.export.function.arguments_code import GivenArguments
from kernelwright.runtime.export.function.export import export_target
from kernelwright.runtime.export.function.function_export import FunctionFiles, export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.proof import Check, is_proven, prove
from kernelwright.runtime.export.function.test_code import function_tests
from kernelwright.runtime.export.function.traced_call import names_read
from kernelwright.runtime.export.function.variant import Lookup

KernelsOf = Callable[..., Lookup]


class Mode(enum.Enum):
    SOFT = "soft"
    HARD = "hard"


class Carry(NamedTuple):
    h: mx.array
    count: int = 0


@dataclass
class Options:
    mode: Mode = Mode.SOFT
    factor: float = 2.0


@dataclass(frozen=True)
class State:
    carry: Carry
    pair: tuple[mx.array, mx.array]
    options: Options = field(default_factory=Options)
    tag: str = "t"


@dataclass(slots=True, kw_only=True)
class Slotted:
    k: mx.array
    bias: mx.array | None = None


class Plain:
    def __init__(self, w: mx.array) -> None:
        self.w = w
        self.both = [self, w * 2]

    def applied(self, x: mx.array) -> mx.array:
        return mx.softmax(x * self.w, axis=-1) + self.both[1]


def stepped(state: State) -> State:
    scale = state.options.factor if state.options.mode is Mode.SOFT else 1.0
    h = mx.softmax(state.carry.h * scale, axis=-1) * state.pair[0] + state.pair[1]
    return replace(state, carry=state.carry._replace(h=h, count=state.carry.count + 1))


def raised(x: mx.array, power: int) -> mx.array:
    """Softmax of a power."""
    return mx.softmax(mx.exp(x) ** power, axis=-1)


def slotted(x: mx.array, given: Slotted) -> Slotted:
    return Slotted(k=mx.softmax(x * given.k, axis=-1))


def applied(x: mx.array, plain: Plain) -> mx.array:
    return plain.applied(x)


def normed(x: mx.array, norm: nn.Module) -> mx.array:
    return mx.tanh(norm(x)) * 2


def ordered(x: OrderedDict) -> OrderedDict:
    lists = defaultdict(list, a=[mx.softmax(x["a"], axis=-1)])
    return OrderedDict(lists=lists, mode=Mode.SOFT)


@functools.singledispatch
def smoothed(x: object, scale: float = 2.0) -> mx.array:
    raise NotImplementedError


@smoothed.register
def _(x: mx.array, scale: float = 2.0) -> mx.array:
    return mx.softmax(x * scale, axis=-1)


@smoothed.register
def _(x: list, scale: float = 2.0) -> mx.array:
    return smoothed(x[0], scale)


def _state(tag: str = "t") -> State:
    return State(Carry(mx.ones((3, 8))), (mx.ones(8), mx.zeros(8)), tag=tag)


def _shared(x: mx.array) -> ExampleCall:
    shared = Plain(mx.ones(8))
    shared.both[0] = None
    return ExampleCall((x, shared), {})


X = mx.ones((3, 8))
CALLS = {
    stepped: (ExampleCall((_state(),), {}), 3),
    slotted: (ExampleCall((X, Slotted(k=X)), {}), 2),
    applied: (_shared(X), 3),
    normed: (ExampleCall((X, nn.RMSNorm(8)), {}), 2),
    ordered: (ExampleCall((OrderedDict(a=X),), {}), 1),
    smoothed: (ExampleCall(([X],), {}), 1),
}


def _files(function: Callable, call: ExampleCall, lookup: Lookup) -> FunctionFiles:
    name = function.__name__
    return export_function(function, name, [call], lookup, admits=lambda _: True)


@pytest.mark.parametrize("function", CALLS, ids=lambda f: f.__name__)
def test_arrays_of_records_and_objects_are_inputs_of_tests(
    function: Callable, kernels_of: KernelsOf
) -> None:
    call, count = CALLS[function]
    export = _files(function, call, kernels_of(lambda _: ("m4-pro",)))
    (variant,) = export.module.variants
    assert len(variant.argument_types) == count
    tests = function_tests(export, function)
    assert tests is not None
    assert f"a[{count - 1}]" in tests
    with imported(export.files, function.__name__) as module:
        exported = getattr(module, function.__name__)
        assert exported.serves(*call.args)
        found, wanted = exported(*call.args), function(*call.args)
        pairs = zip(module._leaves(found), module._leaves(wanted), strict=True)
        assert all(mx.array_equal(a, b).item() for a, b in pairs)


def test_an_implementation_that_a_call_registers_is_named(kernels_of: KernelsOf) -> None:
    smoothed.register(tuple, _of_tuple)
    try:
        with pytest.raises(
            UnsupportedError, match=r" is given to smoothed by a call; write a decorator"
        ):
            _files(smoothed, CALLS[smoothed][0], kernels_of(lambda _: ("m4-pro",)))
    finally:
        smoothed.register(tuple, smoothed.registry[object])


def _of_tuple(x: tuple, scale: float = 2.0) -> mx.array:
    return x[0]


def test_an_export_of_a_record_is_verified_by_comparisons(
    kernels_of: KernelsOf, tmp_path: Path
) -> None:
    call = CALLS[slotted][0]
    lookup = kernels_of(lambda _: ("simulator",))
    exported = export_target(slotted, "slotted", [call], lookup, identity="a test", force=True)
    exported.write(tmp_path)
    told = (tmp_path / "VERIFICATION.md").read_text()
    assert "- `f32[3,8], f32[3,8]`: `_kernel_1`" in told
    assert "- [x] as searched, mx.vmap" in told
    assert "- [x] kernels on the " in told
    assert exported.is_verified


def test_each_call_of_an_export_is_verified_under_its_own_heading(
    kernels_of: KernelsOf, tmp_path: Path
) -> None:
    calls = [ExampleCall((x,), {"power": 2}) for x in (mx.ones((3, 8)), mx.ones((5, 16)))]
    lookup = kernels_of(lambda _: ("simulator",))
    exported = export_target(raised, "raised", calls, lookup, identity="a test", force=True)
    exported.write(tmp_path)
    told = (tmp_path / "VERIFICATION.md").read_text()
    first, second = told.partition("### Call 1: `f32[3,8], power=2`")[2].split("### Call 2: ")
    assert second.startswith("`f32[5,16], power=2`")
    assert "- [x] as searched, called\n" in first
    assert "- [x] as searched, called\n" in second


def test_what_was_not_compared_is_not_verified() -> None:
    equal = Check(what="as searched, called", outcome="equal", is_needed=True)
    unsure = Check(what="at another shape, mx.vmap", outcome="not supported")
    assert is_proven([equal, unsure])
    assert not is_proven([])
    for outcome in ("not run", "not supported", "differs"):
        assert not is_proven([equal, Check(what="called", outcome=outcome, is_needed=True)])
    assert not is_proven([equal, Check(what="at another shape", outcome="differs")])


def test_a_field_that_only_a_copy_reads_tells_calls_apart() -> None:
    given = seen(stepped, (_state(),), {}, ())
    names = names_read(stepped, given)
    keys = {seen(stepped, (_state(tag),), {}, (), names).key for tag in "tu"}
    assert len(keys) == 2


def test_objects_are_given_other_arrays_and_stay_as_they_are() -> None:
    given = GivenArguments.of(applied, *(CALLS[applied][0].args, {}))
    arrays = [mx.full(a.shape, float(i)) for i, a in enumerate(given.arrays)]
    (x, plain), _ = given.rebuilt(arrays)
    assert [a[..., 0].max().item() for a in (x, plain.w, plain.both[1])] == [0, 1, 2]
    assert given.call.arguments[0][1].w[0].item() == 1
    assert given.call.arguments[0][1].both[1][0].item() == 2


def test_an_object_that_cannot_be_copied_is_passed_as_it_is() -> None:
    plain = Plain(mx.ones(8))
    plain.both[0] = iter([1]), (line for line in "ab")
    given = GivenArguments.of(applied, (X, plain), {})
    assert given.held == ()
    assert given.rebuilt([X])[0][1] is plain


def fails(x: mx.array) -> mx.array:
    if FAILING:
        raise ValueError("no such mode")
    return mx.softmax(x, axis=-1)


FAILING = False


def test_a_function_that_fails_when_it_is_called_is_refused_with_its_line(
    kernels_of: KernelsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = _files(fails, ExampleCall((X,), {}), kernels_of(lambda _: ("m4-pro",)))
    monkeypatch.setitem(globals(), "FAILING", True)
    with pytest.raises(InputError, match=r"fails \(.*test_records.py:\d+\) raises ValueError when"):
        prove(export, fails, 32768)
