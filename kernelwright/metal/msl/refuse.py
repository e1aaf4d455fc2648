"""What Metal refuses and clang would accept, found from a text's tokens, in Apple's words.

Wordings come from what Apple's compiler said about real kernels, in public bug reports and
compiler logs.
"""

from collections.abc import Iterable, Iterator
from typing import cast, get_args

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.attribute import read_attributes
from kernelwright.metal.msl.declaration import analyze
from kernelwright.metal.msl.deduction import argument_texts
from kernelwright.metal.msl.entry import host_name, is_kernel
from kernelwright.metal.msl.language import (
    DEFAULT,
    LanguageVersion,
    later_standard,
    newer_features,
)
from kernelwright.metal.msl.member_overload import never_chosen
from kernelwright.metal.msl.pointer import unqualified_pointers
from kernelwright.metal.msl.rewrite import Rewritten
from kernelwright.metal.msl.structure import Function, Structure, Variable
from kernelwright.metal.msl.token import TokenKind, tokenize
from kernelwright.metal.msl.types import is_builtin_type
from kernelwright.metal.msl.validate import invalid_signatures

_UNSUPPORTED_WORDS = frozenset(
    (
        *("double", "goto", "thread_local", "throw", "try", "typeid", "dynamic_cast", "new"),
        *("asm", "__asm", "__asm__"),
        *("__int128", "__int128_t", "__uint128_t", "_BitInt", "_ExtInt", "__float128", "_Complex"),
    )
)
_SPECIFIERS = frozenset(
    {"static", "const", "constexpr", "inline", "volatile", "extern", "unsigned", "signed"}
)
_FUNCTION_ATTRIBUTES = frozenset(
    {"max_total_threads_per_threadgroup", "kernel", "host_name", "visible", "patch"}
)
_BOUNDS = {"function_constant": (0, 65535), "max_total_threads_per_threadgroup": (1, 1024)}
"""Of attributes' arguments; `validate.py` has those of a kernel's parameters."""
_SPACES_OF_MEMORY = frozenset({"device", "threadgroup", "thread"})


def refuse(rewritten: Rewritten, language: LanguageVersion = DEFAULT) -> tuple[Diagnostic, ...]:
    """Return what Apple's compiler would refuse in a text of a version, by place."""
    structure = rewritten.structure
    found = (
        *_words(structure),
        *newer_features(rewritten.tokens, structure, language),
        *_attributes(structure),
        *_arguments_of_attributes(structure),
        *_instantiations(structure),
        *_program_scope(structure),
        *_statics(structure),
        *_never_chosen(structure),
        *_recursion(structure),
        *_main(structure),
        *_stages(structure),
        *_threadgroup_variables(rewritten),
        *_unevaluated_lambdas(structure, language),
        *unqualified_pointers(structure),
        *invalid_signatures(structure, rewritten.kernels),
    )
    return tuple(sorted(found, key=lambda d: (d.line, d.column)))


def least_language(texts: Iterable[tuple[str, str]]) -> LanguageVersion:
    """Return the first version that has all that the headers and bodies of kernels use."""
    read = []
    for header, source in texts:
        tokens = tokenize(f"{header}\nkernel void body() {{\n{source}\n}}")
        read.append((tokens, analyze(tokens)))
    for language in get_args(LanguageVersion):
        if not any(any(newer_features(*text, language)) for text in read):
            break
    return cast("LanguageVersion", language)


def _at(structure: Structure, index: int, message: str) -> Diagnostic:
    token = structure.code[index]
    return Diagnostic(message=message, line=token.line, column=token.column)


def _words(structure: Structure) -> Iterator[Diagnostic]:
    for index, token in enumerate(structure.code):
        if token.kind is not TokenKind.IDENTIFIER:
            continue
        word, before = structure.words[index], structure.spelling(index - 1)
        if before in (".", "->", "::"):
            continue
        if word == "long" and structure.spelling(index + 1) in ("long", "double"):
            name = f"{word} {structure.spelling(index + 1)}"
            yield _at(structure, index, f"'{name}' is not supported in Metal")
        elif word == "double" and before == "long":
            continue
        elif word in _UNSUPPORTED_WORDS and before != "operator":
            yield _at(structure, index, f"'{word}' is not supported in Metal")
        elif word == "delete" and before not in ("=", "operator"):
            yield _at(structure, index, "'delete' is not supported in Metal")
        elif word == "virtual":
            yield _at(structure, index, "virtual functions are not supported in Metal")
        elif word == "register":
            message = "Metal does not support the 'register' storage class specifier"
            yield _at(structure, index, message)


def _attributes(structure: Structure) -> Iterator[Diagnostic]:
    """Function attributes that stand where they apply to a type, or to nothing."""
    right: set[int] = set()
    for function in structure.functions:
        place = function.start
        for start, end in function.attributes:
            if start == place or structure.spelling(start - 1) in ("]", "inline", "static"):
                right.add(start)
                place = end + 1
        if structure.spelling(function.name_at + 1) == "[":
            right.add(function.name_at + 1)
    right.update(a for i in structure.instantiations for a, _ in i.attributes)
    for index in range(len(structure.code) - 1):
        is_list = structure.spelling(index) == "[" and structure.spelling(index + 1) == "["
        if not is_list or index in right:
            continue
        if structure.spelling(structure.partner.get(index, index) + 1) == "template":
            # clang's own words fit: an attribute list cannot appear here.
            continue
        for name, _, at in read_attributes(structure, index, structure.partner.get(index, index)):
            if name in _FUNCTION_ATTRIBUTES and name != "kernel":
                yield _at(structure, at, f"'{name}' attribute cannot be applied to types")


def _arguments_of_attributes(structure: Structure) -> Iterator[Diagnostic]:
    for index in range(len(structure.code) - 1):
        if not structure.spelling(index) == structure.spelling(index + 1) == "[":
            continue
        close = structure.partner.get(index, index)
        for name, argument, at in read_attributes(structure, index, close):
            least, most = _BOUNDS.get(name, (0, 0))
            is_number = argument.removeprefix("-").strip().isdigit()
            if most and is_number and not least <= int(argument.replace(" ", "")) <= most:
                message = f"'{name}' attribute parameter is out of bounds: must be between"
                yield _at(structure, at, f"{message} {least} and {most}")


def _instantiations(structure: Structure) -> Iterator[Diagnostic]:
    """Instantiations whose template arguments are neither written nor told by their types."""
    for found in structure.instantiations:
        is_named = host_name(structure, found.attributes) is not None
        is_told = found.arguments or argument_texts(structure, structure, found)
        if is_named and is_told is None:
            name = structure.spelling(found.name_at)
            message = f"explicit instantiation of '{name}' does not refer to a function template"
            yield _at(structure, found.name_at, message)


def _program_scope(structure: Structure) -> Iterator[Diagnostic]:
    for variable in structure.variables:
        if variable.in_class:
            continue
        words = {structure.spelling(i) for i in range(variable.start, variable.end)}
        for declarator in variable.declarators:
            name_at, is_set = declarator.name_at, declarator.value is not None
            if "constant" in words:
                # `constexpr constant T S::table[];` repeats what the class has initialised.
                is_repeated = structure.spelling(name_at - 1) == "::"
                is_elsewhere = is_repeated or words & {"function_constant", "extern"}
                if not is_set and not is_elsewhere:
                    message = "variable in constant address space must be initialized"
                    yield _at(structure, name_at, message)
                elif is_set and "function_constant" in words:
                    message = "'function_constant' attribute cannot be applied to a variable with "
                    yield _at(structure, name_at, f"{message}an initializer")
            elif _is_plain_declaration(structure, variable):
                message = "program scope variable must reside in constant address space"
                yield _at(structure, name_at, message)


def _is_plain_declaration(structure: Structure, variable: Variable) -> bool:
    """Say whether every word before the name is known; an unknown one may be a macro."""
    words = [
        structure.spelling(i)
        for i in variable.specifiers
        if structure.code[i].kind is TokenKind.IDENTIFIER
    ]
    types = [w for w in words if is_builtin_type(w) or w in structure.types]
    return bool(types) and set(words) <= {*_SPECIFIERS, *_SPACES_OF_MEMORY, *types}


def _statics(structure: Structure) -> Iterator[Diagnostic]:
    for variable in structure.locals:
        words = {structure.spelling(i) for i in structure.qualifiers(variable)}
        if variable.surroundings != "function" or "static" not in words or "constant" in words:
            continue
        if (head := next(iter(variable.declarators), None)) is not None:
            message = "variables in function scope cannot be declared static"
            yield _at(structure, head.name_at, message)


def _never_chosen(structure: Structure) -> Iterator[Diagnostic]:
    """Constructors, and members of classes without a name: the simulator takes one for all."""
    for function in never_chosen(structure):
        message = (
            f"'{function.name}' is overloaded by address space, and the simulator cannot choose "
            f"among constructors or members of a class without a name; let all do the same"
        )
        yield _at(structure, function.name_at, message)


def _recursion(structure: Structure) -> Iterator[Diagnostic]:
    """Cycles among functions of which the text defines just one of the name.

    One that is `constexpr` may recur where the compiler computes it.
    """
    defined: dict[str, list[Function]] = {}
    for function in structure.functions:
        if function.body is not None:
            defined.setdefault(function.name, []).append(function)
    lone = {
        name: functions[0]
        for name, functions in defined.items()
        if len(functions) == 1
        and functions[0].template is None
        and not functions[0].in_class
        and not _is_constexpr(structure, functions[0])
        and not is_kernel(structure, functions[0])
    }
    calls = {name: _calls(structure, f, lone) for name, f in lone.items()}
    for name in lone:
        for index, callee in calls[name]:
            if _reaches(callee, name, calls):
                yield _at(structure, index, "recursive function calls are not supported in Metal")


def _is_constexpr(structure: Structure, function: Function) -> bool:
    return "constexpr" in structure.words[function.start : function.name_at]


def _main(structure: Structure) -> Iterator[Diagnostic]:
    for function in structure.functions:
        if function.name == "main" and not function.scope and not is_kernel(structure, function):
            message = "non-qualified function cannot be called 'main'"
            yield _at(structure, function.name_at, message)


def _stages(structure: Structure) -> Iterator[Diagnostic]:
    """Functions of the stages that draw, which a file of shaders may have beside its kernels."""
    for function in structure.functions:
        for index in range(function.start, function.name_at):
            if (stage := structure.spelling(index)) in ("vertex", "fragment"):
                message = (
                    f"{stage} functions are not supported by the simulator; "
                    "move the kernels to a file of their own"
                )
                yield _at(structure, index, message)


def _unevaluated_lambdas(structure: Structure, language: LanguageVersion) -> Iterator[Diagnostic]:
    for index, word in enumerate(structure.words):
        end = structure.partner.get(index + 1)
        if word in ("decltype", "sizeof") and end is not None:
            for place, _ in structure.lambdas:
                if index < place < end:
                    what = "a lambda expression that is not evaluated"
                    yield _at(structure, place, later_standard(what, "C++20", language))


def _threadgroup_variables(rewritten: Rewritten) -> Iterator[Diagnostic]:
    """Metal Shading Language Specification 4, 4.4: a kernel declares them, or takes them."""
    for variable in rewritten.misplaced:
        message = (
            f"threadgroup variable '{variable.name}' must be declared in the kernel function; "
            "pass a pointer to it"
        )
        yield Diagnostic(message=message, line=variable.line, column=variable.column)


def _calls(
    structure: Structure, function: Function, lone: dict[str, Function]
) -> list[tuple[int, str]]:
    return [
        (call.name_at, structure.spelling(call.name_at))
        for call in structure.calls_of(function)
        if structure.spelling(call.name_at) in lone
    ]


def _reaches(start: str, goal: str, calls: dict[str, list[tuple[int, str]]]) -> bool:
    seen, stack = set[str](), [start]
    while stack:
        name = stack.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            stack.extend(callee for _, callee in calls[name])
    return False
