"""Static rules on the tokens of a kernel: what may stand in a body and a header at all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernelwright.evaluator.static import vocabulary as words
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import Kernel, Program
from kernelwright.metal.msl.token import Token, TokenKind, code, tokenize

MAXIMUM_LENGTH = 1 << 18
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())


@dataclass(frozen=True)
class Text:
    """One of a kernel's two texts, tokenized, with what surrounds it."""

    file: str
    text: str
    tokens: Sequence[Token]
    protected: frozenset[str]
    """Parameter and template names of the kernel."""

    @classmethod
    def of(cls, file: str, text: str, protected: frozenset[str]) -> "Text":
        """Tokenize a text."""
        return cls(file, text, tokenize(text), protected)

    def diagnose(self, token: Token, rule: str, message: str) -> Diagnostic:
        """Point at a token."""
        lines = self.text.splitlines()
        return Diagnostic(
            message=message,
            file=self.file,
            line=token.line,
            column=token.column,
            rule=rule,
            source_line=lines[token.line - 1] if token.line <= len(lines) else "",
        )


def check_program(program: Program) -> tuple[Diagnostic, ...]:
    """Return every breach of the static rules, in the order of kernels and lines."""
    return tuple(d for kernel in program.kernels for d in check_kernel(kernel))


def check_kernel(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """Return every breach of the static rules in one kernel."""
    found = list(_names(kernel))
    protected = _parameters(kernel)
    for file, text in (("header", kernel.header), ("source", kernel.source)):
        if len(text) > MAXIMUM_LENGTH:
            found.append(_too_long(file, text))
            continue
        part = Text.of(file, text, protected)
        breaches = [d for rule in _RULES for d in rule(part)]
        found.extend(sorted(breaches, key=lambda d: (d.line, d.column)))
    return tuple(found)


def _parameters(kernel: Kernel) -> frozenset[str]:
    shaped = {f"{n}_{part}" for n in kernel.inputs for part in ("shape", "strides", "ndim")}
    return frozenset({*kernel.inputs, *kernel.outputs, *kernel.template}) | shaped


def _too_long(file: str, text: str) -> Diagnostic:
    message = f"expected at most {MAXIMUM_LENGTH} characters, found {len(text)}; shorten it."
    return Diagnostic(message=message, file=file, rule="length")


def _names(kernel: Kernel) -> Iterator[Diagnostic]:
    for name in (*kernel.inputs, *kernel.outputs, *kernel.template):
        if name in words.RESERVED or name.startswith(("__", "kw_", "metal")):
            yield Diagnostic(
                message=f"{name!r} already means something in Metal; call this array or "
                "template argument something else.",
                rule="name",
            )


def _characters(text: Text) -> Iterator[Diagnostic]:
    tokens = [t for t in text.tokens if t.is_code]
    for place, token in enumerate(tokens):
        if token.kind is TokenKind.OTHER:
            yield text.diagnose(
                token, "character", f"{token.text!r} begins no token of Metal; remove it."
            )
        elif token.kind is TokenKind.STRING and not _may_be_a_string(tokens, place):
            yield text.diagnose(token, "string", "a kernel has no use for strings; remove it.")
    for slash, star in pairwise(text.tokens):
        if (slash.text, star.text) == ("/", "*"):
            # The tokenizer makes whole comments of the others.
            yield text.diagnose(slash, "comment", "the comment never ends; close it with */.")


def _may_be_a_string(tokens: Sequence[Token], place: int) -> bool:
    """Say whether a string is what a directive, a `_Pragma` or a `static_assert` takes."""
    if tokens[place].directive in words.DIRECTIVES_WITH_STRINGS:
        return True
    if [t.spelling for t in tokens[max(place - 2, 0) : place]] == ["_Pragma", "("]:
        return True
    opening = _opening(tokens, place - 1) if tokens[place - 1].spelling == "," else 0
    return opening > 0 and tokens[opening - 1].spelling == "static_assert"


def _opening(tokens: Sequence[Token], place: int) -> int:
    """Return the index of the bracket that is open at `place`, or -1."""
    depth = 0
    for index in range(place, -1, -1):
        depth += (tokens[index].spelling in _CLOSING) - (tokens[index].spelling in _OPENING)
        if depth < 0:
            return index
    return -1


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
    if name in words.RESERVED or name in text.protected or name.startswith(("__", "kw_", "metal")):
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
        if token.spelling in _OPENING:
            stack.append(token)
        elif token.spelling in _CLOSING and (
            not stack or _OPENING[stack.pop().spelling] != token.spelling
        ):
            return token
    return stack[0] if stack else None


def _brackets(text: Text) -> Iterator[Diagnostic]:
    """A body must not close the function that MLX generates around it, in any branch of an #if."""
    if token := _first_unbalanced(code(text.tokens)):
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
    tokens = [t for t in text.tokens if t.is_code]
    for place, token in enumerate(tokens):
        if token.kind is not TokenKind.IDENTIFIER or token.directive == "include":
            continue
        word = token.spelling
        if word in words.FORBIDDEN_WORDS:
            brings = words.FORBIDDEN_WORDS[word]
            yield text.diagnose(
                token, "word", f"{word!r} would bring in {brings}; remove it or rename it."
            )
        elif _is_internal(word) and not _is_for_kernels(tokens, place):
            yield text.diagnose(
                token, "word", f"{word!r} belongs to the compiler; use Metal's own functions."
            )


def _is_internal(word: str) -> bool:
    return word.startswith(("__", "kw_")) or word == "_Pragma"


def _is_for_kernels(tokens: Sequence[Token], place: int) -> bool:
    """Say whether a word of the compiler's is one that Metal texts use, as they use it."""
    word, rest = tokens[place].spelling, tokens[place + 1 : place + 4]
    if word == "_Pragma":
        content = rest[1].text.strip('"') if len(rest) > 1 else ""
        return _is_hint(content)
    if word == "__attribute__":
        is_double = [t.spelling for t in rest[:2]] == ["(", "("]
        names = _listed(tokens, place + 3) if is_double else ()
        return is_double and all(_is_plain_hint(name) for name in names)
    return word in words.ALLOWED_UNDERSCORED or word.strip("_") in words.HINTS


def _listed(tokens: Sequence[Token], place: int) -> Iterator[Sequence[Token]]:
    """Yield the attributes of a list that begins at `place`, without their arguments."""
    start, depth = place, 0
    for index in range(place, len(tokens)):
        spelling = tokens[index].spelling
        depth += (spelling in _OPENING) - (spelling in _CLOSING)
        if depth < 0 or (depth == 0 and spelling == ","):
            yield tokens[start:index]
            start = index + 1
        if depth < 0:
            return


def _is_plain_hint(attribute: Sequence[Token]) -> bool:
    return bool(attribute) and attribute[0].spelling.strip("_") in words.HINTS


def _attributes(text: Text) -> Iterator[Diagnostic]:
    tokens = code(text.tokens)
    for index, token in enumerate(tokens[:-2]):
        if token.spelling != "[" or tokens[index + 1].spelling != "[":
            continue
        for attribute in filter(None, _listed(tokens, index + 2)):
            name = attribute[0]
            is_gnu = name.spelling == "gnu" and _is_plain_hint(attribute[2:])
            if name.spelling not in words.ALLOWED_ATTRIBUTES and not is_gnu:
                message = f"[[{name.spelling}]] is not allowed; MLX writes the signature."
                yield text.diagnose(name, "attribute", message)


def _declarations(text: Text) -> Iterator[Diagnostic]:
    """Types, attributes and parameters keep their meaning, and functions but for variables."""
    tokens = code(text.tokens)
    guarded = words.RESERVED | text.protected
    depth = 0
    for index, token in enumerate(tokens):
        depth += {"{": 1, "}": -1}.get(token.spelling, 0)
        if token.kind is not TokenKind.IDENTIFIER or index == 0:
            continue
        before = _before(tokens, index)
        after = tokens[index + 1].spelling if index + 1 < len(tokens) else ""
        name = token.spelling
        if _declares(tokens, index, before, after, text, depth) and name in guarded:
            yield text.diagnose(
                token, "redefinition", f"{name!r} must keep its meaning; choose another name."
            )


def _before(tokens: Sequence[Token], index: int) -> str:
    """Return what stands before a token, or before the `alignas(…)` in front of it."""
    previous = tokens[index - 1].spelling
    opening = _opening(tokens, index - 2) if previous == ")" else 0
    is_aligned = opening > 1 and tokens[opening - 1].spelling == "alignas"
    return tokens[opening - 2].spelling if is_aligned else previous


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
    tokens = code(text.tokens)
    for index, token in enumerate(tokens):
        if token.spelling in ("for", "while") and _is_endless(tokens, index):
            yield text.diagnose(
                token, "endless", "this loop has no condition and no break; bound it."
            )


def _is_endless(tokens: Sequence[Token], index: int) -> bool:
    close = _matching(tokens, index + 1)
    head = "".join(t.spelling for t in tokens[index + 1 : close + 1])
    unconditional = head in ("(true)", "(1)", "(1u)") or (
        tokens[index].spelling == "for" and _condition_is_empty(tokens[index + 2 : close])
    )
    if not unconditional or close + 1 >= len(tokens):
        return False
    end = _matching(tokens, close + 1) if tokens[close + 1].spelling == "{" else close + 2
    return not any(t.spelling in ("break", "return") for t in tokens[close : end + 1])


def _condition_is_empty(head: Sequence[Token]) -> bool:
    places = [i for i, t in enumerate(head) if t.spelling == ";"]
    return len(places) == 2 and places[1] == places[0] + 1


def _matching(tokens: Sequence[Token], start: int) -> int:
    """Return the index of the bracket that closes the one at `start`, or the last index."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(tokens[index].spelling, 0)
        if depth == 0:
            return index
    return len(tokens) - 1


_RULES: tuple[Callable[[Text], Iterator[Diagnostic]], ...] = (
    _characters,
    _directives,
    _brackets,
    _vocabulary,
    _attributes,
    _declarations,
    _loops,
)
