"""Static rules on the tokens of a kernel: what may stand in a body and a header at all."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from kernelwright.evaluator.static import vocabulary as words
from kernelwright.evaluator.static.preprocess import Refusal, preprocess
from kernelwright.evaluator.static.text import CLOSING, OPENING, Brackets, Text
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import Kernel, Program
from kernelwright.metal.msl.token import Token, TokenKind

MAXIMUM_LENGTH = 1 << 17
"""Characters of a text; the longest that templates and models have written is a tenth of it."""
_MOST_FOUND = 20
"""Breaches of one rule in one text that are told."""


def check_program(program: Program) -> tuple[Diagnostic, ...]:
    """Return every breach of the static rules, in the order of kernels and lines."""
    return tuple(d for kernel in program.kernels for d in check_kernel(kernel))


def check_kernel(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """Return every breach of the static rules in one kernel.

    The text is judged as written and, where it has macros, as the compiler will see it.
    """
    found = list(_names(kernel))
    texts = (("header", kernel.header), ("source", kernel.source))
    for file, text in texts:
        if len(text) > MAXIMUM_LENGTH:
            found.append(_too_long(file, text))
        elif not text.isprintable() and (strange := words.UNPRINTABLE.search(text)):
            found.append(_unreadable(file, text, strange.start()))
    if any(d.rule in ("length", "character") for d in found):
        return tuple(found)
    protected = _parameters(kernel)
    for file, text in texts:
        found.extend(_breaches(Text.of(file, text, protected)))
    if found or not any("#" in text or "%:" in text for _, text in texts):
        return tuple(found)
    try:
        expanded = preprocess(kernel.header, kernel.source)
    except Refusal as refusal:
        return (refusal.diagnostic,)
    for file, text in (("header", expanded.header), ("source", expanded.source)):
        found.extend(_breaches(Text.of(file, text, protected)))
    return tuple(found)


def _breaches(text: Text) -> list[Diagnostic]:
    found = [d for rule in _RULES for d in islice(rule(text), _MOST_FOUND)]
    return sorted(found, key=lambda d: (d.line, d.column))


def _parameters(kernel: Kernel) -> frozenset[str]:
    shaped = {f"{n}_{part}" for n in kernel.inputs for part in ("shape", "strides", "ndim")}
    return frozenset({*kernel.inputs, *kernel.outputs, *kernel.template}) | shaped


def _too_long(file: str, text: str) -> Diagnostic:
    message = f"expected at most {MAXIMUM_LENGTH} characters, found {len(text)}; shorten it."
    return Diagnostic(message=message, file=file, rule="length")


def _unreadable(file: str, text: str, place: int) -> Diagnostic:
    line = text.count("\n", 0, place) + 1
    message = f"{text[place]!r} is no character of a text; remove it."
    return Diagnostic(message=message, file=file, line=line, rule="character")


def _names(kernel: Kernel) -> Iterator[Diagnostic]:
    for name in (*kernel.inputs, *kernel.outputs, *kernel.template):
        if name in words.RESERVED or words.is_internal(name) or name.startswith("metal"):
            yield Diagnostic(
                message=f"{name!r} already means something in Metal; call this array or "
                "template argument something else.",
                rule="name",
            )


def _characters(text: Text) -> Iterator[Diagnostic]:
    for place, token in enumerate(text.written.tokens):
        if token.kind is TokenKind.OTHER and token.text.startswith("/"):
            yield text.diagnose(token, "comment", "the comment never ends; close it with */.")
        elif token.kind is TokenKind.OTHER:
            begin = f"{token.text[:20]!r} begins no token of Metal; remove it."
            yield text.diagnose(token, "character", begin)
        elif token.kind is TokenKind.STRING and not _may_be_a_string(text.written, place):
            yield text.diagnose(token, "string", "a kernel has no use for strings; remove it.")
        elif token.kind is TokenKind.CHARACTER and not token.text.isascii():
            yield text.diagnose(token, "character", "a character is one of ASCII; remove it.")
        elif token.kind is TokenKind.IDENTIFIER and not token.text.isascii():
            # Letters of other scripts look like those of ASCII, and name something else.
            found = next(c for c in token.text if not c.isascii())
            message = f"the name {token.text[:60]!r} has {found!a}; names are of ASCII: rename it."
            yield text.diagnose(token, "character", message)


def _may_be_a_string(brackets: Brackets, place: int) -> bool:
    """Say whether a string is what a directive, a `_Pragma` or a `static_assert` takes."""
    if brackets.tokens[place].directive in words.DIRECTIVES_WITH_STRINGS:
        return True
    if [brackets.spelling(i) for i in (place - 2, place - 1)] == ["_Pragma", "("]:
        return True
    opening = brackets.enclosing[place] if brackets.spelling(place - 1) == "," else 0
    return opening > 0 and brackets.spelling(opening - 1) == "static_assert"


def _directives(text: Text) -> Iterator[Diagnostic]:
    for line in _directive_lines(text.tokens):
        name, rest = line[0].directive, _after_name(line)
        if name == "#" and not rest:
            continue
        if name not in words.ALLOWED_DIRECTIVES:
            yield text.diagnose(line[0], "directive", f"#{name} is not allowed; remove it.")
        elif name == "include":
            yield from _include(text, line[0], rest)
        elif name == "pragma":
            yield from _pragma(text, line[0], rest)
        elif name in ("define", "undef") and rest:
            yield from _macro(text, rest)


def _directive_lines(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Group the code tokens of each directive; one begins at its `#`."""
    line: list[Token] = []
    previous = None
    for token in tokens:
        inside = bool(token.directive) and token.kind is not TokenKind.NEWLINE
        starts = inside and (previous is None or not previous.directive
                             or previous.kind is TokenKind.NEWLINE)  # fmt: skip
        if starts and line:
            yield line
            line = []
        if inside and token.is_code:
            line.append(token)
        previous = token
    if line:
        yield line


def _after_name(line: Sequence[Token]) -> list[Token]:
    """Drop the `#` and the directive's name."""
    return list(line[2:]) if len(line) > 1 else []


def _include(text: Text, start: Token, rest: Sequence[Token]) -> Iterator[Diagnostic]:
    name = "".join(t.spelling for t in rest).strip('<>"')
    if text.file != "header" or name not in words.ALLOWED_INCLUDES:
        yield text.diagnose(
            start,
            "include",
            f"cannot include {name!r}; only Metal's own, in the header, are allowed.",
        )


def _pragma(text: Text, start: Token, rest: Sequence[Token]) -> Iterator[Diagnostic]:
    content = " ".join(t.spelling for t in rest)
    if not _is_hint(content):
        yield text.diagnose(
            start, "pragma", f"#pragma {content} is not allowed; only loop and fp hints are."
        )


def _is_hint(pragma: str) -> bool:
    return pragma.startswith(words.ALLOWED_PRAGMAS)


def _macro(text: Text, rest: Sequence[Token]) -> Iterator[Diagnostic]:
    name = rest[0].spelling
    taken = name in words.RESERVED or name in text.protected or words.is_internal(name)
    if taken or name.lower().startswith("metal") or name in words.PUBLIC_MACROS:
        yield text.diagnose(
            rest[0], "redefinition", f"{name!r} must keep its meaning; give the macro another name."
        )
    for token in rest[1:]:
        if token.spelling in ("##", "#"):
            yield text.diagnose(token, "paste", "macros must not build tokens; write the name out.")
    if unbalanced := _first_unbalanced(rest[1:]):
        yield text.diagnose(
            unbalanced,
            "macro",
            f"the macro {name!r} opens or closes a bracket that it does not own.",
        )


def _first_unbalanced(tokens: Sequence[Token]) -> Token | None:
    """Return the first bracket without its partner."""
    stack: list[Token] = []
    for token in tokens:
        if token.kind is not TokenKind.PUNCTUATOR:
            continue
        if token.spelling in OPENING:
            stack.append(token)
        elif token.spelling in CLOSING and (
            not stack or OPENING[stack.pop().spelling] != token.spelling
        ):
            return token
    return stack[0] if stack else None


def _brackets(text: Text) -> Iterator[Diagnostic]:
    """A body must not close the function that MLX generates around it, in any branch of an #if."""
    if token := _first_unbalanced(text.code.tokens):
        yield text.diagnose(
            token,
            "brackets",
            f"{token.spelling!r} has no partner here; a body is the inside of one function.",
        )
    depth, depths = 0, list[int]()
    for token in text.tokens:
        if token.kind is not TokenKind.PUNCTUATOR and token.kind is not TokenKind.IDENTIFIER:
            continue
        if not token.directive:
            depth += {"{": 1, "}": -1}.get(token.spelling, 0)
        elif token.spelling == token.directive:
            if token.directive in ("if", "ifdef", "ifndef"):
                depths.append(depth)
            elif token.directive in ("else", "elif", "endif") and depths:
                if depth != depths[-1]:
                    yield text.diagnose(
                        token, "brackets", "a branch of #if must balance its braces."
                    )
                if token.directive == "endif":
                    depths.pop()


def _vocabulary(text: Text) -> Iterator[Diagnostic]:
    brackets = text.written
    for place, token in enumerate(brackets.tokens):
        if token.kind is not TokenKind.IDENTIFIER or token.directive == "include":
            continue
        word = token.spelling
        if word in words.FORBIDDEN_WORDS:
            brings = words.FORBIDDEN_WORDS[word]
            yield text.diagnose(
                token,
                "word",
                f"{word!r} brings in {brings}; remove it, or rename what you call so.",
            )
        elif words.is_internal(word) and not _is_for_kernels(brackets, place):
            yield text.diagnose(
                token, "word", f"{word!r} belongs to the compiler; use Metal's own functions."
            )
        elif word == "kw" and _is_namespace(brackets, place):
            yield text.diagnose(token, "word", "'kw' is no namespace of Metal's; remove it.")


def _is_namespace(brackets: Brackets, place: int) -> bool:
    around = (brackets.spelling(place - 1), brackets.spelling(place + 1))
    is_renamed = around[0] == "=" and brackets.spelling(place - 3) == "namespace"
    return "::" in around or around[0] == "namespace" or is_renamed


def _is_for_kernels(brackets: Brackets, place: int) -> bool:
    """Say whether a word of the compiler's is one that Metal texts use, as they use it."""
    word = brackets.spelling(place)
    if word == "_Pragma":
        text = brackets.tokens[place + 2].text if place + 2 < len(brackets.tokens) else ""
        return _is_hint(text.strip('"'))
    if word == "__attribute__":
        is_double = brackets.spelling(place + 1) == brackets.spelling(place + 2) == "("
        return is_double and all(
            _is_plain_hint(brackets, item) for item in brackets.items(place + 2)
        )
    return word in words.ALLOWED_UNDERSCORED or word.strip("_") in words.HINTS


def _is_plain_hint(brackets: Brackets, attribute: range) -> bool:
    return bool(attribute) and brackets.spelling(attribute.start).strip("_") in words.HINTS


def _attributes(text: Text) -> Iterator[Diagnostic]:
    brackets = text.code
    for index, token in enumerate(brackets.tokens):
        if token.spelling != "[" or brackets.spelling(index + 1) != "[":
            continue
        for attribute in filter(None, brackets.items(index + 1)):
            name = brackets.tokens[attribute.start]
            is_named = name.spelling in ("gnu", "clang") and brackets.spelling(
                attribute.start + 1
            ) in ("::", ":")
            is_hint = is_named and _is_plain_hint(brackets, attribute[2:])
            if name.spelling not in words.ALLOWED_ATTRIBUTES and not is_hint:
                message = f"[[{name.spelling}]] is not allowed; MLX writes the signature."
                yield text.diagnose(name, "attribute", message)


def _declarations(text: Text) -> Iterator[Diagnostic]:
    """Types, attributes and parameters keep their meaning, and functions but for variables."""
    tokens = text.code.tokens
    guarded = words.RESERVED | text.protected
    depth = 0
    for index, token in enumerate(tokens):
        depth += {"{": 1, "}": -1}.get(token.spelling, 0)
        if token.kind is not TokenKind.IDENTIFIER or index == 0:
            continue
        before = _before(text.code, index)
        after = tokens[index + 1].spelling if index + 1 < len(tokens) else ""
        name = token.spelling
        if _declares(tokens, index, before, after, text, depth) and name in guarded:
            yield text.diagnose(
                token, "redefinition", f"{name!r} must keep its meaning; choose another name."
            )


def _before(brackets: Brackets, index: int) -> str:
    """Return what stands before a token, or before the `alignas(…)` in front of it."""
    previous = brackets.spelling(index - 1)
    opening = brackets.partner.get(index - 1, 0) if previous == ")" else 0
    is_aligned = opening > 1 and brackets.spelling(opening - 1) == "alignas"
    return brackets.spelling(opening - 2) if is_aligned else previous


def _declares(
    tokens: Sequence[Token], index: int, before: str, after: str, text: Text, depth: int
) -> bool:
    name = tokens[index].spelling
    if before == "namespace" and index > 1 and tokens[index - 2].spelling == "using":
        return False
    if before in ("struct", "class", "union", "enum", "namespace"):
        return name not in ("class", "struct", "alignas")
    if before == "using":
        return after == "="
    if before == "typename" and text.file == "header":
        # A template's own parameter may be called as the kernel's: it is another scope.
        return name in words.RESERVED
    if after == ";" and _is_typedef(tokens, index):
        return True
    if text.file == "header":
        is_function = after == "(" and depth == 0 and _ends_type(before)
        return is_function and name in words.RESERVED - words.TYPES
    ends = after in ("=", ";", ",", "[", "{")
    # A variable hides a function of its name only from what follows it in its block.
    kept = words.TYPES | words.KEYWORDS | words.BUILTINS
    return before in words.TYPES and ends and name not in kept


def _ends_type(spelling: str) -> bool:
    return (
        spelling in words.TYPES
        or spelling in (">", "*", "&")
        or (len(spelling) == 1 and spelling.isupper())
    )


def _is_typedef(tokens: Sequence[Token], index: int) -> bool:
    for token in reversed(tokens[max(0, index - 12) : index]):
        if token.spelling in (";", "{", "}"):
            return False
        if token.spelling == "typedef":
            return True
    return False


def _loops(text: Text) -> Iterator[Diagnostic]:
    """A loop without condition and without a way out never ends."""
    for index, token in enumerate(text.code.tokens):
        if token.spelling in ("for", "while") and _is_endless(text.code, index):
            yield text.diagnose(
                token, "endless", "this loop has no condition and no break; bound it."
            )


def _is_endless(brackets: Brackets, index: int) -> bool:
    close = brackets.end(index + 1)
    head = "".join(map(brackets.spelling, range(index + 1, min(close + 1, index + 5))))
    unconditional = head in ("(true)", "(1)", "(1u)") or (
        brackets.spelling(index) == "for" and _condition_is_empty(brackets, index + 1)
    )
    if not unconditional or close + 1 >= len(brackets.tokens):
        return False
    end = brackets.end(close + 1) if brackets.spelling(close + 1) == "{" else close + 2
    return not brackets.can_leave(close, end)


def _condition_is_empty(brackets: Brackets, opening: int) -> bool:
    separators = brackets.separators.get(opening, ())
    places = [i for i in separators if brackets.spelling(i) == ";"]
    return len(places) == 2 and places[1] == places[0] + 1


_RULES: tuple[Callable[[Text], Iterator[Diagnostic]], ...] = (
    _characters,
    _directives,
    _brackets,
    _vocabulary,
    _attributes,
    _declarations,
    _loops,
)
