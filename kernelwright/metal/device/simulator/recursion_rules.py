"""Cycles among the functions that a text defines, found in its syntax tree: Metal has no recursion.

Metal Shading Language Specification 4, "Restrictions". Functions of templates are those that the
text makes use of: a template may call itself with other arguments, and comes to an end. In MLX's
own headers a method may end by calling itself: Apple's compiler takes `LoopedElemToLoc::next`.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from kernelwright.metal.device.simulator.syntax_tree import Node

RECURSION = "recursive function calls are not supported in Metal"
_FUNCTIONS = frozenset(
    (
        "FunctionDecl",
        "CXXMethodDecl",
        "CXXConstructorDecl",
        "CXXConversionDecl",
        "CXXDestructorDecl",
    )
)
_NAMES = frozenset(("DeclRefExpr", "MemberExpr"))
_CONSTRUCTED = re.compile(r" '(void \([^']*\)[^']*)'")
_QUALIFIER = re.compile(r"^(?:const |volatile |struct |class |union )+")
_SCOPE = re.compile(r"\b(?:(?:struct|class|union) )?(\w+)(?: definition| inline)?$")

Calls = Mapping[str, Sequence[tuple[str, Node]]]
"""Of each function, by the address of its first declaration, what it names and where."""
Constructors = Mapping[tuple[str, str], Sequence[str]]
"""By class and type, which is all that an expression tells of one."""


def recursive_calls(nodes: Sequence[Node], files: Container[str]) -> Iterator[tuple[Node, str]]:
    """Yield each call that leads back to the function in which it stands.

    A `constexpr` function may call itself where the compiler computes it.

    Args:
        nodes: The syntax tree.
        files: Names of the text's own files, as opposed to MLX's headers.
    """
    first = _first_declarations(nodes)
    inside = _innermost_functions(nodes, first)
    calls = _calls(nodes, first, inside)
    computed = {first[n.address] for n in nodes if _is_computed(n)}
    calls = {
        caller: [(callee, place) for callee, place in named if callee not in computed]
        for caller, named in calls.items()
        if caller not in computed
    }
    circling = _circling(calls)
    for caller in circling:
        for callee, place in calls[caller]:
            is_cycle = callee in circling and caller in _reached(callee, calls)
            is_own = place.place is None or place.place.file in files
            if is_cycle and (is_own or callee != caller or not _ends_method(place)):
                yield place, RECURSION


def _ends_method(callee: Node) -> bool:
    """Say whether a method's call is a statement after which its function does nothing more."""
    node, parent = callee, callee.parent
    if parent is None or parent.kind != "CXXMemberCallExpr" or parent.children[0] is not node:
        return False
    while parent is not None and parent.kind not in _FUNCTIONS:
        is_last = parent.kind == "CompoundStmt" and parent.children[-1] is node
        is_branch = parent.kind == "IfStmt" and parent.children[0] is not node
        is_call = node is callee or parent.kind == "ExprWithCleanups"
        if not (is_last or is_branch or is_call):
            return False
        node, parent = parent, parent.parent
    return parent is not None


def _circling(calls: Calls) -> Set[str]:
    """Return the functions that are left when those that call no other one are taken away."""
    left = dict.fromkeys(calls)
    while ended := [f for f in left if not any(callee in left for callee, _ in calls[f])]:
        for function in ended:
            del left[function]
    return left.keys()


def _first_declarations(nodes: Sequence[Node]) -> Mapping[str, str]:
    first: dict[str, str] = {}
    for node in nodes:
        if node.kind in _FUNCTIONS:
            first[node.address] = first.get(node.previous, node.previous or node.address)
    return first


def _innermost_functions(nodes: Sequence[Node], first: Mapping[str, str]) -> Mapping[Node, str]:
    """Return the function that each statement is part of; those of patterns are part of none."""
    inside: dict[Node, str] = {}
    for node in nodes:
        if node.kind in _FUNCTIONS:
            inside[node] = "" if _is_pattern(node) else first[node.address]
        elif node.kind == "CompoundStmt" and node.parent and node.parent.kind == "LambdaExpr":
            # Shown once more below the lambda's own operator.
            inside[node] = ""
        elif _is_constant(node):
            inside[node] = ""
        else:
            inside[node] = inside.get(node.parent, "") if node.parent is not None else ""
    return inside


def _calls(
    nodes: Sequence[Node], first: Mapping[str, str], inside: Mapping[Node, str]
) -> dict[str, list[tuple[str, Node]]]:
    functions = {n.address: n for n in nodes if n.kind in _FUNCTIONS}
    constructors = _constructors(functions.values())
    calls: dict[str, list[tuple[str, Node]]] = {}
    for node in nodes:
        caller = inside[node]
        if not caller:
            continue
        named: Sequence[str] = ()
        if node.kind in _NAMES:
            named = [first[target] for target in node.targets if target in first]
        elif node.kind == "CXXConstructExpr" and caller in functions:
            named = _constructed(node, _scope(functions[caller]), constructors)
        calls.setdefault(caller, []).extend((callee, node) for callee in named)
    return calls


def _constructors(functions: Iterable[Node]) -> Constructors:
    found: dict[tuple[str, str], list[str]] = {}
    for node in functions:
        if node.kind == "CXXConstructorDecl" and not node.previous:
            found.setdefault((_scope(node), node.type), []).append(node.address)
    return found


def _constructed(node: Node, scope: str, constructors: Constructors) -> Sequence[str]:
    """Return the constructor that is called, if a text has one alone of its class and type."""
    called = _CONSTRUCTED.search(node.details)
    class_ = f"{_QUALIFIER.sub('', node.type)}::"
    while called is not None:
        alike = constructors.get((scope + class_, called[1]), ())
        if alike or not scope:
            return alike if len(alike) == 1 else ()
        scope = scope[: scope.rfind("::", 0, -2) + 2] if "::" in scope[:-2] else ""
    return ()


def _scope(function: Node) -> str:
    """Return the namespaces and classes around a function, such as `own::Sum::`."""
    names: list[str] = []
    for around in function.ancestors():
        if around.kind in _FUNCTIONS:
            break
        if around.kind in ("NamespaceDecl", "CXXRecordDecl"):
            named = _SCOPE.search(around.details)
            names.append(f"{named[1]}::" if named is not None else "::")
    return "".join(reversed(names))


def _is_pattern(function: Node) -> bool:
    """Say whether a function is what a template was written as, rather than made into."""
    node = function
    while (parent := node.parent) is not None:
        if parent.kind == "FunctionTemplateDecl":
            # Its instances follow what was written.
            is_template = next((c for c in parent.children if c.kind in _FUNCTIONS), None) is node
        else:
            is_template = parent.kind == "ClassTemplateDecl" and node.kind == "CXXRecordDecl"
        if is_template or node.kind == "ClassTemplatePartialSpecializationDecl":
            return True
        node = parent
    return False


def _is_constant(node: Node) -> bool:
    """Say whether the compiler itself computes what stands below a node."""
    is_variable = node.kind == "VarDecl" and re.search(r" constexpr\b", node.details) is not None
    return is_variable or node.kind == "ConstantExpr"


def _is_computed(node: Node) -> bool:
    """Say whether a function is declared `constexpr`, as lambdas are without being asked."""
    if node.kind not in _FUNCTIONS or re.search(r"\bconstexpr\b", node.details) is None:
        return False
    # A lambda's operator stands in a class, and a generic one in a template before that.
    return all(a.kind != "LambdaExpr" for a in islice(node.ancestors(), 3))


def _reached(start: str, calls: Calls) -> Set[str]:
    """Return the functions that one leads to, itself among them."""
    seen, pending = set[str](), [start]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(callee for callee, _ in calls.get(name, ()))
    return seen
