"""From a Python function of MLX arrays to a graph, through MLX's own tracer."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, FunctionType, MethodType

import mlx.core as mx

from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.trace.closure import named_arrays, reachable
from kernelwright.ir.trace.compiled_call import check_compiled
from kernelwright.ir.trace.example_call import (
    ExampleCall,
    Function,
    name_of,
    returns_nothing,
)
from kernelwright.ir.trace.exporter import Trace, to_type
from kernelwright.ir.trace.held import evaluate_held, is_one_without_values
from kernelwright.ir.trace.recorder import Recorder
from kernelwright.ir.trace.refusal import (
    is_unexportable,
    line_in,
    line_of,
    line_of_definition,
    translated,
)
from kernelwright.ir.trace.tracing import tracing, unchanged_parameters
from kernelwright.ir.trace.transformation import innermost
from kernelwright.ir.trace.value_look import ValueLook

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
    return _graph_of(ExampleCall.of(fn, arrays, keyword_arrays))[0]


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
    example = ExampleCall.of(fn, arrays, keyword_arrays, shows_arguments=True)
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
    example = ExampleCall.of(fn, tuple(arrays), keyword_arrays, shows_arguments=True)
    recorder = Recorder(_source_file(fn))
    try:
        graph = _captured(example, recorder)
    except KernelwrightError:
        if not recorder.is_done:
            raise
        graph = _captured(example)
    check_compiled(fn, name_of(fn), example.arrays, example.call)
    if recorder.on_cpu:
        places = ", ".join(f"{name} ({place})" for place, name in recorder.on_cpu.items())
        remark(
            f"{name_of(fn)} runs work on a stream of the CPU, in {places}; it is not kept: "
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
        raise returns_nothing(fn)
    results += [v for v in dict.fromkeys(v for _, v in changed) if v not in results]
    pairs = tuple((place, results.index(value)) for place, value in changed)
    return CapturedCall(replace(graph, outputs=tuple(results)), pairs)


def _captured(example: ExampleCall, recorder: Recorder | None = None) -> Graph:
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
    example: ExampleCall, recorder: Recorder | None = None
) -> tuple[Graph, frozenset[TensorType]]:
    """Trace a call; return its graph, and the types of what it makes without its inputs."""
    kept = _evaluated_parameters(example)
    for attempt in range(_ATTEMPTS):
        with unchanged_parameters(kept, name_of(example.fn)):
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
        f"MLX's tracer left out a result of {name_of(example.fn)}; return each array once, "
        "and capture again."
    )


def _graph_in(trace: Trace, example: ExampleCall, recorder: Recorder | None) -> Graph:
    held = {} if recorder is None else named_arrays(example.fn)
    return trace.graph(example.keywords, example.names, held)


def _evaluates_held(example: ExampleCall, is_likely: Callable[[mx.array], bool]) -> bool:
    """Evaluate the arrays without values that a call takes from elsewhere, if there are some."""
    if not is_one_without_values(is_likely, example.arrays):
        return False
    found = False

    def settling(*traced: mx.array) -> list[mx.array]:
        nonlocal found
        found = evaluate_held(example.call(*traced), traced, is_likely)
        return list(traced)

    # What fails here has its sentence from the trace itself.
    with suppress(Exception), tracing():
        mx.export_function(lambda event: None, settling, *example.arrays)
    return found


def _traced(example: ExampleCall, recorder: Recorder | None = None) -> Trace:
    trace, look = Trace(), ValueLook()

    def looking(*traced: mx.array) -> list[mx.array]:
        with look.watching():
            made = example.call(*traced)
        if look.error is not None:
            # The function caught what MLX said: without a trace it would have gone on otherwise.
            name, line = name_of(example.fn), line_in(look.frames())
            raise translated(look.error, name, line) from look.error
        return made

    call = looking if recorder is None else partial(trace.watched, looking, recorder)
    with tracing():
        try:
            mx.export_function(trace.record, call, *example.arrays)
        except KernelwrightError:
            raise
        except (Exception, SystemExit) as e:
            line = line_of(e) or (_line_of_export(example) if is_unexportable(e) else "")
            line = line or line_of_definition(innermost(example.fn))
            raise translated(e, name_of(example.fn), line) from e
    return trace


def _line_of_export(example: ExampleCall) -> str:
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


def _evaluated_parameters(example: ExampleCall) -> list[mx.array]:
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
