"""Metal text to the C++ that clang compiles for the simulator, every line where it was."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.errors import InputError
from kernelwright.metal.extent import evaluate
from kernelwright.metal.msl.declaration import analyze
from kernelwright.metal.msl.edit import EditedText, Editor
from kernelwright.metal.msl.entry import caller, host_name, is_kernel
from kernelwright.metal.msl.qualifier import idle_qualifiers
from kernelwright.metal.msl.signature import (
    Parameter,
    declared_parameters,
    read_parameters,
)
from kernelwright.metal.msl.structure import (
    Function,
    Instantiation,
    Structure,
    split,
)
from kernelwright.metal.msl.swizzle import swizzle_assignments
from kernelwright.metal.msl.token import Token, TokenKind, tokenize
from kernelwright.metal.msl.waiting import waiting_functions

MEMBER_SPACES = frozenset({"device", "threadgroup", "constant", "thread"})
MEMORY_SPACES = frozenset({"device", "threadgroup", "constant"})
_NO_NUMBERS = frozenset({"if", "elif", "include", "line", "pragma", "error", "ifdef", "ifndef"})
_FLOAT = re.compile(r"(?:(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?)\Z")
_HEX_FLOAT = re.compile(r"0[xX][\da-fA-F.']*[pP][+-]?\d+\Z")
_HALF = re.compile(r"(.*)[hH]\Z")
_BFLOAT = re.compile(r"(.*)(?:bf|BF)\Z")


@dataclass(frozen=True, slots=True)
class ThreadgroupDeclaration:
    """A variable in threadgroup memory; its place in the list of them all is its id."""

    name: str
    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class FunctionConstant:
    """`constant T name [[function_constant(index)]];`."""

    name: str
    type: str
    index: int


@dataclass
class Rewritten:
    """A text ready for clang, with what the simulator must know about it."""

    edited: EditedText
    tokens: Sequence[Token]
    structure: Structure
    kernels: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    constants: list[FunctionConstant] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    misplaced: list[ThreadgroupDeclaration] = field(default_factory=list)
    """Threadgroup variables of functions that are no kernels."""
    has_kernels_in_macros: bool = False
    """A macro's body defines kernels: only the preprocessed text shows which."""


def rewrite(
    text: str,
    *,
    file: str = "source",
    variables: list[ThreadgroupDeclaration] | None = None,
    include: Callable[[str], str | None] = lambda name: None,
    threadgroup_bytes: int = 32768,
) -> Rewritten:
    """Rewrite one file.

    Args:
        text: Metal source.
        file: Its name in the records.
        variables: Where its threadgroup variables are added; their places are their ids.
        include: Returns the path to include in place of a named file, None to leave it.
        threadgroup_bytes: What a threadgroup may take, by default Metal's limit.
    """
    tokens = tokenize(text)
    idle = {t.offset: t for t in idle_qualifiers(tokens)}
    structure = analyze([t for t in tokens if t.offset not in idle] if idle else tokens)
    known = [] if variables is None else variables
    worker = _Rewriter(text, tokens, structure, file, known, threadgroup_bytes)
    for token in idle.values():
        worker.editor.replace(token.offset, token.text, "")
    worker.directives(include)
    worker.words()
    worker.swizzles()
    worker.declarations(structure)
    for fragment in _macro_bodies(tokens):
        defines = any(f.body is not None and is_kernel(fragment, f) for f in fragment.functions)
        worker.result.has_kernels_in_macros |= defines
        if not defines:
            worker.declarations(fragment, is_macro=True)
    worker.result.edited = worker.editor.finish()
    return worker.result


def _macro_bodies(tokens: Sequence[Token]) -> Iterator[Structure]:
    """Yield the bodies of `#define`s that declare something the simulator rewrites."""
    interesting = ("kernel", "host_name", "threadgroup")
    body: list[Token] = []
    for token in (*tokens, None):
        if token is not None and token.directive == "define":
            # The first `#` begins the directive, later ones are operators.
            if token.is_code and (body or token.spelling != "#"):
                body.append(token)
            continue
        if any(t.spelling in interesting for t in body):
            yield analyze([t._replace(directive="") for t in _after_name(body)])
        body = []


def _after_name(body: list[Token]) -> list[Token]:
    """Drop `define NAME(parameters)`."""
    name, rest = body[1], body[2:]
    if rest and rest[0].spelling == "(" and rest[0].offset == name.end:
        close = next((i for i, t in enumerate(rest) if t.spelling == ")"), len(rest))
        return rest[close + 1 :]
    return rest


@dataclass
class _Rewriter:
    text: str
    tokens: Sequence[Token]
    structure: Structure
    file: str
    variables: list[ThreadgroupDeclaration]
    limit: int
    """Bytes of threadgroup memory."""

    def __post_init__(self) -> None:
        self.editor = Editor(self.text)
        self.result = Rewritten(EditedText(self.text, self.text, ()), self.tokens, self.structure)

    def directives(self, include: Callable[[str], str | None]) -> None:
        """Point `#include`s at rewritten files."""
        code = [t for t in self.tokens if t.is_code and t.directive in ("include", "import")]
        for place, token in enumerate(code):
            if token.spelling not in ("include", "import") or place + 1 >= len(code):
                continue
            following = code[place + 1]
            if following.kind is TokenKind.STRING:
                name, written = following.text[1:-1], following.text
            elif following.spelling == "<":
                rest = self.text[following.offset :].split("\n", 1)[0]
                written = rest[: rest.find(">") + 1]
                name = written[1:-1]
            else:
                continue
            self.result.includes.append(name)
            if (path := include(name)) is not None:
                self.editor.replace(following.offset, written, f'"{path}"')

    def words(self) -> None:
        """Suffix literals and guard the middle operand of every conditional."""
        questions: list[list[Token]] = [[]]
        for token in self.tokens:
            if token.directive in _NO_NUMBERS or not token.is_code:
                continue
            if token.kind is TokenKind.NUMBER:
                self.number(token)
            elif token.kind is TokenKind.PUNCTUATOR:
                self.conditional(token, questions)

    def conditional(self, token: Token, questions: list[list[Token]]) -> None:
        """Write `c ? a : b` as `c ? (kw_rvalue, (a)) : b`; see docs/design/simulator.md."""
        text = token.spelling
        if text in ("(", "[", "{"):
            questions.append([])
        elif text in (")", "]", "}"):
            if len(questions) > 1:
                questions.pop()
        elif text == ";":
            questions[-1].clear()
        elif text == "?":
            questions[-1].append(token)
        elif text == ":" and questions[-1]:
            question = questions[-1].pop()
            self.editor.insert(question.end, " (kw_rvalue, (")
            self.editor.insert(token.offset, "))")

    def swizzles(self) -> None:
        """Write `v.xy += w` as `v->*kw_letters<0, 1>{} += w`.

        The swizzle is a property, which clang cannot rebuild from a template where some
        `operator+=` is visible, and MLX's headers make one visible everywhere.
        """
        for access, name, elements in swizzle_assignments(self.tokens):
            chosen = ", ".join(map(str, elements))
            self.editor.replace(access.offset, access.text, "->*")
            self.editor.replace(name.offset, name.text, f"kw_letters<{chosen}>{{}}")

    def number(self, token: Token) -> None:
        text = token.spelling
        if text.startswith(("0x", "0X")):
            if _HEX_FLOAT.match(text):
                self.editor.insert(token.end, "f")
        elif bfloat := _BFLOAT.match(text):
            self.editor.replace(token.offset, token.text, f"bfloat({bfloat[1]}f)")
        elif half := _HALF.match(text):
            self.editor.replace(token.offset, token.text, f"{half[1]}f16")
        elif _FLOAT.match(text) and ("." in text or "e" in text or "E" in text):
            self.editor.insert(token.end, "f")

    def declarations(self, structure: Structure, *, is_macro: bool = False) -> None:
        """Rewrite kernels, instantiations, methods, threadgroup variables, constants."""
        macros = _object_macros(self.tokens)
        waiting = waiting_functions(structure)
        self.binding_attributes(structure)
        for function in structure.functions:
            self.array_parameters(structure, function)
            if is_kernel(structure, function):
                self.kernel(structure, function, macros, waiting)
            else:
                self.method(structure, function)
            if function.body is not None and not is_macro:
                before = len(self.variables)
                self.locals(structure, *function.body)
                if not is_kernel(structure, function):
                    self.result.misplaced += self.variables[before:]
        if is_macro:
            self.locals(structure, -1, len(structure.code))
        for index in range(len(structure.code)):
            if structure.spelling(index) == "is_function_constant_defined":
                self.is_defined(structure, index)
        for instantiation in structure.instantiations:
            self.instantiation(structure, instantiation)
        for variable in structure.variables:
            self.constant(structure, variable.start, variable.end, macros)

    def kernel(
        self,
        structure: Structure,
        function: Function,
        macros: Mapping[str, int],
        waiting: Collection[str],
    ) -> None:
        """Make a kernel an ordinary function followed by its caller."""
        place = function.start
        for start, end in function.attributes:
            place = end + 1 if start == place else place
        has_keyword = False
        for index in range(function.start, function.name_at):
            if structure.spelling(index) == "kernel" and not _is_inside(index, function.attributes):
                token, has_keyword = structure.code[index], True
                self.editor.replace(token.offset, token.text, "inline")
        if not has_keyword:
            self.editor.insert(structure.code[place].offset, "inline ")
        is_specialization = function.template is not None and (
            function.template[1] == function.template[0] + 1
        )
        if function.body is None or is_specialization:
            # A specialisation is called by the caller of its template.
            return
        parameters = read_parameters(structure, function, macros)
        self.result.kernels[function.name] = parameters
        call = caller(structure, function, parameters, waits=function.name in waiting)
        self.editor.insert(structure.code[function.end].end, call)

    def method(self, structure: Structure, function: Function) -> None:
        """Name the address space of `this` in the words that overload resolution needs.

        They are an attribute, which clang takes at the declarator's very end only.
        """
        space = structure.spelling(function.tail)
        if space in MEMBER_SPACES:
            token = structure.code[function.tail]
            self.editor.replace(token.offset, token.text, "")
            end = structure.code[function.tail_end].offset
            self.editor.insert(end, f"KW_MEMBER_{space} ")

    def binding_attributes(self, structure: Structure) -> None:
        """Hide `[[threadgroup(n)]]` from the macro of that name.

        What an instantiation repeats of its template's signature goes away as a whole.
        """
        repeated = {
            index
            for found in structure.instantiations
            if host_name(structure, found.attributes) is not None
            for index in range(found.start, found.end + 1)
        }
        for index in range(len(structure.code) - 1):
            if index in repeated:
                continue
            if structure.spelling(index) != "[" or structure.spelling(index + 1) != "[":
                continue
            for place in range(index, structure.partner.get(index, index)):
                token = structure.code[place]
                if token.text == "threadgroup":
                    self.editor.replace(token.offset, token.text, "kw_threadgroup")

    def array_parameters(self, structure: Structure, function: Function) -> None:
        """Write `constant int a[3]` as the pointer that it is; clang refuses the qualifier."""
        for d in declared_parameters(structure, function):
            words = {structure.spelling(i) for i in d.type_tokens}
            opener = d.name_at + 1
            is_array = d.name_at >= 0 and structure.spelling(opener) == "["
            is_array = is_array and structure.spelling(opener + 1) != "["
            if not is_array or not words & MEMORY_SPACES or words & {"(", "*", "&"}:
                continue
            name, first, last = (
                structure.code[i] for i in (d.name_at, opener, structure.partner[opener])
            )
            self.editor.insert(name.offset, "(*")
            self.editor.replace(first.offset, self.text[first.offset : last.end], ")")

    def locals(self, structure: Structure, start: int, end: int) -> None:
        """Move the threadgroup variables of a body into the threadgroup's memory."""
        scopes: list[list[str]] = [[]]
        for index in range(start + 1, end):
            word = structure.spelling(index)
            if word == "{":
                scopes.append([])
            elif word == "}" and len(scopes) > 1:
                scopes.pop()
            elif word == "threadgroup" and _begins_statement(structure, index):
                self.threadgroup(structure, index, end, scopes)

    def threadgroup(
        self, structure: Structure, start: int, end: int, scopes: list[list[str]]
    ) -> None:
        """Turn one declaration into a typedef and references to the threadgroup's memory."""
        begin = start + 1
        if structure.spelling(begin) in ("struct", "union"):
            while structure.spelling(begin) not in ("{", ";"):
                begin += 1
            is_defined = structure.spelling(begin) == "{"
            begin = structure.partner.get(begin, begin) if is_defined else start + 1
        stop = begin + 1
        while stop < end and structure.spelling(stop) not in (";", "}"):
            # Braces here hold an initializer, which clang refuses of a typedef as Metal does.
            bracket = structure.spelling(stop) in ("[", "{")
            stop = structure.partner.get(stop, stop) + 1 if bracket else stop + 1
        first = _first_declarator(structure, begin, stop)
        if first is None:
            return
        keyword = structure.code[start]
        self.editor.replace(keyword.offset, keyword.text, "typedef")
        self.drop_alignment(structure, start)
        references = []
        for part in split(structure, first, stop):
            token = structure.code[part.start]
            number = len(self.variables)
            self.variables.append(
                ThreadgroupDeclaration(token.spelling, self.file, token.line, token.column)
            )
            type_ = f"kw_threadgroup_{number}"
            scopes[-1].append(f"sizeof({type_})")
            self.editor.replace(token.offset, token.text, type_)
            references.append(
                f" threadgroup {type_}& {token.spelling} = *(threadgroup {type_}*)"
                f"kw_threadgroup_alloc({number}, sizeof({type_}), alignof({type_}));"
            )
        size = " + ".join(s for scope in scopes for s in scope)
        references.append(f" static_assert(kw_threadgroup_memory<{size}, {self.limit}>());")
        last = structure.code[min(stop, len(structure.code) - 1)]
        self.editor.insert(last.end, "".join(references))

    def drop_alignment(self, structure: Structure, start: int) -> None:
        """Take the `alignas(n)` in front of a variable away, which no typedef may have.

        Every variable begins at a multiple of 64 bytes.
        """
        opening = structure.partner.get(start - 1, 0) if structure.spelling(start - 1) == ")" else 0
        if structure.spelling(opening - 1) == "alignas":
            first, last = structure.code[opening - 1], structure.code[start - 1]
            self.editor.replace(first.offset, self.text[first.offset : last.end], "")

    def instantiation(self, structure: Structure, found: Instantiation) -> None:
        """Turn `template [[host_name("n")]] … f<A>;` into an entry point."""
        host = host_name(structure, found.attributes)
        if host is None:
            return
        begin, end = found.arguments
        first = found.name_at
        while structure.spelling(first - 1) == "::":
            first -= 2
        scope = structure.text(first, found.name_at - 1) if first < found.name_at else ""
        name = structure.code[found.name_at]
        head = f"KW_INSTANTIATE_IN({scope}, " if scope else "KW_INSTANTIATE("
        arguments = range(begin + 1, end)
        for index in range(found.start, found.end + 1):
            if index == found.name_at or index in arguments:
                continue
            token = structure.code[index]
            self.editor.replace(token.offset, token.text, "")
        self.editor.insert(structure.code[found.start].offset, f"{head}{host}, ")
        self.editor.insert(name.end, ", " if begin + 1 < end else "")
        self.editor.insert(structure.code[end].offset, ")")

    def is_defined(self, structure: Structure, index: int) -> None:
        """Write `is_function_constant_defined(x)` as the constant that says so."""
        name, close = index + 2, index + 3
        if structure.spelling(close) != ")":
            return
        first, last = structure.code[index], structure.code[close]
        written = self.text[first.offset : last.end]
        self.editor.replace(first.offset, written, f"kw_defined_{structure.spelling(name)}")

    def constant(
        self, structure: Structure, start: int, end: int, macros: Mapping[str, int]
    ) -> None:
        """Initialise a function constant from the macro that carries its value."""
        for index in range(start, end):
            if structure.spelling(index) != "function_constant":
                continue
            argument = structure.text(index + 2, structure.partner.get(index + 1, end) - 1)
            name_at = index - 3
            name = structure.spelling(name_at)
            type_ = " ".join(
                w for w in map(structure.spelling, range(start, name_at))
                if w not in ("constant", "const", "static", "constexpr")
            )  # fmt: skip
            number = _integer(argument, macros)
            self.result.constants.append(FunctionConstant(name, type_, number))
            self.editor.insert(
                structure.code[end].offset,
                f" = KW_CONSTANT_{number};"
                f" constant bool kw_defined_{name} = KW_CONSTANT_DEFINED_{number}",
            )
            return


def _first_declarator(structure: Structure, start: int, stop: int) -> int | None:
    """Return the first variable's name in `T a[n], b`; None for pointers and references."""
    place, depth = start, 0
    while place < stop:
        word = structure.spelling(place)
        if word in ("*", "&", "&&", "(") and depth == 0:
            return None
        depth += (word == "<") - (word == ">") - 2 * (word == ">>")
        following = structure.spelling(place + 1)
        is_name = structure.code[place].kind is TokenKind.IDENTIFIER and depth == 0
        if is_name and place > start and following in ("[", ",", ";", "=", "{"):
            return place
        place += 1
    return None


def _begins_statement(structure: Structure, index: int) -> bool:
    before = structure.spelling(index - 1)
    return before in ("", ";", "{", "}", ":", ")") and not (
        before == ")" and structure.spelling(index + 1) in ("{", ";")
    )


def _is_inside(index: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(start <= index <= end for start, end in ranges)


def _object_macros(tokens: Sequence[Token]) -> dict[str, int]:
    """Return the integer `#define`s of a text, which binding indices may use."""
    words = [t for t in tokens if t.directive == "define" and t.is_code]
    macros: dict[str, int] = {}
    for place, token in enumerate(words):
        if token.spelling == "define" and place + 2 < len(words):
            value = words[place + 2]
            ends = place + 3 >= len(words) or words[place + 3].spelling == "#"
            if value.kind is TokenKind.NUMBER and ends and value.text.isdigit():
                macros[words[place + 1].spelling] = int(value.text)
    return macros


def _integer(text: str, macros: Mapping[str, int]) -> int:
    try:
        return evaluate(text, macros)
    except InputError:
        return -1
