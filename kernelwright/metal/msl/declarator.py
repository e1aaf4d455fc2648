"""What a declarator names, and what stands around the name."""

from tree_sitter import Node

_WRAPPERS = frozenset(
    (
        *("pointer_declarator", "reference_declarator", "init_declarator", "array_declarator"),
        *("attributed_declarator", "parenthesized_declarator", "abstract_pointer_declarator"),
        *("abstract_reference_declarator", "abstract_array_declarator", "function_declarator"),
        *("abstract_function_declarator", "abstract_parenthesized_declarator"),
        *("variadic_declarator", "pointer_type_declarator"),
    )
)
NAMES = frozenset(
    (
        *("identifier", "field_identifier", "type_identifier", "qualified_identifier"),
        *("operator_name", "destructor_name", "template_function", "template_method"),
    )
)


def inner_declarators(declarator: Node) -> list[Node]:
    """Return a declarator and those inside it, down to the name if there is one."""
    found = [declarator]
    while (node := found[-1]).type in _WRAPPERS:
        inside = node.child_by_field_name("declarator") or next(
            (c for c in node.children if c.type in _WRAPPERS or c.type in NAMES), None
        )
        if inside is None:
            break
        found.append(inside)
    return found


def function_head(declarator: Node) -> tuple[Node, Node] | None:
    """Return the declarator with the parameters and the name of a function."""
    node: Node | None = declarator
    while node is not None:
        if node.type == "operator_cast":
            inner = node.child_by_field_name("declarator")
            return None if inner is None else (_with_parameters(inner), node)
        if node.type == "function_declarator":
            inner = node.child_by_field_name("declarator")
            while inner is not None and inner.type == "attributed_declarator":
                inner = inner.children[0]
            if inner is not None and inner.type == "qualified_identifier":
                last = inner.child_by_field_name("name")
                if last is not None and last.type == "operator_cast":
                    return node, last
            return (node, inner) if inner is not None and inner.type in NAMES else None
        if node.type not in _WRAPPERS or node.type == "parenthesized_declarator":
            return None
        following = node.child_by_field_name("declarator")
        node = following or next((c for c in node.children if c.type in _WRAPPERS), None)
    return None


def _with_parameters(node: Node) -> Node:
    return next(
        (n for n in inner_declarators(node) if n.type == "abstract_function_declarator"), node
    )


def parameter_list(declarator: Node) -> Node | None:
    """Return the parentheses of a function's parameters."""
    return declarator.child_by_field_name("parameters")
