"""Tells the runtime which dynamic instance of a wait a thread has come to.

Threads meet in a barrier or a simdgroup operation when they come to it by the same calls, in the
same round of each loop around those: Metal asks for that of barriers, and of the lanes that an
operation joins. Line and column tell neither. So each place that may wait is given a number, which
is hashed with those of the calls that led to its function and with the rounds of its loops.

The listing is that of clang's front end, whose loops and calls are the text's own: whatever the
optimiser copies or merges afterwards, the number goes with it.
"""

import itertools
import re
from collections.abc import Iterator, Sequence

from kernelwright.metal.device.simulator.control_flow import (
    CALL,
    ENTRY,
    Function,
    natural_loops,
    read_functions,
    waiting_functions,
)

_WAITS = frozenset(("@kw_barrier", "@kw_simdgroup", "@kw_simdgroup_barrier"))
_WORDS = re.compile(
    r"\b(?:simd_\w*|simdgroup_\w*|quad_\w*|quadgroup_\w*|threadgroup_barrier|__metal_simd_\w*"
    r"|matmul2d\w*|\w*cooperative_tensor)\b|#\s*include\s*\"|##"
)
_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)
"""Odd, so that no number is lost; 2^64 over the golden ratio, as LLVM writes an `i64`."""
GET, SET, MET = "@kw_instance", "@kw_set_instance", "@kw_instance_met"
_DECLARATIONS = f"""
declare i64 {GET}() nounwind willreturn memory(inaccessiblemem: read)
declare void {SET}(i64) nounwind willreturn memory(inaccessiblemem: readwrite)
"""
_OWN = "%kw.instance.own"
_GET_CALL = re.compile(rf"^(  %\S+ = )(?:tail )?call (?:\w+ )*i64 {GET}\(\)")
_SET_CALL = re.compile(rf"^  (?:tail )?call void {SET}\(i64 (?:noundef )?(\S+)\)")
_KERNEL = re.compile(r'^define .*@"(?:\\01_?)?kw_entry:')


def may_wait(text: str) -> bool:
    """Return whether a text names something that waits, or includes what may."""
    return _WORDS.search(text) is not None


def with_instances(listing: str) -> str:
    """Return a listing, not optimised yet, that names the instance of each wait before it.

    A function with a single place that may wait, in no loop, adds nothing to what its callers say.
    """
    functions = list(read_functions(listing.split("\n")))
    waiting = waiting_functions(functions, _WAITS)
    added: dict[int, list[str]] = {}
    for function in functions:
        _add_instances(function, waiting, added)
    if not added:
        return listing
    lines = listing.split("\n")
    text = "\n".join("\n".join((*added.get(n, ()), line)) for n, line in enumerate(lines))
    return text + _DECLARATIONS


def with_own_instances(listing: str) -> str:
    """Keep the instance of a kernel that has all its calls in it in a variable of its own.

    A mark before each wait says what the variable holds.
    """
    if f"call void {SET}(" not in listing or MET in listing:
        return listing
    lines = listing.split("\n")
    numbers = itertools.count()
    for function in read_functions(lines):
        span = range(function.start, function.end)
        if _KERNEL.match(lines[function.start]) and any(_SET_CALL.match(lines[n]) for n in span):
            for n in span:
                lines[n] = "\n".join(_owned(lines[n], numbers))
            start = function.body - 1
            lines[start] += f"\n  {_OWN} = alloca i64, align 8\n  store i64 0, ptr {_OWN}, align 8"
    return "\n".join((*lines, f"declare void {MET}(i64) nounwind willreturn", ""))


def _owned(line: str, numbers: Iterator[int]) -> Iterator[str]:
    if found := _GET_CALL.match(line):
        yield f"{found[1]}load i64, ptr {_OWN}, align 8"
    elif found := _SET_CALL.match(line):
        yield f"  store i64 {found[1]}, ptr {_OWN}, align 8"
    else:
        if (found := CALL.match(line)) and found[1] in _WAITS:
            name = f"%kw.instance.met{next(numbers)}"
            yield f"  {name} = load i64, ptr {_OWN}, align 8"
            yield f"  call void {MET}(i64 {name})"
        yield line


def _add_instances(
    function: Function, waiting: frozenset[str], added: dict[int, list[str]]
) -> None:
    places = [(line, block) for line, block, callee in function.calls if callee in waiting]
    loops = {
        header: body
        for header, body in natural_loops(function.successors, ENTRY).items()
        if any(block in body for _, block in places)
    }
    if not places or (len(places) == 1 and not loops):
        return
    rounds = {header: f"%kw.rounds{n}" for n, header in enumerate(loops)}
    head = added.setdefault(function.body, [])
    for counter in rounds.values():
        head += [f"  {counter} = alloca i64, align 8", f"  store i64 0, ptr {counter}, align 8"]
    head.append(f"  %kw.instance = call i64 {GET}()")
    for number, (line, block) in enumerate(places, 1):
        around = [rounds[header] for header, body in loops.items() if block in body]
        added.setdefault(line, []).extend(_named(number, around))
    for header, body in loops.items():
        for before, targets in function.successors.items():
            if header in targets:
                counted = _counted(rounds[header], f"{before}.{header}", again=before in body)
                added.setdefault(function.terminators[before], []).extend(counted)


def _named(number: int, rounds: Sequence[str]) -> Iterator[str]:
    """Yield what tells the instance of a place within some loops."""
    name = f"%kw.at{number}"
    yield f"  {name}.0 = mul i64 %kw.instance, {_FACTOR}"
    yield f"  {name}.1 = add i64 {name}.0, {number}"
    last = f"{name}.1"
    for k, counter in enumerate(rounds):
        yield f"  {name}.r{k} = load i64, ptr {counter}, align 8"
        yield f"  {name}.m{k} = mul i64 {last}, {_FACTOR}"
        yield f"  {name}.n{k} = add i64 {name}.m{k}, {name}.r{k}"
        last = f"{name}.n{k}"
    yield f"  call void {SET}(i64 {last})"


def _counted(counter: str, edge: str, *, again: bool) -> Iterator[str]:
    """Yield what counts the rounds of a loop where it is entered, or goes on."""
    if not again:
        yield f"  store i64 0, ptr {counter}, align 8"
        return
    name = f"{counter}.{re.sub(r'[^0-9A-Za-z]', '_', edge)}"
    yield f"  {name} = load i64, ptr {counter}, align 8"
    yield f"  {name}.next = add i64 {name}, 1"
    yield f"  store i64 {name}.next, ptr {counter}, align 8"
