"""What a text asks of its compiler by `__has_feature` and the like, and what Metal's answers.

clang would answer for this machine and for the kind of build, which no text may know.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from kernelwright.metal.msl.token import Token, TokenKind

_FEATURES = frozenset(
    f"cxx_{name}"
    for name in (
        *("access_control_sfinae", "aggregate_nsdmi", "alias_templates", "alignas", "attributes"),
        *("auto_type", "binary_literals", "constexpr", "contextual_conversions", "decltype"),
        *("decltype_auto", "default_function_template_args", "defaulted_functions"),
        *("delegating_constructors", "deleted_functions", "explicit_conversions"),
        *("generalized_initializers", "generic_lambdas", "implicit_moves", "init_captures"),
        *("inheriting_constructors", "inline_namespaces", "lambdas", "local_type_template_args"),
        *("noexcept", "nonstatic_member_init", "nullptr", "override_control", "range_for"),
        *("raw_string_literals", "reference_qualified_functions", "relaxed_constexpr"),
        *("return_type_deduction", "rvalue_references", "static_assert", "strong_enums"),
        *("trailing_return", "unicode_literals", "unrestricted_unions", "user_literals"),
        *("variable_templates", "variadic_templates"),
    )
)
"""Of C++14, https://clang.llvm.org/docs/LanguageExtensions.html, without exceptions, run-time types
and threads, which Metal has not."""
_ATTRIBUTES = frozenset(
    (
        *("aligned", "always_inline", "cold", "deprecated", "hot", "may_alias", "noinline"),
        *("packed", "unused", "visibility"),
    )
)
_STANDARD = {
    # https://en.cppreference.com/w/cpp/feature_test
    "deprecated": 201309,
    "fallthrough": 201603,
    "maybe_unused": 201603,
    "nodiscard": 201603,
    "noreturn": 200809,
}
_ANSWERS: Mapping[str, Mapping[str, int]] = {
    "__has_feature": dict.fromkeys(_FEATURES, 1),
    "__has_extension": dict.fromkeys(_FEATURES, 1),
    "__has_attribute": dict.fromkeys(_ATTRIBUTES, 1),
    "__has_cpp_attribute": _STANDARD,
    # A text has no builtins of clang's, nor warnings by name.
    "__has_builtin": {},
    "__has_constexpr_builtin": {},
    "__has_declspec_attribute": {},
    "__has_warning": {},
    "__is_target_arch": {},
    "__is_target_environment": {},
    "__is_target_os": {},
    "__is_target_vendor": {},
    "__is_target_variant_environment": {},
    "__is_target_variant_os": {},
}
QUESTIONS = frozenset(_ANSWERS)
_OPERAND = re.compile(r"\s*\(([^()\n]*)\)")


def answers(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int, int]]:
    """Yield where each question begins and ends, with its answer."""
    for token in tokens:
        if token.kind is not TokenKind.IDENTIFIER or token.spelling not in QUESTIONS:
            continue
        if (found := _OPERAND.match(text, token.end)) is not None:
            asked = found[1].split("::")[-1].strip().strip("_")
            yield token.offset, found.end(), _ANSWERS[token.spelling].get(asked, 0)


def lonely_questions(code: Sequence[Token], text: str) -> Iterator[Token]:
    """Yield questions without what they ask for, by which a macro would ask in their place.

    `defined(__has_feature)` and a definition of it ask nothing.
    """
    for i, token in enumerate(code):
        if token.kind is not TokenKind.IDENTIFIER or token.spelling not in QUESTIONS:
            continue
        before = [t.spelling for t in code[max(i - 2, 0) : i]]
        is_named = "defined" in before or token.directive in ("ifdef", "ifndef", "undef")
        is_defined = before[-1:] == ["define"] and token.directive == "define"
        if not (is_named or is_defined or _OPERAND.match(text, token.end)):
            yield token
