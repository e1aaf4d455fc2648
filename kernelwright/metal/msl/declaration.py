"""Reads what a text declares from the tree that a grammar of C++ makes of it."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from kernelwright.metal.msl.attribute import read_attributes
from kernelwright.metal.msl.bracket import read_brackets
from kernelwright.metal.msl.declarator import (
    NAMES,
    function_head,
    inner_declarators,
    parameter_list,
)
from kernelwright.metal.msl.macro import Macros
from kernelwright.metal.msl.plain import plain_text
from kernelwright.metal.msl.structure import (
    Access,
    Call,
    Cast,
    Declarator,
    Declared,
    Function,
    Instantiation,
    Scope,
    Structure,
    Variable,
)
from kernelwright.metal.msl.token import Token, TokenKind

DEEPEST = 256
"""clang takes no deeper brackets either (`-fbracket-depth`)."""
_CLASSES = frozenset(("struct_specifier", "class_specifier", "union_specifier"))
_PARAMETERS = frozenset(
    ("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration")
)
_MARKS = frozenset(("*", "&", "&&"))
_TO_FUNCTIONS = frozenset(("function_declarator", "abstract_function_declarator"))
_QUALIFIERS = frozenset({"const", "volatile", "noexcept", "override", "final", "&", "&&"})
_TYPE_PARAMETERS = frozenset(
    (
        *("type_parameter_declaration", "optional_type_parameter_declaration"),
        *("variadic_type_parameter_declaration", "template_template_parameter_declaration"),
    )
)
_STATEMENTS = frozenset(("compound_statement", "case_statement"))
_NAMED_CASTS = frozenset(("reinterpret_cast", "static_cast", "const_cast"))


def analyze(
    tokens: Sequence[Token], macros: Macros | None = None, scope: Scope = "namespace"
) -> Structure:
    """Find what a text declares, casts and calls.

    Args:
        tokens: The text.
        macros: What files before it define; the text's own definitions are added.
        scope: Where it stands: statements of a function's body are those of a function.
    """
    known = Macros() if macros is None else macros
    known.define(tokens)
    brackets = read_brackets(tokens)
    code = brackets.code
    structure = Structure(code, brackets.words, brackets.partner)
    tree = _parser().parse(plain_text(brackets, known))
    hidden = known.qualifiers
    structure.hidden = {i: hidden[t.text] for i, t in enumerate(code) if t.text in hidden}
    structure.is_doubtful = tree.root_node.has_error or bool(brackets.superseded)
    _Reader(structure).read(tree.root_node, scope)
    return structure


def macro_bodies(
    tokens: Sequence[Token], macros: Macros, words: Collection[str]
) -> Iterator[Structure]:
    """Yield the bodies of the `#define`s in which one of some words stands."""
    body: list[Token] = []
    for token in (*tokens, None):
        if token is not None and token.directive == "define":
            # The first `#` begins the directive, later ones are operators.
            if token.is_code and (body or token.spelling != "#"):
                body.append(token)
            continue
        if any(t.spelling in words for t in body):
            yield analyze([t._replace(directive="") for t in _after_name(body)], macros)
        body = []


def _after_name(body: list[Token]) -> list[Token]:
    """Drop `define NAME(parameters)`."""
    name, rest = body[1], body[2:]
    if rest and rest[0].spelling == "(" and rest[0].offset == name.end:
        close = next((i for i, t in enumerate(rest) if t.spelling == ")"), len(rest))
        return rest[close + 1 :]
    return rest


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


@dataclass(frozen=True, slots=True)
class _Context:
    """What surrounds a node."""

    names: tuple[str, ...] = ()
    scope: Scope = "namespace"
    template: tuple[int, int] | None = None
    begin: int = -1
    """Where the template header that belongs to the node begins."""
    blocks: tuple[int, ...] = ()
    depth: int = 0

    @property
    def plain(self) -> "_Context":
        """The same for what lies inside, to which a template header does not belong."""
        return replace(self, template=None, begin=-1) if self.begin >= 0 else self


@dataclass
class _Reader:
    """Walks the tree once, in any order, without recursion: the text may be a stranger's."""

    structure: Structure
    stack: list[tuple[Node, _Context]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outer = {-1}
        self.offsets = [t.offset for t in self.structure.code]

    def read(self, root: Node, scope: Scope) -> None:
        """Record all below a node."""
        self.stack.append((root, _Context(scope=scope)))
        while self.stack:
            node, context = self.stack.pop()
            handler = _HANDLERS.get(node.type)
            inner = context.plain if handler is None else handler(self, node, context)
            if inner is not None and inner.depth < DEEPEST:
                below = replace(inner, depth=inner.depth + 1) if node.type in _DEEPER else inner
                self.stack.extend((child, below) for child in node.children if child.is_named)
        found = self.structure
        found.functions.sort(key=lambda f: f.start)
        found.instantiations.sort(key=lambda i: i.start)
        for declared in (found.variables, found.locals):
            declared.sort(key=lambda v: v.start)
        found.calls.sort(key=lambda c: c.name_at)
        found.accesses.sort(key=lambda a: a.name_at)

    def first(self, node: Node) -> int:
        """Return the token that begins a node."""
        return bisect_left(self.offsets, node.start_byte)

    def last(self, node: Node) -> int:
        """Return the token that ends a node."""
        return bisect_left(self.offsets, node.end_byte) - 1

    def block(self, node: Node, context: _Context) -> _Context:
        return replace(context.plain, blocks=(*context.blocks, self.first(node)))

    def unclear(self, node: Node, context: _Context) -> _Context:
        is_outside = context.scope == "namespace"
        return replace(context.plain, scope="unclear") if is_outside else context.plain

    def listed(self, node: Node, context: _Context) -> _Context:
        self.outer.add(self.first(node))
        return context.plain

    def namespace(self, node: Node, context: _Context) -> _Context:
        name = node.child_by_field_name("name")
        names = (
            ()
            if name is None
            else tuple(
                t.spelling
                for t in self.structure.code[self.first(name) : self.last(name) + 1]
                if t.kind is TokenKind.IDENTIFIER
            )
        )
        return _Context(names=(*context.names, *names), depth=context.depth)

    def class_(self, node: Node, context: _Context) -> _Context:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        spelled = "" if name is None else self.structure.spelling(self.first(name))
        if spelled and body is not None:
            self.structure.types.add(spelled)
        if body is None:
            return context.plain
        return _Context((*context.names, spelled), "class", depth=context.depth)

    def named_type(self, node: Node, context: _Context) -> _Context:
        name = node.child_by_field_name("name")
        if name is not None:
            self.structure.types.add(self.structure.spelling(self.first(name)))
        return context.plain

    def typedef(self, node: Node, context: _Context) -> _Context:
        for declarator in node.children_by_field_name("declarator"):
            found = inner_declarators(declarator)[-1]
            self.structure.types.add(self.structure.spelling(self.first(found)))
        return context.plain

    def type_parameter(self, node: Node, context: _Context) -> _Context:
        name = node.child_by_field_name("name") or node.children[-1]
        if name.type == "type_identifier":
            self.structure.types.add(self.structure.spelling(self.first(name)))
        return context.plain

    def template(self, node: Node, context: _Context) -> None:
        """Hand the header on to what it belongs to."""
        header = node.child_by_field_name("parameters")
        begin = context.begin if context.begin >= 0 else self.first(node)
        inner = context
        if header is not None:
            self.stack.append((header, context.plain))
            span = (self.first(header), self.last(header))
            inner = replace(context, template=span, begin=begin)
        self.stack.extend((c, inner) for c in node.children if c.is_named and c != header)

    def instantiation(self, node: Node, context: _Context) -> _Context | None:
        declarator = node.child_by_field_name("declarator")
        name = None if declarator is None else inner_declarators(declarator)[-1]
        while name is not None and name.type == "qualified_identifier":
            name = name.child_by_field_name("name")
        if declarator is None or name is None:
            return None
        arguments, listed = name.child_by_field_name("arguments"), parameter_list(declarator)
        if arguments is None and listed is None:
            return None
        self.structure.instantiations.append(
            Instantiation(
                start=self.first(node),
                name_at=self.first(name),
                arguments=arguments and (self.first(arguments), self.last(arguments)),
                attributes=tuple(self.attributes(node)),
                end=self.last(node),
                declared=() if listed is None else tuple(self.parameters(listed)),
            )
        )
        return None

    def attributes(self, node: Node) -> Iterator[tuple[int, int]]:
        for child in node.children:
            if child.type == "attribute_declaration":
                yield self.first(child), self.last(child)

    def entity(self, node: Node, context: _Context) -> _Context:
        """Record a function, or the variables of a declaration."""
        declarators = node.children_by_field_name("declarator")
        head = function_head(declarators[0]) if declarators else None
        if head is not None and context.scope != "function":
            self.function(node, head, context)
        elif node.type != "function_definition":
            self.variable(node, declarators, context)
        inner = context.plain
        if node.type == "function_definition":
            return replace(inner, scope="function", blocks=())
        return inner

    def function(self, node: Node, head: tuple[Node, Node], context: _Context) -> None:
        declarator, name = head
        listed = parameter_list(declarator)
        if listed is None:
            return
        code, spelling = self.structure.code, self.structure.spelling
        opening = self.first(listed)
        closing = self.structure.partner.get(opening, self.last(listed))
        tail = closing + 1
        while spelling(tail) in _QUALIFIERS:
            tail += 1
        body_at = node.child_by_field_name("body")
        braces = None if body_at is None else self.first(body_at)
        close = None if braces is None else self.structure.partner.get(braces)
        # A body without an end is none: clang says so at the end of the text.
        body = None if braces is None or close is None else (braces, close)
        start, end = self.first(node), self.last(node)
        self.structure.functions.append(
            Function(
                name=self.name(name, opening),
                scope=context.names,
                in_class=context.scope == "class",
                template=context.template,
                attributes=(*self.attributes(node), *self.attributes_of_name(declarator)),
                start=start,
                name_at=self.name_at(name),
                parameters=(opening, closing),
                tail=tail,
                tail_end=min(max(self.last(declarator), tail - 1) + 1, len(code) - 1),
                body=body,
                end=end if body is None else body[1],
                begin=context.begin if context.begin >= 0 else start,
                declared=tuple(self.parameters(listed)),
            )
        )

    def attributes_of_name(self, declarator: Node) -> Iterator[tuple[int, int]]:
        inner = declarator.child_by_field_name("declarator")
        if inner is not None and inner.type == "attributed_declarator":
            yield from self.attributes(inner)

    def name_at(self, name: Node) -> int:
        while name.type in ("qualified_identifier", "template_function", "template_method"):
            inner = name.child_by_field_name("name")
            if inner is None:
                break
            name = inner
        return self.last(name) if name.type == "destructor_name" else self.first(name)

    def name(self, name: Node, opening: int) -> str:
        at = self.name_at(name)
        if self.structure.spelling(at) == "operator":
            return self.structure.text(at, opening - 1)
        return self.structure.spelling(at)

    def parameters(self, listed: Node) -> Iterator[Declared]:
        named = [c for c in listed.children if c.type in _PARAMETERS]
        words = [self.structure.spelling(self.first(c)) for c in named]
        if len(named) == 1 and words == ["void"] and self.first(named[0]) == self.last(named[0]):
            return
        for parameter in named:
            yield self.parameter(parameter)

    def parameter(self, node: Node) -> Declared:
        declarator = node.child_by_field_name("declarator")
        inner = [] if declarator is None else inner_declarators(declarator)
        name_at = self.first(inner[-1]) if inner and inner[-1].type in NAMES else -1
        value = node.child_by_field_name("default_value")
        start = self.first(node)
        end = self.last(node) if value is None else self.first(value) - 2
        attributes: list[tuple[str, str, int]] = []
        type_tokens: list[int] = []
        place = start
        while place <= end:
            word = self.structure.spelling
            close = self.structure.partner.get(place, place)
            if word(place) == "[" and word(place + 1) == "[" and place < close:
                attributes += read_attributes(self.structure, place, close)
                place = close
            elif place != name_at:
                type_tokens.append(place)
            place += 1
        return Declared(tuple(type_tokens), name_at, tuple(attributes), start)

    def variable(self, node: Node, declarators: Sequence[Node], context: _Context) -> None:
        found = tuple(self.declarator(d) for d in declarators)
        start, end = self.first(node), self.last(node)
        if not found and (node.type != "declaration" or start == end):
            return
        value = node.child_by_field_name("default_value")
        if value is not None and found:
            # A member's initializer hangs on the declaration.
            found = (*found[:-1], replace(found[-1], value=(self.first(value), self.last(value))))
        scope = context.scope if self.is_open(start, context.scope) else "unclear"
        is_statement = node.parent is not None and node.parent.type in _STATEMENTS
        variable = Variable(start, end, context.names, scope, found, context.blocks, is_statement)
        is_local = scope in ("function", "unclear")
        (self.structure.locals if is_local else self.structure.variables).append(variable)

    def is_open(self, place: int, scope: Scope) -> bool:
        """Say whether what lies at namespace scope does so by its brackets too."""
        if scope != "namespace" or not self.structure.is_doubtful:
            return True
        return self.around[place] in self.outer

    @cached_property
    def around(self) -> list[int]:
        """The innermost bracket around each token, -1 where there is none."""
        found, stack = list[int](), [-1]
        for place in range(len(self.structure.code)):
            partner = self.structure.partner.get(place, place)
            if partner < place and len(stack) > 1:
                stack.pop()
            found.append(stack[-1])
            if partner > place:
                stack.append(place)
        return found

    def declarator(self, node: Node) -> Declarator:
        value, whole = None, node
        if node.type == "init_declarator":
            whole = node.child_by_field_name("declarator") or node
            given = node.child_by_field_name("value")
            value = None if given is None else (self.first(given), self.last(given))
        inner = inner_declarators(whole)
        name_at = self.first(inner[-1]) if inner[-1].type in NAMES else -1
        if inner[-1].type == "qualified_identifier":
            name_at = self.last(inner[-1])
        kinds = {n.type for n in inner}
        return Declarator(
            name_at=name_at,
            marks=tuple(self.marks(inner)),
            start=self.first(whole),
            end=self.last(whole),
            is_array=bool(kinds & {"array_declarator", "abstract_array_declarator"}),
            value=value,
        )

    def marks(self, inner: Sequence[Node]) -> Iterator[int]:
        """Yield the marks of a pointer or reference; one to a function has no address space."""
        if any(node.type in _TO_FUNCTIONS for node in inner):
            return
        for node in inner:
            for child in node.children:
                if child.type in _MARKS:
                    yield self.first(child)

    def cast(self, node: Node, context: _Context) -> _Context:
        type_ = node.child_by_field_name("type")
        if type_ is not None:
            self.written_type(type_)
        return context.plain

    def written_type(self, type_: Node) -> None:
        declarator = type_.child_by_field_name("declarator")
        marks = () if declarator is None else tuple(self.marks(inner_declarators(declarator)))
        self.structure.casts.append(Cast(self.first(type_), self.last(type_), marks))

    def call(self, node: Node, context: _Context) -> _Context:
        called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or given is None:
            return context.plain
        if called.type == "template_function":
            self.named_cast(called)
        if called.type in ("identifier", "template_function"):
            spans = tuple((self.first(c), self.last(c)) for c in given.children if c.is_named)
            self.structure.calls.append(Call(self.first(called), spans))
        return context.plain

    def named_cast(self, called: Node) -> None:
        """Record the type of `static_cast<T*>(x)`."""
        arguments = called.child_by_field_name("arguments")
        if arguments is None or self.structure.spelling(self.first(called)) not in _NAMED_CASTS:
            return
        for child in arguments.children:
            if child.type == "type_descriptor":
                self.written_type(child)

    def access(self, node: Node, context: _Context) -> _Context:
        object_, name = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if object_ is not None and name is not None:
            access = Access(self.first(object_), self.last(object_), self.first(name))
            self.structure.accesses.append(access)
        return context.plain

    def lambda_(self, node: Node, context: _Context) -> _Context:
        self.structure.lambdas.append((self.first(node), self.last(node)))
        return replace(context.plain, scope="function")


_DEEPER = frozenset(("compound_statement", "declaration_list", "field_declaration_list"))
_HANDLERS: Mapping[str, Callable[[_Reader, Node, _Context], _Context | None]] = {
    **dict.fromkeys(_CLASSES, _Reader.class_),
    **dict.fromkeys(_TYPE_PARAMETERS, _Reader.type_parameter),
    **dict.fromkeys(("function_definition", "declaration", "field_declaration"), _Reader.entity),
    **dict.fromkeys(("alias_declaration", "enum_specifier"), _Reader.named_type),
    "ERROR": _Reader.unclear,
    "namespace_definition": _Reader.namespace,
    "declaration_list": _Reader.listed,
    "compound_statement": _Reader.block,
    "type_definition": _Reader.typedef,
    "template_declaration": _Reader.template,
    "template_instantiation": _Reader.instantiation,
    "cast_expression": _Reader.cast,
    "call_expression": _Reader.call,
    "field_expression": _Reader.access,
    "lambda_expression": _Reader.lambda_,
}
