"""What lets a text look at an address, found in its syntax tree and in its optimised listing.

Where arrays lie differs between devices and runs, so nothing that is computed may hang on it.
"""

import re
from collections.abc import Iterator, Sequence

from kernelwright.metal.device.simulator.syntax_tree import (
    Node,
    bare,
    called,
    operands,
    pointee,
)
from kernelwright.metal.device.simulator.wide.assembly import (
    Function,
    Instruction,
    Module,
    UnknownAssemblyError,
)
from kernelwright.metal.device.simulator.wide.origin import Origins

CAST = (
    "a pointer becomes a number, or a number a pointer; an address means nothing, so compute with "
    "indices instead."
)
REINTERPRETED = (
    "memory that holds a pointer is read as another type; an address means nothing, so compute "
    "with indices instead."
)
UNION = "a union shares its memory between a pointer and another member; use a struct."
COMPARED = (
    "pointers are compared or subtracted that may point into different arrays; compare indices "
    "instead."
)
_NUMBERS = frozenset(("PointerToIntegral", "IntegralToPointer"))
_REINTERPRETING = frozenset(
    ("BitCast", "LValueBitCast", "LValueToRValueBitCast", "AddressSpaceConversion")
)
_COMPARISONS = frozenset(("<", ">", "<=", ">=", "==", "!=", "-", "<=>"))
_WORD = re.compile(r"[A-Za-z_]\w*")
_ARGUMENTS = re.compile(r"\w+ ?(?:<[^<>]*>|\[[^<>]*\])::(\w)")
_INNERMOST = re.compile(r"(\w+)<([^<>]*)>(?!::)")
_BOUNDS = re.compile(r"\[[^\[\]]*\]")
_ENCLOSING = re.compile(r"\w+::")
_RECORDS = frozenset(
    (
        *("CXXRecordDecl", "ClassTemplateSpecializationDecl"),
        "ClassTemplatePartialSpecializationDecl",
    )
)
_ENTRY = "kw_entry:"
_COMPARED_POINTERS = re.compile(r"^icmp (?:samesign )?\w+ ptr (\S+), (\S+)$")
_TO_INTEGER = re.compile(r"^ptrtoint ptr (\S+) to i64$")


def address_breaches(nodes: Sequence[Node]) -> Iterator[tuple[Node, str]]:
    """Yield each expression and union by which a text could look at an address, and why."""
    holders = _holders(nodes)
    for node in nodes:
        if node.cast in _NUMBERS:
            yield node, CAST
        elif node.cast in _REINTERPRETING and _reinterprets(node, holders):
            yield node, REINTERPRETED
        elif node.kind in _RECORDS and _is_union_of_pointers(node, holders):
            yield node, UNION


def pointer_comparisons(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield comparisons and differences of two pointers that are not plainly of one array."""
    for node in nodes:
        if node.kind != "BinaryOperator" or node.operator not in _COMPARISONS:
            continue
        sides = operands(node)
        if len(sides) != 2 or not all(_is_pointer(side.type) for side in sides):
            continue
        if any(side.cast == "NullToPointer" for side in sides):
            continue
        roots = [_variable(side) for side in sides]
        if roots[0] is None or roots[0] != roots[1]:
            yield node


def compares_arrays(listing: str) -> bool:
    """Say whether pointers of different origins meet in an optimised listing.

    Everything must have been inlined: a parameter's origin is not known.
    """
    if "icmp" not in listing and "ptrtoint" not in listing:
        return False
    try:
        module = Module.read(listing)
        entries = frozenset(name for name in module.spans if _ENTRY in name)
        reached = module.reachable(entries) & module.spans.keys()
        return any(_meets(module, module.function(name)) for name in reached)
    except (UnknownAssemblyError, KeyError):
        return True


def _holders(nodes: Sequence[Node]) -> frozenset[str]:
    """Return the names of the classes that have pointers in them."""
    parts: dict[str, set[str]] = {}
    for node in nodes:
        if node.kind not in _RECORDS or (name := _record_name(node)) is None:
            continue
        types = parts.setdefault(name, set())
        types.update(c.type for c in node.children if c.kind in ("FieldDecl", "Base"))
    found: set[str] = set()
    while more := {n for n, types in parts.items() if n not in found and _any_holds(types, found)}:
        found |= more
    return frozenset(found)


def _record_name(node: Node) -> str | None:
    found = re.search(r"\b(?:struct|class|union) (\w+)", node.details)
    return found[1] if found else None


def _any_holds(types: set[str], holders: set[str]) -> bool:
    return any(_holds_pointer(type_, holders) for type_ in types)


def _holds_pointer(type_: str, holders: set[str] | frozenset[str]) -> bool:
    type_ = _BOUNDS.sub("", type_)
    return "*" in type_ or "&" in type_ or not holders.isdisjoint(_WORD.findall(_bare_names(type_)))


def _bare_names(type_: str) -> str:
    """Return a type without the classes and namespaces that only enclose it."""
    before = ""
    while before != type_:
        # The arguments of a class that encloses say nothing of the one inside.
        before, type_ = type_, _ARGUMENTS.sub(r"\1", type_)
        type_ = _INNERMOST.sub(r"\1 [\2]", type_)
    return _ENCLOSING.sub("", type_)


def _is_pointer(type_: str) -> bool:
    return pointee(type_) is not None


def _reinterprets(node: Node, holders: frozenset[str]) -> bool:
    """Say whether a cast lets memory with a pointer in it be read or written as another type."""
    if not node.children:
        return False
    before, after = node.children[0].type, node.type
    if "kw_threadgroup_alloc" in called(node.children[0]):
        return False
    if node.cast in ("LValueBitCast", "LValueToRValueBitCast"):
        seen = [before, after]
    else:
        found = pointee(before), pointee(after)
        if found[0] is None or found[1] is None:
            return node.cast == "BitCast" and any(
                _holds_pointer(t, holders) for t in (before, after)
            )
        seen = [found[0], found[1]]
    if _unqualified(seen[0]) == _unqualified(seen[1]):
        return False
    return any(_holds_pointer(type_, holders) for type_ in seen)


def _unqualified(type_: str) -> str:
    words = re.sub(r"\b(?:const|volatile|__global_device|__global_host|__local)\b", " ", type_)
    return " ".join(words.split())


def _is_union_of_pointers(node: Node, holders: frozenset[str]) -> bool:
    if not re.search(r"\bunion\b.* definition", node.details):
        return False
    fields = [c.type for c in node.children if c.kind == "FieldDecl"]
    return len(fields) > 1 and any(_holds_pointer(type_, holders) for type_ in fields)


def _variable(node: Node) -> str | None:
    """Return the address of the variable that a pointer is computed from, if it plainly is one."""
    node = bare(node)
    while True:
        if node.kind == "DeclRefExpr":
            return node.targets[0] if node.targets else None
        if node.kind == "BinaryOperator" and node.operator in ("+", "-"):
            side = next((c for c in operands(node) if _is_pointer(c.type)), None)
            if side is None:
                return None
            node = side
        elif node.cast == "ArrayToPointerDecay":
            node = bare(node.children[0])
        else:
            return None


def _meets(module: Module, function: Function) -> bool:
    origins = Origins(module, function)
    is_entry = _ENTRY in function.name
    instructions = [i for block in function.blocks for i in block.instructions]
    differences = {i.result: found[1] for i in instructions if (found := _TO_INTEGER.match(i.text))}
    for i in instructions:
        pair = _compared(i, differences)
        if pair is None:
            continue
        if len(pair) != 2 or not is_entry:
            return True
        one, other = (origins.of(name) for name in pair)
        if one is None or other is None or one != other:
            return True
    return False


def _compared(i: Instruction, differences: dict[str, str]) -> tuple[str, ...] | None:
    """Return the pointers that meet in an instruction; None where none does."""
    if found := _COMPARED_POINTERS.match(i.text):
        pair = found[1], found[2]
        return None if "null" in pair else pair
    numbers = [name for name in i.operands if name in differences]
    if not numbers:
        return None
    if i.operation == "sub" and len(numbers) == 2:
        return tuple(differences[name] for name in numbers)
    return tuple(numbers[:1])
