"""What Apple's compiler refuses and clang accepts, found in a text's syntax tree.

Rules that need types, or what a name stands for, are here; those that tokens tell are in
`metal/msl/refuse.py`. Wordings are Apple's where they are known.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from kernelwright.metal.device.simulator.syntax_tree import Node
from kernelwright.metal.msl.language import LanguageVersion
from kernelwright.metal.msl.member_overload import OBJECT

_FUNCTION_POINTER = re.compile(r"\((?:[\w:<>, ]*::)?[*&]+[^()]*\)\s*\(")
_VARIABLES = frozenset(("VarDecl", "ParmVarDecl", "FieldDecl"))
_FUNCTIONS = frozenset(
    (
        "FunctionDecl",
        "CXXMethodDecl",
        "CXXConstructorDecl",
        "CXXConversionDecl",
        "CXXDestructorDecl",
    )
)
_UNSUPPORTED = {
    "AddrLabelExpr": "addresses of labels are not supported in Metal",
    "IndirectGotoStmt": "'goto' is not supported in Metal",
    "GotoStmt": "'goto' is not supported in Metal",
    "CXXNoexceptExpr": "the operator 'noexcept' is not supported in Metal",
    "VAArgExpr": "variable arguments are not supported in Metal",
}
_FIELDS = re.compile(r"\bmetal::kw_fields<")
_VECTOR = re.compile(r"(?:const |__\w+ )*metal::(?:packed_)?vec<")
_VALUE = re.compile(r"(?:const )?(?:metal::)?(?:(?:packed_)?vec<|matrix<|bfloat$)")
"""Types that are classes here and none in Metal."""
_ASSIGNMENT = re.compile(r"'(?:=|\+\+|--|(?:[-+*/%&|^]|<<|>>)=)'(?: |$)")
_NOT_INTEGRAL = re.compile(r"(?:float|half|_Float16|bfloat|metal::vec<.*>)$")
_DESCRIPTORS = frozenset(("matmul2d_descriptor", "convolution2d_descriptor"))
"""Classes whose values Metal 4's own templates take: <MetalPerformancePrimitives>."""
_RECORD = re.compile(r"\b(?:struct|class|union) (\w+)(?: definition)?$")
_CALLS = frozenset(("CallExpr",))
_KERNEL_CALL = re.compile(r" lvalue Function 0x[0-9a-f]+ '(\w+)' 'void \(")
_SHARED_FLOAT = re.compile(
    r" Function 0x[0-9a-f]+ 'atomic_\w+_explicit' .*__local atomic<float> \*"
)
_SHARED_FLOATS_SINCE: LanguageVersion = "4.1"
_DOUBLES = frozenset(("double", "long double"))
_ATTRIBUTES = frozenset(
    (
        # Of C++, keywords included.
        *("Aligned", "CXX11NoReturn", "Deprecated", "FallThrough", "Final", "Likely"),
        *("NoUniqueAddress", "Override", "StandardNoReturn", "Unlikely", "Unused"),
        "WarnUnusedResult",
        # Of Metal's own texts: how classes are laid out, functions put in line, loops unrolled.
        *("AlwaysInline", "Cold", "Hot", "LoopHint", "MaxFieldAlignment", "MayAlias", "NoInline"),
        *("Packed", "Visibility"),
        # The front end's, for references to arrays.
        "EnableIf",
    )
)
"""clang's names of attributes that Metal documents or its libraries use; Metal's own are gone from
the text before clang sees it. Any other may change what the simulator is told of a kernel."""
_BUILTIN = re.compile(r"(\w+) '")
_BUILTINS = frozenset(("__builtin_unreachable", "__builtin_expect", "__builtin_assume"))
"""Hints to the optimizer, of which nothing hangs on the machine that compiles."""
_ATTRIBUTE = re.compile(r"(\w+)Attr$")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def language_breaches(nodes: Sequence[Node]) -> Iterator[tuple[Node, str]]:
    """Yield each node that Apple's compiler refuses, and what it says."""
    records = {
        found[1]
        for node in nodes
        if node.kind == "CXXRecordDecl" and (found := _RECORD.search(node.details))
    }
    for node in nodes:
        if message := _UNSUPPORTED.get(node.kind):
            yield node, message
        elif node.kind in _VARIABLES and _FUNCTION_POINTER.search(node.type):
            yield node, "function pointers are not supported in Metal"
        elif _is_vector_element(node) and (message := _bound_element(node)):
            yield node, message
        elif _is_double(node):
            yield node, f"'{node.type}' is not supported in Metal"
        elif node.kind == "TemplateTypeParmDecl" and _is_of_auto(node):
            yield node, "'auto' is not allowed in a function's parameters before C++20"
        elif node.kind in _FUNCTIONS and _is_variadic(node):
            yield node, "variable arguments are not supported in Metal"
        elif node.kind == "CXXParenListInitExpr":
            # C++20 initialises a class without constructors so; Metal is C++17 at most.
            yield node, f"no matching constructor for initialization of '{node.type}'"
        elif _assigns_to_value(node):
            yield node, "expression is not assignable"
        elif node.kind == "ParmVarDecl" and _is_object(node) and OBJECT not in node.details:
            yield node, "explicit object parameters are not supported in Metal"
        elif node.kind == "NonTypeTemplateParmDecl" and _is_class_or_float(node.type, records):
            message = f"a non-type template parameter cannot have type '{node.type}' before C++20"
            yield node, message
        elif node.kind == "CXXMethodDecl" and _is_wide_subscript(node):
            yield node, "overloaded 'operator[]' cannot have more than one parameter"
        elif node.kind == "BuiltinAttr":
            if node.place is not None and (name := _foreign_builtin(node)):
                yield node, f"'{name}' is not supported in Metal"
        elif node.place is not None and (name := _foreign_attribute(node)):
            yield node, f"the attribute '{name}' is not supported in Metal; remove it"


def _is_builtin(function: Node | None) -> bool:
    return function is not None and any(n.kind == "BuiltinAttr" for n in function.children)


def _foreign_builtin(node: Node) -> str:
    """Return the function of clang's own that an attribute marks; empty for what Metal has."""
    found = _BUILTIN.search(node.parent.details) if node.parent is not None else None
    return "" if found is None or found[1] in _BUILTINS else found[1]


def _foreign_attribute(node: Node) -> str:
    """Return the name of an attribute that Metal has not; empty for all else."""
    found = _ATTRIBUTE.match(node.kind)
    if found is None or found[1] in _ATTRIBUTES or _is_builtin(node.parent):
        return ""
    return _CAPITAL.sub("_", found[1]).lower()


def _assigns_to_value(node: Node) -> bool:
    """Say whether a vector, a matrix, one of its elements or a bfloat is set that is no place."""
    if not _ASSIGNMENT.search(node.details):
        return False
    if node.kind == "CXXOperatorCallExpr" and len(node.children) > 1:
        target = _unwrapped(node.children[1])
    elif node.kind in ("BinaryOperator", "CompoundAssignOperator", "UnaryOperator"):
        target = _unwrapped(node.children[0])
    else:
        return False
    while target.kind == "CXXOperatorCallExpr" and "'[]'" in target.details:
        target = _unwrapped(target.children[1])
    return target.kind == "MaterializeTemporaryExpr" and _VALUE.match(target.type) is not None


def _unwrapped(node: Node) -> Node:
    while node.kind in ("ParenExpr", "ImplicitCastExpr") and node.children:
        node = node.children[0]
    return node


def _is_class_or_float(type_: str, records: Collection[str]) -> bool:
    name = type_.split("<")[0].split("::")[-1]
    is_own = name in records and name not in _DESCRIPTORS
    return _NOT_INTEGRAL.match(type_) is not None or is_own


def called_kernels(nodes: Sequence[Node], kernels: Collection[str]) -> Iterator[tuple[Node, str]]:
    """Yield calls of kernels: Metal Shading Language Specification 4, 5.1, has none."""
    for node in nodes:
        if node.kind == "DeclRefExpr" and (found := _KERNEL_CALL.search(node.details)):
            is_call = any(a.kind == "CallExpr" for a in node.ancestors())
            if found[1] in kernels and is_call:
                yield node, f"kernel function '{found[1]}' cannot be called"


def shared_float_atomics(
    nodes: Sequence[Node], language: LanguageVersion
) -> Iterator[tuple[Node, str]]:
    """Yield atomic operations on floats in threadgroup memory in a version that has none.

    Metal Shading Language Specification 4, 2.6: "Metal 3 supports the atomic_float for device
    memory only"; that of 4.1 has addition and subtraction there.
    """
    if language >= _SHARED_FLOATS_SINCE:
        return
    message = (
        f"atomic_float in threadgroup memory is not supported in Metal {language}; "
        f"Metal {_SHARED_FLOATS_SINCE} brought it"
    )
    for node in nodes:
        if node.kind == "DeclRefExpr" and _SHARED_FLOAT.search(node.details):
            yield node, message


def _is_vector_element(node: Node) -> bool:
    """Say whether an expression is `v.x` or `v[i]`, as a place that can be written."""
    if " lvalue" not in node.details or not node.children:
        return False
    if node.kind == "MemberExpr":
        return _FIELDS.search(node.children[0].type) is not None
    is_subscript = node.kind == "CXXOperatorCallExpr" and "'[]'" in node.details
    is_subscript = is_subscript and len(node.children) == 3
    return is_subscript and _VECTOR.match(node.children[1].type) is not None


def _bound_element(node: Node) -> str:
    """Say what is wrong with taking a vector's element for an object with an address."""
    parent = node.parent
    while parent is not None and parent.kind == "ParenExpr":
        node, parent = parent, parent.parent
    if parent is None:
        return ""
    if parent.kind == "UnaryOperator" and "prefix '&'" in parent.details:
        return "address of vector element requested"
    if re.match(r"(?:__\w+ )*const\b", node.type):
        return ""
    is_reference = parent.kind == "VarDecl" and parent.type.endswith("&")
    # Where a template leaves open what is called, arguments are not converted yet.
    is_called = parent.kind in _CALLS and parent.children[0].cast == "FunctionToPointerDecay"
    is_argument = is_called and node in parent.children[1:]
    if is_reference or is_argument:
        return "non-const reference cannot bind to vector element"
    return ""


def _is_double(node: Node) -> bool:
    if node.kind == "FloatingLiteral":
        # Literals without suffix are floats, but for those that stand for function constants.
        return node.type == "long double"
    return node.kind in _VARIABLES and node.type in _DOUBLES


def _is_of_auto(node: Node) -> bool:
    """Say whether a template's parameter stands for an `auto` of a function that is no lambda."""
    is_implied = re.search(r"\bimplicit\b.*:auto$", node.details) is not None
    return is_implied and all(a.kind != "LambdaExpr" for a in node.ancestors())


def _is_variadic(node: Node) -> bool:
    return re.search(r"(?:\(|, )\.\.\.\)", node.type) is not None


def _is_object(parameter: Node) -> bool:
    """Say whether a parameter is the object that a method is called for."""
    return " this '" in parameter.details


def _is_wide_subscript(node: Node) -> bool:
    """Say whether a method of a text is an `operator[]` of C++23, which Metal's tensors have."""
    if node.place is None:
        return False
    parameters = sum(
        child.kind == "ParmVarDecl" and not _is_object(child) for child in node.children
    )
    return " operator[] " in node.details and parameters > 1
