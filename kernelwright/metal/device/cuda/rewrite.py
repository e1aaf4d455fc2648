"""Metal text to CUDA text, token by token; every line stays where it was."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kernelwright.metal.device.cuda.product_pair import product_pairs
from kernelwright.metal.msl.token import Token, TokenKind, tokenize

_SWIZZLE = re.compile(r"[xyzw]{2,4}|[rgba]{2,4}")
_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/="})
_COMPONENT = {letter: index for letters in ("xyzw", "rgba") for index, letter in enumerate(letters)}
_FLOAT = re.compile(
    r"((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+(?=[fFhH]))(f|F|h|H|bf|BF)?"
)
_DROPPED = frozenset({"device", "thread", "kernel"})


@dataclass(frozen=True)
class GatheredBody:
    """A body whose threadgroup arrays lie in one allocation, each at a multiple of 32 bytes.

    It is for a scope that declares `kw_shared`, the allocation, and `kw_end_0`, where it begins.
    """

    text: str
    arrays: int
    """`kw_end_<arrays>` is the number of bytes that they take."""


def rewrite_body(text: str) -> str:
    """Rewrite statements, as they stand inside a kernel's body."""
    return _Rewriter(tokenize(text), depth=1).run()


def gather_body(text: str) -> GatheredBody:
    """Rewrite statements, with the body's threadgroup arrays in one allocation.

    CUDA's own `__shared__` arrays end at 48 KB together; what is allocated at launch does not.
    Arrays of inner blocks stay `__shared__`, for where the next one begins would not be known
    there; so do all of a body in which directives choose.
    """
    tokens = tokenize(text)
    chooses = any(t.directive in ("if", "ifdef", "ifndef", "define") for t in tokens)
    worker = _Rewriter(tokens, depth=1, gathers=not chooses)
    return GatheredBody(worker.run(), worker.gathered)


def rewrite_header(text: str) -> str:
    """Rewrite declarations, as they stand at namespace scope; functions become device code."""
    return _Rewriter(tokenize(text), depth=0).run()


def mentions(text: str, name: str) -> bool:
    """Say whether `name` stands in the text as a whole identifier."""
    return any(t.kind is TokenKind.IDENTIFIER and t.spelling == name for t in tokenize(text))


@dataclass
class _Rewriter:
    """One pass over the code tokens; `out[i]` is what token i becomes."""

    tokens: Sequence[Token]
    depth: int
    """Brace depth at the start: 0 is namespace scope, where functions are declared."""
    gathers: bool = False
    gathered: int = 0
    """Threadgroup arrays that have their place in `kw_shared`."""
    out: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Indices of the code tokens."""
    behind: dict[int, str] = field(default_factory=dict)
    """What follows the code token at a place."""

    def run(self) -> str:
        self.out = [self._blank(t) if not t.is_code else t.spelling for t in self.tokens]
        self.places = [i for i, t in enumerate(self.tokens) if t.is_code]
        members = self._member_names()
        self._drop_metal_includes()
        for place in range(len(self.places)):
            self._token(place, members)
        self._join_products()
        for place, text in self.behind.items():
            self.out[self.places[place]] += text
        if self.depth == 0:
            self._declare_functions()
        return "".join(self.out)

    def _join_products(self) -> None:
        """Let one call stand for two products that a tensor core takes at once."""
        for pair in product_pairs([self._text(p) for p in range(len(self.places))]):
            self.out[self.places[pair.name]] = "kw_multiply_two"
            for place in pair.seam:
                self.out[self.places[place]] = ""
            self.out[self.places[pair.seam[0]]] = ","

    def _declare_functions(self) -> None:
        """Make functions device code; overloads by address space alone are one function here."""
        seen: set[tuple[int, str]] = set()
        texts = [self._text(p) for p in range(len(self.places))]
        scopes = _scopes(texts)
        for function in _functions(texts):
            span = self.places[function.begin : function.end]
            text = " ".join(self.out[i].strip() for i in span if self.out[i].strip())
            # Structs may have members of the same text.
            key = (scopes[function.begin], text)
            if key in seen:
                for i in span:
                    self.out[i] = ""
                continue
            seen.add(key)
            index = self.places[function.start]
            self.out[index] = f"__device__ {self.out[index]}"

    def _blank(self, token: Token) -> str:
        if token.kind is TokenKind.COMMENT:
            return re.sub(r"[^\n]", " ", token.text)
        return token.text

    def _text(self, place: int) -> str:
        """Spelling of the code token at `place`; empty beyond the ends and inside directives."""
        if 0 <= place < len(self.places):
            token = self.tokens[self.places[place]]
            return "" if token.directive else token.spelling
        return ""

    def _member_names(self) -> frozenset[str]:
        """Names that the text itself declares and that look like swizzles: those stay."""
        declared = set()
        for place in range(1, len(self.places)):
            name = self._text(place)
            before = self.tokens[self.places[place - 1]]
            if _SWIZZLE.fullmatch(name) and before.kind is TokenKind.IDENTIFIER:
                declared.add(name)
        return frozenset(declared)

    def _drop_metal_includes(self) -> None:
        lines: dict[int, list[int]] = {}
        for index in self.places:
            token = self.tokens[index]
            if token.directive in ("include", "pragma"):
                lines.setdefault(token.line, []).append(index)
        for indices in lines.values():
            words = "".join(self.tokens[i].spelling for i in indices)
            if words.startswith(("#include<metal", "#include<simd", "#pragmaMETAL")):
                for i in indices:
                    self.out[i] = ""

    def _token(self, place: int, members: frozenset[str]) -> None:
        index = self.places[place]
        token = self.tokens[index]
        if token.directive in ("include", "pragma", "if", "ifdef", "ifndef", "elif"):
            return
        if token.kind is TokenKind.NUMBER:
            self.out[index] = _literal(token.spelling)
        elif token.kind is TokenKind.PUNCTUATOR:
            self.depth += {"{": 1, "}": -1}.get(token.spelling, 0)
            self._attribute(place)
        elif token.kind is TokenKind.IDENTIFIER:
            self._identifier(place, members)

    def _attribute(self, place: int) -> None:
        """Blank `[[…]]` out: CUDA has its own ways to say what Metal's attributes say."""
        if self._text(place) != "[" or self._text(place + 1) != "[":
            return
        end = place
        while end < len(self.places) and not (
            self._text(end) == "]" and self._text(end + 1) == "]"
        ):
            end += 1
        for i in self.places[place : end + 2]:
            self.out[i] = ""

    def _identifier(self, place: int, members: frozenset[str]) -> None:
        index = self.places[place]
        name = self.tokens[index].spelling
        if not self.out[index]:
            return
        if name in _DROPPED:
            self.out[index] = ""
        elif name == "constant":
            self.out[index] = self._constant(place)
        elif name == "threadgroup":
            self.out[index] = "__shared__" if self._declares_array(place) else ""
            if self.out[index] and self.gathers and self.depth == 1:
                self._gather(place)
        elif (
            self._raw(place - 1) in (".", "->") and name not in members and _SWIZZLE.fullmatch(name)
        ):
            verb = "kw_write" if self._raw(place + 1) in _ASSIGNMENTS else "kw_read"
            picked = ", ".join(str(_COMPONENT[letter]) for letter in name)
            self.out[index] = f"template {verb}<{picked}>()"

    def _raw(self, place: int) -> str:
        """Spelling of a code token, directives included."""
        return self.tokens[self.places[place]].spelling if 0 <= place < len(self.places) else ""

    def _constant(self, place: int) -> str:
        if "const" in (self._raw(place - 1), self._raw(place + 1)):
            return ""
        if self.depth > 0 or self._text(place - 1) in ("(", ",", "<"):
            return "const"
        declaration = self._until(place, frozenset({"=", ";", "{"}))
        if "[" in declaration:
            return "__constant__ const"
        return "" if "constexpr" in declaration else "constexpr"

    def _declares_array(self, place: int) -> bool:
        """True for `threadgroup T a[n];`, false for a pointer or reference to such memory."""
        if self._text(place - 1) not in ("", ";", "{", "}", ")", ":", "static", "volatile"):
            return False
        declaration = self._until(place + 1, frozenset({";", "=", "[", "{", ")", ","}))
        return "*" not in declaration and "&" not in declaration and "(" not in declaration

    def _gather(self, place: int) -> None:
        """Turn one declaration into types, and references to places behind all arrays before."""
        end = place
        while self._text(end) not in (";", "=", "{", ""):
            end += 1
        if self._text(end) != ";" or self._raw(place - 1) == "static":
            return
        placed: list[str] = []
        for name in self._declared(place + 1, end):
            number, array = self.gathered, self._text(name)
            self.gathered += 1
            type_, at = f"kw_array_{number}", f"kw_at_{number}"
            self.out[self.places[name]] = type_
            placed += [
                f" constexpr uint {at} = kw_place(kw_end_{number});",
                f" constexpr uint kw_end_{number + 1} = {at} + sizeof({type_});",
                f" {type_}& {array} = *({type_}*)(kw_shared + {at});",
            ]
        self.out[self.places[place]] = "typedef"
        self.behind[end] = "".join(placed)

    def _declared(self, place: int, end: int) -> Iterator[int]:
        """Yield the places of the names that a declaration declares."""
        angles = brackets = 0
        for p in range(place, end):
            word = self._text(p)
            is_name = self.tokens[self.places[p]].kind is TokenKind.IDENTIFIER
            if is_name and not (angles or brackets) and self._text(p + 1) in ("[", ",", ";"):
                yield p
            brackets += {"[": 1, "(": 1, "]": -1, ")": -1}.get(word, 0)
            angles += 0 if brackets else {"<": 1, ">": -1, ">>": -2}.get(word, 0)

    def _until(self, place: int, stops: frozenset[str]) -> list[str]:
        words: list[str] = []
        angles = 0
        while place < len(self.places):
            word = self._text(place)
            angles += {"<": 1, ">": -1, ">>": -2}.get(word, 0)
            if word in stops and angles <= 0:
                break
            words.append(word)
            place += 1
        return words


def _literal(text: str) -> str:
    """Give a floating literal Metal's type: float when it has no suffix."""
    match = _FLOAT.fullmatch(text)
    if match is None:
        return text
    digits, suffix = match[1], (match[2] or "f").lower()
    digits = digits if re.search(r"[.eE]", digits) else f"{digits}."
    if suffix == "h":
        return f"metal::half({digits}f)"
    return f"metal::bfloat({digits}f)" if suffix == "bf" else f"{digits}f"


_SCOPES = frozenset({"struct", "class", "union", "namespace"})
_NOT_FUNCTIONS = frozenset(
    {"using", "typedef", "enum", "static_assert", "friend", "namespace", "struct", "class", "union"}
)


@dataclass(frozen=True)
class _Function:
    """Places of a function's declaration among the code tokens."""

    begin: int
    """Where its template header begins, if it has one."""
    start: int
    end: int


def _scopes(texts: Sequence[str]) -> list[int]:
    """Return for each token the place of the innermost brace around it, -1 where there is none."""
    found, around = [], [-1]
    for place, text in enumerate(texts):
        if text == "}" and len(around) > 1:
            around.pop()
        found.append(around[-1])
        if text == "{":
            around.append(place)
    return found


def _functions(words: Sequence[str]) -> list[_Function]:
    """Find the functions declared at namespace or class scope."""
    found: list[_Function] = []
    _scan_scope(words, 0, found)
    return found


def _scan_scope(words: Sequence[str], place: int, found: list[_Function]) -> int:
    """Walk the declarations of one scope; returns the place after its closing brace."""
    while place < len(words):
        word = words[place]
        if word == "}":
            return place + 1
        if word in ("", ";"):
            place += 1
        elif word in ("public", "private", "protected") and words[place + 1 : place + 2] == [":"]:
            place += 2
        else:
            place = _scan_declaration(words, place, found)
    return place


def _scan_declaration(words: Sequence[str], begin: int, found: list[_Function]) -> int:
    place = begin
    while words[place : place + 2] == ["template", "<"]:
        place = _after(words, place + 1, "<", ">")
    start, is_function = place, False
    while place < len(words):
        word = words[place]
        if word == "(" and not is_function:
            is_function = words[start] not in _NOT_FUNCTIONS and "=" not in words[start:place]
            place = _after(words, place, "(", ")")
        elif word == "{" and words[start] in _SCOPES and not is_function:
            place = _scan_scope(words, place + 1, found)
            if words[start] == "namespace":
                return place
        elif word == "{":
            place = _after(words, place, "{", "}")
            if is_function:
                break
        elif word in (";", "}"):
            place += word == ";"
            break
        else:
            place += 1
    if is_function:
        found.append(_Function(begin, start, place))
    return place


def _after(words: Sequence[str], place: int, opening: str, closing: str) -> int:
    """Place after the bracket that closes the one at `place`."""
    depth = 0
    while place < len(words):
        word = words[place]
        depth += (word == opening) - (word == closing) - 2 * (closing == ">" and word == ">>")
        place += 1
        if depth <= 0:
            break
    return place
