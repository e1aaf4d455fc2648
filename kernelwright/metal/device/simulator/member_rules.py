"""Calls of which the object's address space is lost, found in a syntax tree.

A member that is overloaded by address space takes its object as a parameter (see
`msl/member_overload.py`); the one for `thread` has no such parameter, and takes every object that
has lost its space here. Free functions that are overloaded so take every argument that has.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from kernelwright.metal.device.simulator.syntax_tree import Node, bare
from kernelwright.metal.msl.diagnose import in_apples_words
from kernelwright.metal.msl.member_overload import OBJECT

UNCLEAR = (
    "'{name}' is overloaded by address space, and the simulator cannot tell that of {what}; "
    "{remedy}."
)
_CHOSEN = "what `?:` chooses", "name it first, by a reference or a pointer"
_ASSIGNED = "what an assignment returns", "name the object instead"
_CONVERTED = (
    "an object for which C++ takes the one for thread",
    "call it by the class that declares it, as in a.B::f()",
)
_INHERITED = "a member of this object that another file declares", "write this-> before it"
_SHARED = (
    "an object that is in any of several, in a member that is one for all of them",
    "declare both in one file",
)
_METHODS = frozenset(("CXXMethodDecl", "CXXConversionDecl"))
_FUNCTIONS = _METHODS | {"FunctionDecl"}
_CALLS = frozenset(("CXXMemberCallExpr", "CXXOperatorCallExpr", "CallExpr"))
_NAME = re.compile(r"(?:(?:used|referenced|implicit|invalid|constexpr) )*(.*?) '")
_SPACE = re.compile(r"\b__(?:global_device|global_host|local)\b")
_THREAD_MARKS = 4
"""Attributes by which space.h tells the overload for `thread`."""


def lost_spaces(nodes: Sequence[Node]) -> Iterator[tuple[Node, str]]:
    """Yield each call that would choose an overload by a space that is not the object's."""
    functions = {n.address: n for n in nodes if n.kind in _FUNCTIONS}
    members: dict[tuple[str, str], set[str]] = {}
    for n in functions.values():
        if parameter := _object_parameter(n):
            members.setdefault(_key(n), set()).update(_SPACE.findall(parameter.type))
    free = _overloaded(functions)
    if not members and not free:
        return
    for node in nodes:
        if node.kind not in _CALLS or (called := _called(node, functions)) is None:
            continue
        name = _key(called)[1]
        if _key(called) in members and not _has_object_parameter(called):
            if message := _lost_object(_object(node), called, members[_key(called)]):
                yield node, message
        elif called.kind == "FunctionDecl" and name in free:
            for argument in node.children[1:]:
                if reason := _reason(argument):
                    yield node, UNCLEAR.format(name=name, what=reason[0], remedy=reason[1])


def _lost_object(object_: Node | None, called: Node, spaces: Set[str]) -> str:
    """Say what is wrong with an object for which the overload for `thread` is called.

    There are others for `spaces`.
    """
    name = _key(called)[1]
    if object_ is None:
        return ""
    if reason := _reason(object_):
        return UNCLEAR.format(name=name, what=reason[0], remedy=reason[1])
    space = _space(object_)
    if space in spaces:
        return UNCLEAR.format(name=name, what=_CONVERTED[0], remedy=_CONVERTED[1])
    if _marks(called) == _THREAD_MARKS and space:
        where = in_apples_words(space)
        return f"no matching member function for call to '{name}': the object is in {where} memory"
    return ""


def _reason(node: Node) -> tuple[str, str] | None:
    """Say why the space of an object or an argument is lost; None where it is not."""
    node = _root(node)
    if node.kind == "CStyleCastExpr" and bare(node.children[0]).kind == "CXXThisExpr":
        return _SHARED if _is_shared(_method_around(node)) else None
    if _SPACE.search(node.type):
        return None
    if node.kind == "CXXOperatorCallExpr" and "'='" in node.details and len(node.children) == 3:
        return _ASSIGNED if _space(node.children[1]) else None
    if node.kind == "ConditionalOperator" and len(node.children) == 3:
        spaces = [_copied_space(side) for side in node.children[1:]]
        return _CHOSEN if spaces[0] and spaces[0] == spaces[1] else None
    if node.kind != "CXXThisExpr":
        return None
    inside = _method_around(node)
    if 0 < _marks(inside) < _THREAD_MARKS:
        return _INHERITED
    return _SHARED if _is_shared(inside) else None


def _method_around(node: Node) -> Node | None:
    return next((a for a in node.ancestors() if a.kind in _METHODS), None)


def _marks(function: Node | None) -> int:
    """Return how many attributes space.h gives a member for its space."""
    return sum(c.kind == "EnableIfAttr" for c in function.children) if function else 0


def _is_shared(function: Node | None) -> bool:
    """Say whether a member stands for its overloads of other spaces too."""
    around = (
        (a for a in function.ancestors() if a.kind != "FunctionTemplateDecl") if function else ()
    )
    class_ = next(iter(around), None)
    if function is None or class_ is None:
        return False
    members = [
        n
        for n in class_.walk()
        if n.kind in _METHODS and _key(n) == _key(function) and " static" not in n.details
    ]
    if any(_has_object_parameter(m) for m in members):
        return False
    return any(_marks(m) != _marks(function) for m in members)


def _root(node: Node) -> Node:
    """Return what an object is a part of."""
    while node.children:
        if node.cast == "LValueToRValue" and node.type.endswith("*"):
            break
        is_part = node.kind in ("MemberExpr", "ArraySubscriptExpr", "ParenExpr")
        is_around = node.kind in ("ImplicitCastExpr", "MaterializeTemporaryExpr")
        is_place = node.kind == "UnaryOperator" and re.search(r"prefix '[&*]'", node.details)
        if not (is_part or is_around or is_place):
            break
        node = node.children[0]
    return node


def _space(node: Node) -> str:
    """Return the space of an object before it was converted; empty for `thread`."""
    while not (found := _SPACE.search(node.type)):
        if node.kind not in ("ImplicitCastExpr", "ParenExpr") or node.cast == "LValueToRValue":
            return ""
        node = node.children[0]
    return found[0]


def _copied_space(node: Node) -> str:
    """Return the space of what `?:` chooses, which was copied or went through a comma."""
    while not (found := _space(node)):
        is_comma = node.kind == "CXXOperatorCallExpr" and "','" in node.details
        is_around = node.kind in ("ImplicitCastExpr", "ParenExpr", "MaterializeTemporaryExpr")
        is_copy = node.kind == "CXXConstructExpr" and len(node.children) == 1
        if not (is_comma or is_around or is_copy):
            return ""
        node = node.children[-1]
    return found


def _called(call: Node, functions: Mapping[str, Node]) -> Node | None:
    if not call.children:
        return None
    named = bare(call.children[0])
    while named.cast and named.children:
        named = named.children[0]
    return next((functions[t] for t in named.targets if t in functions), None)


def _object(call: Node) -> Node | None:
    if call.kind == "CXXMemberCallExpr":
        member = bare(call.children[0])
        return member.children[0] if member.children else None
    return call.children[1] if len(call.children) > 1 else None


def _key(function: Node) -> tuple[str, str]:
    """Return a function's class and name; the class is empty for a free one."""
    found = _NAME.match(function.details)
    around = (a for a in function.ancestors() if a.kind != "FunctionTemplateDecl")
    class_ = next(around, None)
    name = found[1] if found else ""
    is_member = class_ is not None and class_.kind.startswith(("CXXRecord", "ClassTemplate"))
    # Conversions to different types are one family.
    family = "operator" if function.kind == "CXXConversionDecl" else name
    return (class_.address if class_ is not None and is_member else "", family)


def _object_parameter(function: Node) -> Node | None:
    parameters = (c for c in function.children if c.kind == "ParmVarDecl" and OBJECT in c.details)
    return next(parameters, None)


def _has_object_parameter(function: Node) -> bool:
    return _object_parameter(function) is not None


def _is_instance(function: Node) -> bool:
    """Say whether a function is a template's for some arguments, as its first one is not."""
    template = function.parent
    if template is None or template.kind != "FunctionTemplateDecl":
        return False
    return function is not next(n for n in template.children if n.kind == function.kind)


def _overloaded(functions: Mapping[str, Node]) -> Set[str]:
    """Return the names of the text's free functions that differ in their parameters' spaces."""
    spaces: dict[str, set[tuple[str, ...]]] = {}
    for f in functions.values():
        if f.kind == "FunctionDecl" and f.place is not None and not _is_instance(f):
            types = [c.type for c in f.children if c.kind == "ParmVarDecl"]
            spaces.setdefault(_key(f)[1], set()).add(tuple(_SPACE.findall(" ".join(types))))
    return {name for name, some in spaces.items() if len(some) > 1}
