"""Metal text to CUDA text, token by token; every line stays where it was."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kernelwright.metal.device.cuda.overload import DeviceFunctions
from kernelwright.metal.device.cuda.product_pair import product_pairs
from kernelwright.metal.msl.declaration import analyze, macro_bodies
from kernelwright.metal.msl.macro import Macros
from kernelwright.metal.msl.structure import Scope, Structure, Variable, join
from kernelwright.metal.msl.token import Token, TokenKind, tokenize

_SWIZZLE = re.compile(r"[xyzw]{2,4}|[rgba]{2,4}")
_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "++", "--"})
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


def rewrite_body(text: str, members: Collection[str] = ()) -> str:
    """Rewrite statements, as they stand inside a kernel's body.

    Args:
        text: The statements.
        members: Names like swizzles that structs have, beside the text's own.
    """
    return _Rewriter.of(text, "function", members).run()


def gather_body(text: str, members: Collection[str] = ()) -> GatheredBody:
    """Rewrite statements, with the body's threadgroup arrays in one allocation.

    CUDA's own `__shared__` arrays end at 48 KB together; what is allocated at launch does not.
    Arrays of inner blocks stay `__shared__`, for where the next one begins would not be known
    there; so do all of a body in which directives choose.
    """
    worker = _Rewriter.of(text, "function", members)
    directives = {t.directive for t in worker.tokens}
    worker.gathers = not directives & {"if", "ifdef", "ifndef", "define"}
    return GatheredBody(worker.run(), worker.gathered)


def rewrite_header(text: str, members: Collection[str] = ()) -> str:
    """Rewrite declarations, as they stand at namespace scope; functions become device code."""
    return _Rewriter.of(text, "namespace", members).run()


def swizzle_members(text: str) -> frozenset[str]:
    """Return the members of a text's structs whose names are swizzles of a vector too."""
    return _members(analyze(tokenize(text)))


def shadowed(name: str) -> str:
    """Write what reads a swizzle's name where a struct has a member of that name."""
    return f"KW_SHADOWED({name}, {', '.join(str(_COMPONENT[letter]) for letter in name)})"


def _members(structure: Structure) -> frozenset[str]:
    return frozenset(name for name in structure.members if _SWIZZLE.fullmatch(name))


def mentions(text: str, name: str) -> bool:
    """Say whether `name` stands in the text as a whole identifier."""
    return any(t.kind is TokenKind.IDENTIFIER and t.spelling == name for t in tokenize(text))


@dataclass
class _Rewriter:
    """One pass over the code tokens; `out[i]` is what token i becomes."""

    tokens: Sequence[Token]
    structure: Structure
    scope: Scope
    members: frozenset[str]
    """Names that look like swizzles and are members of structs: which, only types tell."""
    gathers: bool = False
    gathered: int = 0
    """Threadgroup arrays that have their place in `kw_shared`."""
    out: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Indices of the code tokens."""
    behind: dict[int, str] = field(default_factory=dict)
    """What follows the code token at a place."""
    dropped: set[int] = field(default_factory=set)
    """Tokens that stay empty."""

    @classmethod
    def of(cls, text: str, scope: Scope, members: Collection[str]) -> "_Rewriter":
        """Read a text."""
        tokens = tokenize(text)
        structure = analyze(tokens, scope=scope)
        return cls(tokens, structure, scope, _members(structure) | frozenset(members))

    def run(self) -> str:
        self.out = [self._blank(t) if not t.is_code else t.spelling for t in self.tokens]
        self.places = [i for i, t in enumerate(self.tokens) if t.is_code]
        self.at = {self.tokens[i].offset: place for place, i in enumerate(self.places)}
        self._drop_metal_includes()
        self._read_declarations()
        for place in range(len(self.places)):
            self._token(place)
        self._pick_members()
        self._join_products()
        for place, text in self.behind.items():
            self.out[self.places[place]] += text
        if self.scope == "namespace":
            self._declare_functions()
        return "".join(self.out)

    def _place(self, structure: Structure, index: int) -> int:
        return self.at[structure.code[index].offset]

    def _read_declarations(self) -> None:
        """Note which threadgroup variables and constants the text declares, and where."""
        self.shared: dict[int, tuple[Structure, Variable]] = {}
        self.constants: dict[int, str] = {}
        bodies = macro_bodies(self.tokens, Macros(), ("threadgroup",))
        for structure in (self.structure, *bodies):
            for variable in (*structure.variables, *structure.locals):
                for index in structure.qualifiers(variable):
                    if structure.spelling(index) == "threadgroup":
                        self._note_shared(structure, variable, index)
        for variable in self.structure.variables:
            if variable.in_class or any(d.marks for d in variable.declarators):
                continue
            words = [self.structure.spelling(i) for i in variable.specifiers]
            is_array = any(d.is_array for d in variable.declarators)
            for index in self.structure.qualifiers(variable):
                if self.structure.spelling(index) == "constant":
                    by = "" if "constexpr" in words else "constexpr"
                    place = self._place(self.structure, index)
                    self.constants[place] = "__constant__ const" if is_array else by

    def _note_shared(self, structure: Structure, variable: Variable, keyword: int) -> None:
        """Note a threadgroup variable; what is also declared as a pointer is a thread's own."""
        declarators = variable.declarators
        if not declarators or not declarators[0].marks:
            self.shared[self._place(structure, keyword)] = structure, variable
        type_ = join([structure.code[i] for i in variable.specifiers if i != keyword])
        for before, after in pairwise(declarators):
            if bool(before.marks) != bool(after.marks):
                space = "" if after.marks else "__shared__ "
                comma = self._place(structure, after.start - 1)
                self.out[self.places[comma]] = f"; {space}{type_}"

    def _join_products(self) -> None:
        """Let one call stand for two products that a tensor core takes at once."""
        for pair in product_pairs([self._text(p) for p in range(len(self.places))]):
            self.out[self.places[pair.name]] = "kw_multiply_two"
            for place in pair.seam:
                self.out[self.places[place]] = ""
            self.out[self.places[pair.seam[0]]] = ","

    def _declare_functions(self) -> None:
        """Make functions device code."""
        code = self.structure.code
        indices = [self.places[self.at[t.offset]] for t in code]
        spelled = [self.out[i] for i in indices]
        DeviceFunctions(self.structure, spelled).declare()
        for i, text in zip(indices, spelled, strict=True):
            self.out[i] = text

    def _pick_members(self) -> None:
        """Write `v.xy` as a call where a struct has a member of that name as well."""
        for access in self.structure.accesses:
            name = self.structure.spelling(access.name_at)
            if name not in self.members:
                continue
            start, dot, at = (
                self.places[self._place(self.structure, i)]
                for i in (access.start, access.end + 1, access.name_at)
            )
            pointer = "*" if self.out[dot] == "->" else ""
            verb = "kw_place" if self._is_written(access.name_at) else "kw_member"
            self.out[start] = f"{verb}_{name}({pointer}{self.out[start]}"
            self.out[dot], self.out[at] = ", 0", ")"

    def _is_written(self, name_at: int) -> bool:
        return self.structure.spelling(name_at + 1) in _ASSIGNMENTS

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

    def _token(self, place: int) -> None:
        index = self.places[place]
        token = self.tokens[index]
        if token.directive in ("include", "pragma", "if", "ifdef", "ifndef", "elif"):
            return
        if index in self.dropped:
            return
        if token.kind is TokenKind.NUMBER:
            self.out[index] = _literal(token.spelling)
        elif token.kind is TokenKind.PUNCTUATOR:
            self._attribute(place)
        elif token.kind is TokenKind.IDENTIFIER:
            self._identifier(place)

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
            self.dropped.add(i)

    def _identifier(self, place: int) -> None:
        index = self.places[place]
        name = self.tokens[index].spelling
        if not self.out[index]:
            return
        if name in _DROPPED:
            self.out[index] = ""
        elif name == "constant":
            self.out[index] = self._constant(place)
        elif name == "threadgroup":
            self.out[index] = "__shared__" if place in self.shared else ""
            if self.gathers and place in self.shared:
                self._gather(place)
        elif (
            self._raw(place - 1) in (".", "->")
            and name not in self.members
            and _SWIZZLE.fullmatch(name)
        ):
            verb = "kw_write" if self._raw(place + 1) in _ASSIGNMENTS else "kw_read"
            picked = ", ".join(str(_COMPONENT[letter]) for letter in name)
            self.out[index] = f"template {verb}<{picked}>()"

    def _raw(self, place: int) -> str:
        """Spelling of a code token, directives included."""
        return self.tokens[self.places[place]].spelling if 0 <= place < len(self.places) else ""

    def _is_swizzle(self, name: str) -> bool:
        return name not in self.members and _SWIZZLE.fullmatch(name) is not None

    def _constant(self, place: int) -> str:
        if "const" in (self._raw(place - 1), self._raw(place + 1)):
            return ""
        token = self.tokens[self.places[place]]
        if token.directive:
            beside = (self.tokens[i] for i in self.places[place : place + 4])
            is_fixed = any(t.text == "constexpr" and t.line == token.line for t in beside)
            return "" if is_fixed else "const"
        return self.constants.get(place, "const")

    def _gather(self, place: int) -> None:
        """Turn one declaration into types, and references to places behind all arrays before."""
        structure, variable = self.shared[place]
        words = [structure.spelling(i) for i in variable.specifiers]
        is_set = any(d.value is not None or d.marks for d in variable.declarators)
        if variable.blocks or is_set or {"static", "{"} & set(words):
            return
        placed: list[str] = []
        for declarator in variable.declarators:
            array = structure.spelling(declarator.name_at)
            number = self.gathered
            self.gathered += 1
            type_, at = f"kw_array_{number}", f"kw_at_{number}"
            name = self._place(structure, declarator.name_at)
            self.out[self.places[name]] = type_
            self.dropped.add(self.places[name])
            placed += [
                f" constexpr uint {at} = kw_place(kw_end_{number});",
                f" constexpr uint kw_end_{number + 1} = {at} + sizeof({type_});",
                f" {type_}& {array} = *({type_}*)(kw_shared + {at});",
            ]
        self.out[self.places[place]] = "typedef"
        self.behind[self._place(structure, variable.end)] = "".join(placed)


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
