"""The versions of Metal's language, and what each took in, as macOS has them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.qualifier import idle_qualifiers
from kernelwright.metal.msl.structure import Structure
from kernelwright.metal.msl.token import Token

LanguageVersion = Literal["3.1", "3.2", "4.0", "4.1"]
DEFAULT: LanguageVersion = "4.0"
"""Of macOS 26."""
_MACOS: Mapping[int, LanguageVersion] = {14: "3.1", 15: "3.2", 26: "4.0", 27: "4.1"}
"""As MLX 0.32.4 chooses for custom kernels."""
_HEADERS: Mapping[str, LanguageVersion] = {
    "metal_logging": "3.2",
    "metal_tensor": "4.0",
    "metal_cooperative_tensor": "4.0",
    "MetalPerformancePrimitives/": "4.0",
}
_WORDS: Mapping[str, LanguageVersion] = {
    "os_log": "3.2",
    "atomic_thread_fence": "3.2",
    "thread_scope": "3.2",
    "cooperative_tensor": "4.0",
    "tensor_ops": "4.0",
}
"""Of the namespace metal; Metal Shading Language Specification 4, "New in Metal 3.2" and 4."""

_MACROS_SINCE_17 = (
    *("aggregate_bases", "aligned_new", "capture_star_this", "deduction_guides"),
    *("enumerator_attributes", "fold_expressions", "guaranteed_copy_elision", "hex_float"),
    *("if_constexpr", "inline_variables", "namespace_attributes", "nested_namespace_definitions"),
    *("noexcept_function_type", "nontype_template_args", "nontype_template_parameter_auto"),
    *("structured_bindings", "template_auto", "variadic_using"),
)
"""Without `__cpp_`: the feature macros that clang defines in C++17 and not in C++14."""
_MACROS_OF_14 = {
    "__cplusplus": "201402L",
    "__cpp_constexpr": "201304L",
    "__cpp_range_based_for": "200907",
}


def language_of(macos: int) -> LanguageVersion:
    """Return the version at which MLX compiles custom kernels on a macOS.

    Raises:
        InputError: MLX runs on no macOS so old.
    """
    known = [release for release in _MACOS if release <= macos]
    if not known:
        raise InputError(f"MLX runs on macOS 14 and later, found {macos}; pass 14 or more.")
    return _MACOS[max(known)]


def macos_of(language: LanguageVersion) -> int:
    """Return the first macOS on which MLX compiles custom kernels at a version."""
    return min(macos for macos, version in _MACOS.items() if version >= language)


def standard_of(language: LanguageVersion) -> Literal["C++14", "C++17"]:
    """Return the standard on which a version is based."""
    return "C++14" if language < "4.0" else "C++17"


def later_standard(what: str, since: str, language: LanguageVersion) -> str:
    """Say that a version's standard is older than the one that brought something."""
    return f"{what} came with {since}; Metal {language} is {standard_of(language)}"


def version_macros(language: LanguageVersion) -> dict[str, str | None]:
    """Return what a version defines otherwise than the default one; None for what it has not."""
    macros: dict[str, str | None] = {"__METAL_VERSION__": str(version_number(language))}
    if standard_of(language) == "C++14":
        macros |= _MACROS_OF_14 | dict.fromkeys(f"__cpp_{name}" for name in _MACROS_SINCE_17)
    return macros


def version_number(language: LanguageVersion) -> int:
    """Return `__METAL_VERSION__`: 320 for 3.2."""
    major, minor = language.split(".")
    return 100 * int(major) + 10 * int(minor)


def newer_features(
    tokens: Sequence[Token], structure: Structure, language: LanguageVersion
) -> Iterator[Diagnostic]:
    """Yield what a text uses that came with a later version than its own."""
    if language < "4.0":
        for place, _ in structure.lambdas:
            yield _later("lambda expressions are", structure.code[place], language, "4.0")
    for token, what, since in (*_headers(tokens), *_qualifiers(tokens), *_words(structure)):
        if language < since:
            yield _later(what, token, language, since)


def _later(
    what: str, token: Token, language: LanguageVersion, since: LanguageVersion
) -> Diagnostic:
    message = f"{what} not supported in Metal {language}; Metal {since} brought it"
    return Diagnostic(message=message, line=token.line, column=token.column)


def _headers(tokens: Sequence[Token]) -> Iterator[tuple[Token, str, LanguageVersion]]:
    included = [t for t in tokens if t.is_code and t.directive in ("include", "import")]
    for place, token in enumerate(included):
        if token.text == "<":
            line = (t.text for t in included[place + 1 : place + 8] if t.line == token.line)
            name = "".join(line).split(">")[0]
            for header, since in _HEADERS.items():
                if name == header or (header.endswith("/") and name.startswith(header)):
                    yield token, f"the header <{name}> is", since


def _qualifiers(tokens: Sequence[Token]) -> Iterator[tuple[Token, str, LanguageVersion]]:
    for token in idle_qualifiers(tokens):
        if token.text == "coherent":
            yield token, "the qualifier 'coherent' is", "3.2"


def _words(structure: Structure) -> Iterator[tuple[Token, str, LanguageVersion]]:
    own = {f.name for f in structure.functions} | structure.types
    for place, word in enumerate(structure.words):
        if (since := _WORDS.get(word)) is None or word in own:
            continue
        if structure.spelling(place - 1) not in (".", "->"):
            yield structure.code[place], f"'{word}' is", since
