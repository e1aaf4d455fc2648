"""Mixtures of address spaces that clang accepts and Metal refuses, found in a text's syntax tree.

clang finds most of them itself. In its SYCL mode, though, `thread` is the default space: all other
spaces convert to it, and a template's `thread T&` takes a space into `T`.
"""

import re
from collections.abc import Iterator, Sequence

from kernelwright.metal.device.simulator.syntax_tree import Node, called, pointee
from kernelwright.metal.msl.diagnose import in_apples_words

_OUTER_SPACE = re.compile(r"\b__(?:global_device|global_host|local)\b")
_FUNCTION = re.compile(r" (?:Function|CXXMethod) (0x[0-9a-f]+) '([^']*)'")
_TO_BASE = ("DerivedToBase", "UncheckedDerivedToBase")
_CALLS = ("CallExpr", "CXXOperatorCallExpr")


def mixed_spaces(nodes: Sequence[Node]) -> Iterator[tuple[Node, str]]:
    """Yield each conversion and call that mixes address spaces, and what Apple would say."""
    functions = {n.address: n for n in nodes if n.kind in ("FunctionDecl", "CXXMethodDecl")}
    for node in nodes:
        if node.cast == "AddressSpaceConversion":
            if message := _conversion(node, functions):
                yield node, message
        elif node.kind in _CALLS and (message := _deduction(node, functions)):
            yield node, message


def _conversion(node: Node, functions: dict[str, Node]) -> str:
    """Say what is wrong with the conversion of a pointer or an object into another space."""
    operand, parent = node.children[0] if node.children else None, node.parent
    if operand is None or parent is None or "kw_threadgroup_alloc" in called(operand):
        return ""
    before, after = _with_space(operand.type), _with_space(node.type)
    if node.kind != "ImplicitCastExpr":
        if operand.kind == "CXXThisExpr":
            return ""
        how = "C-style cast" if node.kind == "CStyleCastExpr" else "cast"
        return f"{how} from {before} to {after} converts between mismatching address spaces"
    while parent.cast in _TO_BASE and parent.parent is not None:
        parent = parent.parent
    if parent.kind == "MemberExpr" or _is_object(node, parent, functions):
        # Objects convert to the default space for their methods, which Metal has one of each for.
        return ""
    is_pointer = pointee(node.type) is not None
    if not is_pointer and (parent.kind not in ("VarDecl", *_CALLS) or _is_constant(node.type)):
        # A copy, or a reference to one.
        return ""
    if parent.kind in _CALLS:
        return _mismatch(parent, before, after if is_pointer else f"{after[:-1]} &'")
    if parent.kind == "VarDecl":
        if not is_pointer:
            return f"a reference of type {after[:-1]} &' cannot bind to {before}"
        value = "an lvalue" if operand.cast == "LValueToRValue" else "an rvalue"
        return f"cannot initialize a variable of type {after} with {value} of type {before}"
    return f"cannot convert {before} to {after}, which is in another address space"


def _is_object(node: Node, call: Node, functions: dict[str, Node]) -> bool:
    """Say whether an operator is called for an object, or belongs to the standard library."""
    if call.kind != "CXXOperatorCallExpr":
        return False
    found = _FUNCTION.search(called(call.children[0])) if call.children else None
    declared = functions.get(found[1]) if found else None
    if declared is None or (declared.kind == "FunctionDecl" and declared.place is None):
        return True
    return declared.kind == "CXXMethodDecl" and call.children[1] is node


def _deduction(call: Node, functions: dict[str, Node]) -> str:
    """Say what is wrong with a call for which a template's `thread T` became another space."""
    found = _FUNCTION.search(called(call.children[0])) if call.children else None
    declared = functions.get(found[1]) if found else None
    if declared is None or declared.parent is None or declared.place is None:
        return ""
    if declared.parent.kind != "FunctionTemplateDecl":
        return ""
    pattern = next(n for n in declared.parent.children if n.kind == declared.kind)
    wanted, given = (_parameter_types(f) for f in (pattern, declared))
    if pattern is declared or len(wanted) != len(given):
        return ""
    for written, deduced in zip(wanted, given, strict=True):
        target, space = _target(written), _OUTER_SPACE.search(_target(deduced))
        if target and space is not None and not _OUTER_SPACE.search(target):
            return _mismatch(call, _with_space(_target(deduced)), f"'thread {written}'")
    return ""


def _parameter_types(function: Node) -> list[str]:
    return [n.type for n in function.children if n.kind == "ParmVarDecl"]


def _target(type_: str) -> str:
    """Return the qualifiers of what a reference or a pointer refers to, and its name if any."""
    found = re.fullmatch(r"(.*[^&*\s])\s*(?:&|\*)\s*(?:const|__restrict|\s)*", type_)
    return found[1] if found else ""


def _is_constant(type_: str) -> bool:
    return re.match(r"(?:__\w+ )*const\b", type_) is not None


def _mismatch(call: Node, before: str, after: str) -> str:
    found = _FUNCTION.search(called(call.children[0])) if call.children else None
    name = f" '{found[2]}'" if found else ""
    return f"no matching function for call to{name}; it takes {after}, not {before}"


def _with_space(type_: str) -> str:
    spelled = in_apples_words(type_)
    has_space = re.search(r"\b(?:device|constant|threadgroup)\b", spelled)
    return f"'{spelled}'" if has_space else f"'thread {spelled}'"
