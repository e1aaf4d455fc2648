"""From a Python function of MLX arrays to a graph, through MLX's own tracer."""

import enum
import inspect
import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import cast

import mlx.core as mx

from kernelwright.errors import InputError, KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.nest import Tree, nest_of
from kernelwright.ir.trace.arguments import Leaf, leaves, rebuild
from kernelwright.ir.trace.array import is_array, to_mlx
from kernelwright.ir.trace.closure import named_arrays, reachable
from kernelwright.ir.trace.compiled_call import check_compiled
from kernelwright.ir.trace.exporter import Trace, to_type
from kernelwright.ir.trace.held import evaluate_held, is_one_without_values
from kernelwright.ir.trace.random_state import kept_random_state
from kernelwright.ir.trace.recorder import Recorder
from kernelwright.ir.trace.refusal import (
    check_returns_results,
    is_unexportable,
    line_in,
    line_of,
    line_of_definition,
    translated,
)
from kernelwright.ir.trace.transformation import innermost
from kernelwright.ir.trace.value_look import ValueLook

Function = Callable[..., object]
_PLAIN = (bool, int, float, complex, str, bytes, enum.Enum, mx.Dtype)
_TRACING: dict[int, int] = {}
"""How many captures are under way in each thread."""
_ATTEMPTS = 3


def capture(fn: Function, *arrays: object, **keyword_arrays: object) -> Graph:
    """Trace `fn` on example arrays and return what it computes.

    Arguments may be nests of lists, tuples and dicts; arrays inside them (MLX or NumPy) become
    inputs, everything else is fixed. Keyword inputs follow the positional ones, sorted by
    name. Arrays that `fn` closes over, a module's parameters among them, become constants.
    Results may be any nest of arrays; they are flattened in order. Shapes and dtypes are those
    of the examples.

    Raises:
        InputError: `fn` cannot be called so, looks at an array's values, or returns no arrays.
        UnsupportedError: MLX cannot export a primitive that `fn` uses.
    """
    return _graph_of(_Example.of(fn, arrays, keyword_arrays))[0]


@dataclass(frozen=True)
class CapturedCall:
    """What a call returns, and what it makes of the arrays that it was given."""

    graph: Graph
    """Its outputs are the results, then whatever else `changed` names."""
    changed: tuple[tuple[int, int], ...]
    """Inputs that the function changes in place, each with the output that it becomes."""


def capture_call(fn: Function, *arrays: object, **keyword_arrays: object) -> CapturedCall:
    """Trace as `capture` does; arguments that `fn` changes in place are outputs, too.

    Arrays that a call takes from anywhere else become constants, whatever holds them: those that
    have no values yet are evaluated first.

    Raises:
        InputError: as `capture`; only a function that changes an argument need return no arrays.
        UnsupportedError: as `capture`.
    """
    example = _Example.of(fn, arrays, keyword_arrays, shows_arguments=True)
    return _call_of(fn, _captured(example))


def capture_labelled(
    fn: Function,
    arrays: Sequence[object],
    keyword_arrays: Mapping[str, object],
    remark: Callable[[str], None] = lambda sentence: None,
) -> Graph:
    """Return the graph of `capture_call`, labelled with what the user's source calls its values.

    It keeps the nest in which the function returns its results.

    `remark` takes a sentence on what the graph does not keep.

    The function is traced once; it is traced again where it takes an array from elsewhere that
    had to be evaluated, and without labels where MLX cannot export a value that no result needs.

    Raises:
        InputError: as `capture_call`.
        UnsupportedError: as `capture_call`.
    """
    example = _Example.of(fn, tuple(arrays), keyword_arrays, shows_arguments=True)
    recorder = Recorder(_source_file(fn))
    try:
        graph = _captured(example, recorder)
    except KernelwrightError:
        if not recorder.is_done:
            raise
        graph = _captured(example)
    check_compiled(fn, _name(fn), example.arrays, example.call)
    if recorder.on_cpu:
        places = ", ".join(f"{name} ({place})" for place, name in recorder.on_cpu.items())
        remark(
            f"{_name(fn)} runs work on a stream of the CPU, in {places}; it is not kept: "
            "kernels run on the GPU, and MLX's times are of the GPU, too."
        )
    return replace(_call_of(fn, graph).graph, results=example.nests[-1])


def _source_file(fn: Function) -> str:
    own = inspect.unwrap(fn)
    bound = own if isinstance(own, FunctionType | MethodType) else type(own).__call__
    code = getattr(bound, "__code__", None)
    return code.co_filename if isinstance(code, CodeType) else ""


def _call_of(fn: Function, graph: Graph) -> CapturedCall:
    count = len(graph.outputs) - len(graph.inputs)
    results, after = list(graph.outputs[:count]), graph.outputs[count:]
    changed = [(i, v) for i, v in enumerate(after) if v != graph.inputs[i]]
    if not results and not changed:
        raise _returns_nothing(fn)
    results += [v for v in dict.fromkeys(v for _, v in changed) if v not in results]
    pairs = tuple((place, results.index(value)) for place, value in changed)
    return CapturedCall(replace(graph, outputs=tuple(results)), pairs)


def _captured(example: "_Example", recorder: Recorder | None = None) -> Graph:
    """Trace a call of the user's, after every array that it takes from elsewhere has values."""
    try:
        graph, made = _graph_of(example, recorder)
    except UnsupportedError:
        # MLX may not be able to export how an array is made that only has to be evaluated.
        if not _evaluates_held(example, lambda array: True):
            raise
        return _graph_of(example, recorder)[0]
    if recorder is not None:
        recorder.forget()
    if made and _evaluates_held(example, lambda a: to_type(tuple(a.shape), a.dtype) in made):
        graph, _ = _graph_of(example, recorder)
    return graph


def _graph_of(
    example: "_Example", recorder: Recorder | None = None
) -> tuple[Graph, frozenset[TensorType]]:
    """Trace a call; return its graph, and the types of what it makes without its inputs."""
    kept = _evaluated_parameters(example)
    for attempt in range(_ATTEMPTS):
        with _unchanged_parameters(kept, _name(example.fn)):
            trace = _traced(example if attempt == 0 else replace(example, is_apart=True), recorder)
        if trace.is_complete:
            try:
                return _graph_in(trace, example, recorder), trace.made_without_inputs
            except RuntimeError:
                # Names that were watched within mx.vmap are those of arrays without values.
                if recorder is None:
                    raise
        # The names that it saw are those of arrays of the trace that failed.
        recorder = None
    raise UnsupportedError(
        f"MLX's tracer left out a result of {_name(example.fn)}; return each array once, "
        "and capture again."
    )


def _graph_in(trace: Trace, example: "_Example", recorder: Recorder | None) -> Graph:
    held = {} if recorder is None else named_arrays(example.fn)
    return trace.graph(example.keywords, example.names, held)


def _evaluates_held(example: "_Example", is_likely: Callable[[mx.array], bool]) -> bool:
    """Evaluate the arrays without values that a call takes from elsewhere, if there are some."""
    if not is_one_without_values(is_likely, example.arrays):
        return False
    found = False

    def settling(*traced: mx.array) -> list[mx.array]:
        nonlocal found
        found = evaluate_held(example.call(*traced), traced, is_likely)
        return list(traced)

    # What fails here has its sentence from the trace itself.
    with suppress(Exception), _tracing():
        mx.export_function(lambda event: None, settling, *example.arrays)
    return found


def _traced(example: "_Example", recorder: Recorder | None = None) -> Trace:
    trace, look = Trace(), ValueLook()

    def looking(*traced: mx.array) -> list[mx.array]:
        with look.watching():
            made = example.call(*traced)
        if look.error is not None:
            # The function caught what MLX said: without a trace it would have gone on otherwise.
            name, line = _name(example.fn), line_in(look.frames())
            raise translated(look.error, name, line) from look.error
        return made

    call = looking if recorder is None else partial(trace.watched, looking, recorder)
    with _tracing():
        try:
            mx.export_function(trace.record, call, *example.arrays)
        except KernelwrightError:
            raise
        except (Exception, SystemExit) as e:
            line = line_of(e) or (_line_of_export(example) if is_unexportable(e) else "")
            line = line or line_of_definition(innermost(example.fn))
            raise translated(e, _name(example.fn), line) from e
    return trace


def _line_of_export(example: "_Example") -> str:
    """Return the user's line that first makes what MLX cannot export, by halving what is named."""
    found = Recorder(_source_file(example.fn))

    def is_exported(count: int | None) -> bool:
        recorder = Recorder(found.file)

        def call(*traced: mx.array) -> list[mx.array]:
            with recorder.watching():
                results = example.call(*traced)
            named = [a for key, a in recorder.arrays.items() if key in recorder.sightings]
            found.arrays, found.sightings = recorder.arrays, recorder.sightings
            return [*named, *results] if count is None else [*traced[:1], *named[:count]]

        try:
            mx.export_function(lambda event: None, call, *example.arrays)
        except ValueError as e:
            return not is_unexportable(e)
        return True

    is_exported(None)
    low, high = 0, len(found.arrays)
    if not high or is_exported(high):
        return ""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_exported(middle) else (low, middle)
    first = found.sightings[list(found.arrays)[low]][0]
    return f" ({first.file or found.file}:{first.line})"


def is_capturing() -> bool:
    """Say whether this thread captures a function, in which a kernel has no place."""
    return bool(_TRACING) and threading.get_ident() in _TRACING


def input_leaves(arrays: Sequence[object], keyword_arrays: Mapping[str, object]) -> list[Leaf]:
    """List the arrays of a call in the order of a graph's inputs."""
    positional = [leaf for i, tree in enumerate(arrays) for leaf in leaves(tree, f"x{i}", is_array)]
    named = [
        leaf
        for name in sorted(keyword_arrays)
        for leaf in leaves(keyword_arrays[name], name, is_array)
    ]
    return [*positional, *named]


@dataclass(frozen=True)
class _Example:
    """A call of the function, seen as a function of a flat list of arrays."""

    fn: Function
    positional: tuple[object, ...]
    named: Mapping[str, object]
    arrays: list[mx.array]
    names: tuple[str, ...]
    keywords: tuple[str, ...]
    shows_arguments: bool = False
    """True where the arrays are returned as well, as the function leaves them."""
    is_apart: bool = False
    """True where each result is a view of its own.

    MLX's exporter (0.32.4) names a result that it never reports where it merges what is behind
    `mx.stop_gradient` with another result, as in `(-x, mx.stop_gradient(-x))`.
    """
    nests: list[Tree] = field(default_factory=list)
    """What each call returned."""

    @classmethod
    def of(
        cls,
        fn: Function,
        arrays: tuple[object, ...],
        keyword_arrays: Mapping[str, object],
        *,
        shows_arguments: bool = False,
    ) -> "_Example":
        if not callable(fn):
            raise InputError(f"expected a function of MLX arrays, found {fn!r}.")
        check_returns_results(fn, _name(fn))
        parameters = _parameter_names(fn, arrays, keyword_arrays)
        found = input_leaves(arrays, keyword_arrays)
        count = sum(len(leaves(tree, "", is_array)) for tree in arrays)
        names = [
            leaf.path
            for name, tree in zip(parameters, arrays, strict=True)
            for leaf in leaves(tree, name, is_array)
        ]
        keywords = tuple(leaf.path for leaf in found[count:])
        return cls(
            fn,
            arrays,
            {name: keyword_arrays[name] for name in sorted(keyword_arrays)},
            [to_mlx(leaf.array) for leaf in found],
            (*names, *keywords),
            keywords,
            shows_arguments,
        )

    def call(self, *traced: mx.array) -> list[mx.array]:
        nest = rebuild((self.positional, self.named), traced, is_array)
        positional, named = cast("tuple[tuple[object, ...], dict[str, object]]", nest)
        result = self.fn(*positional, **named)
        found = result_arrays(result, _name(self.fn))
        self.nests.append(nest_of(result, lambda value: isinstance(value, mx.array)))
        if self.is_apart:
            found = [mx.squeeze(mx.expand_dims(array, 0), 0) for array in found]
        if self.shows_arguments:
            return [*found, *traced]
        if not found:
            raise _returns_nothing(self.fn)
        return found


def _returns_nothing(fn: Function) -> InputError:
    return InputError(
        f"{_name(fn)} returns no arrays; return what it computes, or change an array in place "
        "that it is given."
    )


def _parameter_names(
    fn: Function, arrays: tuple[object, ...], keyword_arrays: Mapping[str, object]
) -> list[str]:
    numbered = [f"x{i}" for i in range(len(arrays))]
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        # A built-in of MLX has no signature that Python can read.
        return numbered
    try:
        signature.bind(*arrays, **keyword_arrays)
    except TypeError as e:
        raise InputError(
            f"{_name(fn)}{signature} cannot be called with {len(arrays)} positional and "
            f"{len(keyword_arrays)} keyword inputs: {e}."
        ) from e
    positional = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return [*positional, *numbered[len(positional) :]][: len(arrays)]


def result_arrays(result: object, name: str) -> list[mx.array]:
    """List the arrays that a function called `name` returned, in the order of a graph's outputs.

    Raises:
        InputError: something else is among them.
    """
    if isinstance(result, mx.array):
        return [result]
    if isinstance(result, Mapping):
        return _flat_children(list(result.values()), name)
    if isinstance(result, list | tuple):
        return _flat_children(result, name)
    if result is None:
        return []
    if is_dataclass(result) and not isinstance(result, type):
        return _flat_children([getattr(result, f.name) for f in fields(result)], name)
    raise InputError(
        f"{name} returns {type(result).__name__} ({result!r:.40}), "
        f"expected MLX arrays or nests of them."
    )


def _flat_children(children: Sequence[object], name: str) -> list[mx.array]:
    # Beside arrays, plain values are part of the nest, as None is.
    arrays = [c for c in children if not isinstance(c, _PLAIN)]
    return [a for child in arrays for a in result_arrays(child, name)]


def _name(fn: Function) -> str:
    return getattr(fn, "__qualname__", None) or type(fn).__name__


def _evaluated_parameters(example: "_Example") -> list[mx.array]:
    """Compute what a call reaches, or its initialisation would become part of the graph."""
    given = [*example.positional, *example.named.values()]
    # Of inputs a trace needs the types alone: large ones take no memory.
    inputs = {id(array) for array in example.arrays}
    held: list[mx.array] = []
    # The walk comes to it after all that the function itself reaches.
    boundary, is_own = object(), True
    for value in reachable(example.fn, *given, boundary):
        is_own &= value is not boundary
        if isinstance(value, mx.array) and (is_own or id(value) not in inputs):
            held.append(value)
    # The arrays of a trace of MLX's that is under way have no values yet, and need none.
    with suppress(ValueError):
        mx.eval(held)
        return held
    return []


@contextmanager
def _unchanged_parameters(held: Sequence[mx.array], name: str) -> Iterator[None]:
    """Give arrays that a trace changed in place their values back, and refuse the function."""
    # Another object of the same array: what happens to one in place does not happen to both.
    before = [a.astype(a.dtype) for a in held]
    yield
    try:
        mx.eval(list(held))
    except (ValueError, RuntimeError) as e:
        for array, value in zip(held, before, strict=True):
            array[...] = value
        raise UnsupportedError(
            f"{name} changes an array in place that it keeps, such as a cache; pass the array as "
            "an argument."
        ) from e


@contextmanager
def _tracing() -> Iterator[None]:
    """Trace on the CPU and without `mx.compile`, so that every machine sees the same graph."""
    compiles = _compile_is_enabled()
    mx.disable_compile()
    contiguous = mx.contiguous
    # MLX cannot export its copy to a dense layout; the values are the argument's.
    mx.contiguous = _unchanged
    thread = threading.get_ident()
    _TRACING[thread] = _TRACING.get(thread, 0) + 1
    try:
        with kept_random_state(), mx.stream(mx.cpu):
            yield
    finally:
        _TRACING[thread] -= 1
        if not _TRACING[thread]:
            del _TRACING[thread]
        mx.contiguous = contiguous
        if compiles:
            mx.enable_compile()


def _unchanged(a: mx.array, allow_col_major: bool = False, *, stream: object = None) -> mx.array:
    return a


def _compile_is_enabled() -> bool:
    # MLX has no getter; a drawing of a compiled function shows whether its ops were fused.
    drawing = io.StringIO()
    with mx.stream(mx.cpu):
        mx.export_to_dot(drawing, mx.compile(lambda a: mx.exp(mx.sin(a)))(mx.array(1.0)))
    return "Compiled" in drawing.getvalue()
