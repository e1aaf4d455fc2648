"""Function templates that are overloaded by address space.

clang's default space takes every pointer, so that T of `thread T*` would become `device float` and
win over an overload for `device const T*`.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from kernelwright.metal.msl.structure import Declared, Function, Structure

_QUALIFIERS = frozenset({"thread", "const", "volatile"})


def thread_overloads(structure: Structure) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the `>` of overloaded templates' headers, with what each has in `thread` memory alone.

    These are type parameters T of a `thread T*` or a `thread T&` among a function's parameters.
    """
    free = [f for f in structure.functions if f.template is not None and not f.in_class]
    known = Counter((f.scope, f.name) for f in structure.functions if not f.in_class)
    for function in free:
        if function.template is None or known[function.scope, function.name] < 2:
            continue
        types = _type_parameters(structure, function)
        targets = (_thread_target(structure, p) for p in function.declared)
        pointed = tuple(dict.fromkeys(t for t in targets if t in types))
        if pointed:
            yield function.template[1], pointed


def _type_parameters(structure: Structure, function: Function) -> set[str]:
    first, last = function.template or (0, 0)
    words = [structure.spelling(i) for i in range(first, last)]
    return {name for keyword, name in pairwise(words) if keyword in ("typename", "class")}


def _thread_target(structure: Structure, parameter: Declared) -> str:
    """Return the name that a parameter's pointer to `thread` memory points to, empty for none."""
    words = [structure.spelling(i) for i in parameter.type_tokens]
    named = [w for w in words if w not in _QUALIFIERS]
    is_pointer = len(named) == 2 and named[1] in ("*", "&")
    return named[0] if is_pointer and "thread" in words else ""
