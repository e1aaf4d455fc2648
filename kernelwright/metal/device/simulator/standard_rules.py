"""C++ of a later standard than a version of Metal has: the simulator compiles all as C++23.

Metal 3 is C++14 and Metal 4 is C++17. What clang takes in these as an extension, Apple's compiler
takes too: `if constexpr` before C++17, `using enum` before C++20.
"""

import re
from collections.abc import Iterator, Sequence

from kernelwright.metal.device.simulator.syntax_tree import Node
from kernelwright.metal.diagnostic import Diagnostic, Severity
from kernelwright.metal.msl.language import LanguageVersion, later_standard, standard_of

_LATER = re.compile(
    r"(?P<what>.*?) (?:is|are) incompatible with C\+\+ standards before (?P<since>C\+\+\d+)"
)
_NO_EXTENSION = re.compile(
    r"(?:default construction|assignment) of lambda|class template argument deduction|"
    r"'<=>' operator|explicitly defaulting|virtual constexpr|member using declaration|"
    r"non-type template parameters declared"
)
"""Of clang's warnings about later standards, those that are errors in an earlier one."""
_COPIER = re.compile(r"(\w+) 'void \((?:const )?(?:__\w+ )*(?:const )?\1 &&?\)[^']*'(?P<end>.*)$")
_CREATED = frozenset(
    (
        *("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr", "CXXFunctionalCastExpr"),
        "CXXTemporaryObjectExpr",
    )
)


def later_warnings(language: LanguageVersion) -> tuple[str, ...]:
    """Return the flags by which clang warns of what a version's standard has not."""
    older = ("-Wpre-c++17-compat",) if standard_of(language) == "C++14" else ()
    return ("-Wno-everything", "-Wpre-c++20-compat", *older)


def later_features(found: Sequence[Diagnostic], language: LanguageVersion) -> list[Diagnostic]:
    """Turn clang's warnings about later standards into what a version's compiler refuses."""
    return [
        d.model_copy(
            update={
                "message": later_standard(match["what"], match["since"], language),
                "severity": Severity.ERROR,
            }
        )
        for d in found
        if (match := _LATER.match(d.message)) and _NO_EXTENSION.match(d.message)
    ]


def standard_breaches(
    nodes: Sequence[Node], language: LanguageVersion
) -> Iterator[tuple[Node, str]]:
    """Yield uses of later standards of which clang does not warn."""
    own = {node.address for node in nodes if node.kind.endswith(("FunctionDecl", "MethodDecl"))}
    for node in nodes:
        if node.place is None:
            continue
        if node.kind == "CXXRewrittenBinaryOperator" and _calls(node, own):
            yield node, later_standard("an operator made of another one", "C++20", language)
        elif node.kind == "CXXDeductionGuideDecl" and _is_used_aggregate(node):
            what = "class template argument deduction for aggregates"
            yield node, later_standard(what, "C++20", language)
        elif node.kind == "CXXDestructorDecl" and _is_constexpr(node):
            yield node, later_standard("a constexpr destructor", "C++20", language)
    if standard_of(language) == "C++14":
        yield from _without_17(nodes, language)


def _calls(node: Node, functions: set[str]) -> bool:
    return any(not functions.isdisjoint(n.targets) for n in node.walk() if n.kind == "DeclRefExpr")


def _is_used_aggregate(guide: Node) -> bool:
    words = guide.details.split("'")
    return " used " in f" {words[0]}" and " aggregate" in words[-1]


def _is_constexpr(destructor: Node) -> bool:
    words = destructor.details.split(" ~")[0].split()
    return "constexpr" in words and "implicit" not in words and "default" not in destructor.details


def _without_17(nodes: Sequence[Node], language: LanguageVersion) -> Iterator[tuple[Node, str]]:
    derived = {
        found[1]
        for node in nodes
        if node.kind == "Base" and node.parent is not None
        if (found := re.search(r"\b(?:struct|class) (\w+)", node.parent.details))
    }
    uncopied = _uncopied(nodes)
    for node in nodes:
        if node.place is None:
            continue
        if node.kind == "InitListExpr" and node.type in derived and _has_values(node):
            yield node, later_standard("an aggregate with a base class", "C++17", language)
        elif node.type in uncopied and node.kind in _CREATED and _initialises(node):
            yield (
                node,
                later_standard(
                    f"initialization of '{node.type}', which cannot be copied, by a value",
                    "C++17",
                    language,
                ),
            )


def _uncopied(nodes: Sequence[Node]) -> set[str]:
    """Return the classes that can neither be copied nor moved."""
    copiers = [
        (found[1], " delete" in found["end"])
        for node in nodes
        if node.kind == "CXXConstructorDecl" and (found := _COPIER.search(node.details))
    ]
    return {name for name, _ in copiers} - {name for name, deleted in copiers if not deleted}


def _has_values(node: Node) -> bool:
    return any(n.kind not in ("InitListExpr", "ImplicitValueInitExpr") for n in node.walk())


def _initialises(node: Node) -> bool:
    """Say whether a new value becomes a variable or a result."""
    parent = node.parent
    while parent is not None and parent.kind in ("ExprWithCleanups", "CXXBindTemporaryExpr"):
        parent = parent.parent
    is_value = "lvalue" not in node.details and "xvalue" not in node.details
    return is_value and parent is not None and parent.kind in ("VarDecl", "ReturnStmt")
