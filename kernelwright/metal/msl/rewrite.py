"""Metal text to the C++ that clang compiles for the simulator, every line where it was."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.errors import InputError
from kernelwright.metal.extent import evaluate
from kernelwright.metal.msl.aggregate import idle_constructors
from kernelwright.metal.msl.attribute import read_attributes
from kernelwright.metal.msl.declaration import analyze, macro_bodies
from kernelwright.metal.msl.deduction import argument_texts
from kernelwright.metal.msl.edit import EditedText, Editor
from kernelwright.metal.msl.entry import caller, host_name, is_kernel, pointer_text
from kernelwright.metal.msl.include import Include, point_includes
from kernelwright.metal.msl.keyword import rename_later_keywords
from kernelwright.metal.msl.macro import Macros, integer_macros
from kernelwright.metal.msl.method import MEMORY_SPACES, rewrite_choices, rewrite_method
from kernelwright.metal.msl.operand import rewrite_expressions
from kernelwright.metal.msl.overload import thread_overloads
from kernelwright.metal.msl.qualifier import idle_qualifiers
from kernelwright.metal.msl.signature import Parameter, read_parameters
from kernelwright.metal.msl.structure import Function, Instantiation, Structure, Variable, split
from kernelwright.metal.msl.swizzle import swizzle_assignments
from kernelwright.metal.msl.threadgroup_variable import NumberedVariable, ThreadgroupVariables
from kernelwright.metal.msl.token import Token, TokenKind, tokenize
from kernelwright.metal.msl.unset import unset_declarators
from kernelwright.metal.msl.waiting import waiting_functions

_VECTOR_SIZES = frozenset("234")
"""The last letter of a vector's type, and of no scalar's that a function constant may have."""


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
    callers: Counter[str] = field(default_factory=Counter)
    """How many functions call a kernel for the runtime: one for each overload of its name."""
    constants: list[FunctionConstant] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    misplaced: list[NumberedVariable] = field(default_factory=list)
    """Threadgroup variables of functions that are no kernels."""
    has_kernels_in_macros: bool = False
    """A macro's body defines kernels: only the preprocessed text shows which."""


def rewrite(
    text: str,
    *,
    file: str = "source",
    variables: list[NumberedVariable] | None = None,
    unset: list[NumberedVariable] | None = None,
    include: Include = lambda name: None,
    is_known: Callable[[str], bool] = lambda name: False,
    threadgroup_bytes: int = 32768,
    macros: Macros | None = None,
) -> Rewritten:
    """Rewrite one file.

    Args:
        text: Metal source.
        file: Its name in the records.
        variables: Where its threadgroup variables are added; their places are their ids.
        unset: Where variables that threads declare without a value are added, for the sanitizer;
            None leaves them untold.
        include: Returns the path to include in place of a named file, None to leave it.
        is_known: Says whether the text may include a file, for `__has_include`.
        threadgroup_bytes: What a threadgroup may take, by default Metal's limit.
        macros: What stands before the file defines; its own definitions are added.
    """
    tokens = tokenize(text)
    editor, macros = Editor(text), Macros() if macros is None else macros
    includes = list(point_includes(text, tokens, editor, include, is_known))
    idle = {t.offset: t for t in idle_qualifiers(tokens)}
    structure = analyze([t for t in tokens if t.offset not in idle] if idle else tokens, macros)
    known = [] if variables is None else variables
    shared = ThreadgroupVariables(editor, file, threadgroup_bytes, known)
    worker = _Rewriter(text, tokens, structure, file, shared, editor, unset)
    worker.result.includes = includes
    for token in idle.values():
        editor.replace(token.offset, token.text, "")
    rewrite_expressions(editor, tokens)
    rename_later_keywords(editor, tokens)
    worker.swizzles()
    worker.declarations(structure)
    for fragment in macro_bodies(tokens, macros, ("kernel", "host_name", "threadgroup")):
        defines = _defines_kernels(fragment)
        worker.result.has_kernels_in_macros |= defines
        if not defines:
            worker.declarations(fragment, is_macro=True)
    worker.result.edited = worker.editor.finish()
    return worker.result


@dataclass
class _Rewriter:
    text: str
    tokens: Sequence[Token]
    structure: Structure
    file: str
    shared: ThreadgroupVariables
    editor: Editor
    unset: list[NumberedVariable] | None

    def __post_init__(self) -> None:
        self.result = Rewritten(EditedText(self.text, self.text, ()), self.tokens, self.structure)

    def swizzles(self) -> None:
        """Write `v.xy += w` as `v->*kw_letters<0, 1>{} += w`.

        The swizzle is a property, which clang cannot rebuild from a template where some
        `operator+=` is visible, and MLX's headers make one visible everywhere.
        """
        members = self.structure.members
        for access, name, elements in swizzle_assignments(self.tokens, members):
            chosen = ", ".join(map(str, elements))
            self.editor.replace(access.offset, access.text, "->*")
            self.editor.replace(name.offset, name.text, f"kw_letters<{chosen}>{{}}")

    def declarations(self, structure: Structure, *, is_macro: bool = False) -> None:
        """Rewrite kernels, instantiations, methods, threadgroup variables, constants."""
        macros = integer_macros(self.tokens)
        waiting = waiting_functions(structure)
        self.binding_attributes(structure)
        idle = {f.start for f in idle_constructors(structure)}
        for place, names in thread_overloads(structure):
            clause = " && ".join(f"kw_in_thread<{name}>" for name in names)
            self.editor.insert(structure.code[place].end, f" requires ({clause})")
        chosen = rewrite_choices(self.editor, structure)
        for function in structure.functions:
            if function.start in idle:
                self.drop(structure, range(function.start, function.end + 1))
                continue
            self.array_parameters(structure, function)
            if is_kernel(structure, function):
                self.kernel(structure, function, macros, waiting)
            else:
                rewrite_method(self.editor, structure, function, chosen)
            if function.body is not None and not is_macro:
                before = len(self.shared.variables)
                in_lambdas = self.shared.move(structure, structure.locals_of(function))
                self.unset_variables(structure, function)
                is_placed = is_kernel(structure, function)
                self.result.misplaced += in_lambdas if is_placed else self.shared.variables[before:]
        if is_macro:
            moved = self.shared.move(structure, (*structure.variables, *structure.locals))
            self.result.misplaced += moved
        for index in range(len(structure.code)):
            if structure.spelling(index) == "is_function_constant_defined":
                self.is_defined(structure, index)
        for instantiation in structure.instantiations:
            self.instantiation(structure, instantiation)
        for variable in (*structure.variables, *structure.locals):
            self.texts(structure, variable)
        for variable in structure.variables:
            self.constant(structure, variable, macros)

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
        self.result.callers[function.name] += 1
        call = caller(structure, function, parameters, waits=function.name in waiting)
        self.editor.insert(structure.code[function.end].end, call)

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
        for d in function.declared:
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

    def unset_variables(self, structure: Structure, function: Function) -> None:
        """Tell the sanitizer of each variable that a function declares without a value."""
        if self.unset is None:
            return
        for variable, declarator in unset_declarators(structure, structure.locals_of(function)):
            token, number = structure.code[declarator.name_at], len(self.unset)
            self.unset.append(NumberedVariable(token.spelling, self.file, token.line, token.column))
            call = f" KW_UNSET({token.spelling}, {number})"
            self.editor.insert(structure.code[variable.end].end, call)

    def texts(self, structure: Structure, variable: Variable) -> None:
        """Keep the texts to which `constant char*` points in constant memory, as Metal does."""
        if not any(structure.spelling(i) == "constant" for i in structure.qualifiers(variable)):
            return
        for declarator in variable.declarators:
            if declarator.value is None or not declarator.marks:
                continue
            first, last = declarator.value
            tokens = structure.code[first : last + 1]
            for before, token, after in zip(
                (None, *tokens), tokens, (*tokens[1:], None), strict=False
            ):
                if token.kind is not TokenKind.STRING:
                    continue
                # Neighbours are one text.
                if before is None or before.kind is not TokenKind.STRING:
                    self.editor.insert(token.offset, "kw_text<")
                if after is None or after.kind is not TokenKind.STRING:
                    self.editor.insert(token.end, ">.letters")

    def instantiation(self, structure: Structure, found: Instantiation) -> None:
        """Turn `template [[host_name("n")]] … f<A>;` into an entry point."""
        host = host_name(structure, found.attributes)
        deduced = argument_texts(self.structure, structure, found) if found.declared else None
        if host is None or (deduced is None and found.arguments is None):
            return
        first = found.name_at
        while structure.spelling(first - 1) == "::":
            first -= 2
        scope = structure.text(first, found.name_at - 1) if first < found.name_at else ""
        name = structure.code[found.name_at]
        head = f"KW_INSTANTIATE_IN({scope}, " if scope else "KW_INSTANTIATE("
        begin, end = found.arguments or (found.name_at, found.name_at)
        kept = (found.name_at, *range(begin + 1, end))
        self.drop(structure, (i for i in range(found.start, found.end + 1) if i not in kept))
        self.editor.insert(structure.code[found.start].offset, f"{head}{host}, ")
        written = len(list(split(structure, begin + 1, end))) if begin + 1 < end else 0
        self.editor.insert(name.end, ", " if written else "")
        more = "".join(f", {text}" for text in (deduced or ())[written:])
        # `>>` closes the last argument, too.
        inner = ">" if structure.spelling(end) == ">>" else ""
        at = structure.code[end].offset if written else name.end
        check = ""
        if found.declared:
            types = (pointer_text(structure, d.type_tokens) for d in found.declared)
            given = structure.text(begin + 1, end - 1) if written else ""
            kernel = f"{scope}{name.spelling}<{given}{inner}{more if written else more[2:]}>"
            check = f' KW_CHECK_INSTANCE(({", ".join(types)}), "{name.spelling}", {kernel})'
        self.editor.insert(at, f"{inner}{more}){check}")

    def drop(self, structure: Structure, places: Iterable[int]) -> None:
        """Take tokens away."""
        for token in map(structure.code.__getitem__, places):
            self.editor.replace(token.offset, token.text, "")

    def is_defined(self, structure: Structure, index: int) -> None:
        """Write `is_function_constant_defined(x)` as the constant that says so."""
        name, close = index + 2, index + 3
        if structure.spelling(close) != ")":
            return
        first, last = structure.code[index], structure.code[close]
        written = self.text[first.offset : last.end]
        self.editor.replace(first.offset, written, f"kw_defined_{structure.spelling(name)}")

    def constant(self, structure: Structure, variable: Variable, macros: Mapping[str, int]) -> None:
        """Initialise a function constant from the macro that carries its value."""
        lists = tuple(_attribute_lists(structure, variable))
        arguments = [
            argument
            for start, end in lists
            for name, argument, _ in read_attributes(structure, start, end)
            if name == "function_constant"
        ]
        if not arguments or not variable.declarators:
            return
        name = structure.spelling(variable.declarators[0].name_at)
        specifiers = [i for i in variable.specifiers if not _is_inside(i, lists)]
        type_ = " ".join(
            w for w in map(structure.spelling, specifiers)
            if w not in ("constant", "const", "static", "constexpr")
        )  # fmt: skip
        number = _integer(arguments[0], macros)
        self.result.constants.append(FunctionConstant(name, type_, number))
        words = (structure.hidden.get(i, structure.spelling(i)) for i in specifiers)
        is_constexpr = any("constexpr" in word.split() for word in words)
        # A vector is never a constant expression, but its initialiser must be one.
        is_plain = is_constexpr or type_[-1:] in _VECTOR_SIZES
        value = "" if is_plain else "KW_SPECIALIZED"
        self.editor.insert(
            structure.code[variable.end].offset,
            f" = {value}(KW_CONSTANT_{number});"
            f" constant bool kw_defined_{name} = {value}(KW_CONSTANT_DEFINED_{number})",
        )


def _attribute_lists(structure: Structure, variable: Variable) -> Iterator[tuple[int, int]]:
    """Yield the first and last token of each `[[…]]` of a declaration."""
    for index in range(variable.start, variable.end):
        if structure.spelling(index) == structure.spelling(index + 1) == "[":
            yield index, structure.partner.get(index, index + 1)


def _defines_kernels(body: Structure) -> bool:
    """Say whether a macro's body defines kernels, whose names it may paste together."""
    if any(f.body is not None and is_kernel(body, f) for f in body.functions):
        return True
    return "kernel" in body.words and "{" in body.words and not body.instantiations


def _is_inside(index: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(start <= index <= end for start, end in ranges)


def _integer(text: str, macros: Mapping[str, int]) -> int:
    try:
        return evaluate(text, macros)
    except InputError:
        return -1
