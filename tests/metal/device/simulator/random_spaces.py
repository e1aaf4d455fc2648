"""Random classes whose members are overloaded by address space, with what each call must give."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

SPACES = ("thread", "device", "constant", "threadgroup")
_LOADED = dict(zip(SPACES, (1000, 2000, 3000, 4000), strict=True))
_HEAD = """#include <metal_stdlib>
using namespace metal;
""" + "".join(
    f"float load(const {space} float& p) {{ return p + {more}; }}\n"
    for space, more in _LOADED.items()
)


@dataclass
class Method:
    """One member: a sum for each space."""

    name: str
    sums: dict[str, "list[Term]"]


@dataclass(frozen=True)
class Term:
    """What a sum adds: a number, a field, a loaded field, or a call of another member."""

    written: str
    number: int = 0
    field: bool = False
    loads: bool = False
    called: "tuple[Class, Method] | None" = None
    inner: bool = False
    """The call is for the object inside."""


@dataclass
class Class:
    """A class of floats: its base's, its own, and those of an object inside."""

    name: str
    base: "Class | None"
    inner: "Class | None"
    methods: list[Method] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many floats an object has."""
        parts = [c.size for c in (self.base, self.inner) if c is not None]
        return 1 + sum(parts)

    @property
    def place(self) -> int:
        """Where its own float lies."""
        return self.base.size if self.base is not None else 0

    def value(self, method: Method, space: str, at: int) -> int:
        """Return what a call gives for an object whose floats begin with the number `at` + 1."""
        total = 0
        for term in method.sums[space]:
            own = at + self.place + 1
            total += term.number + own * (term.field or term.loads) + _LOADED[space] * term.loads
            if term.called is not None:
                class_, called = term.called
                begin = at + self.place + 1 if term.inner else at
                total += class_.value(called, space, begin)
        return total


def program(seed: int) -> tuple[str, list[int]]:
    """Return a text whose kernel calls members of objects in every space, and their results."""
    rng = random.Random(seed)
    classes: list[Class] = []
    for k in range(rng.randint(2, 4)):
        base = rng.choice([None, *classes]) if classes else None
        inner = rng.choice([None, *classes]) if classes else None
        class_ = Class(f"C{k}", base, inner)
        for m in range(rng.randint(1, 3)):
            class_.methods.append(_method(rng, class_, f"f{k}{m}"))
        classes.append(class_)
    thread = rng.choice(["thread", "const thread", "const"])
    text = _HEAD + "".join(_definition(rng, c, thread) for c in classes)
    return _kernel(text, classes)


def _method(rng: random.Random, class_: Class, name: str) -> Method:
    if rng.random() < 0.3:
        sums = dict.fromkeys(SPACES, _sum(rng, class_))
    else:
        sums = {space: _sum(rng, class_) for space in SPACES}
    return Method(name, sums)


def _sum(rng: random.Random, class_: Class) -> list[Term]:
    v = f"v{class_.name}"
    number = rng.randint(0, 9)
    found = [Term(f"{number}", number=number)]
    options = [Term(v, field=True), Term(f"this->{v}", field=True), Term(f"load({v})", loads=True)]
    options.append(Term(f"load(this->{v})", loads=True))
    options.append(Term(f"through(&{v})", loads=True))
    for method in class_.methods:
        options.append(Term(f"{method.name}()", called=(class_, method)))
        options.append(Term(f"this->{method.name}()", called=(class_, method)))
    if class_.base is not None:
        for method in class_.base.methods:
            called = class_.base, method
            options.append(Term(f"{method.name}()", called=called))
            options.append(Term(f"{class_.base.name}::{method.name}()", called=called))
    if class_.inner is not None:
        for method in class_.inner.methods:
            called = class_.inner, method
            options.append(Term(f"in{class_.name}.{method.name}()", called=called, inner=True))
    return found + rng.sample(options, rng.randint(1, 3))


def _definition(rng: random.Random, class_: Class, thread: str) -> str:
    inside, outside = [f"  float v{class_.name};"], list[str]()
    if class_.inner is not None:
        inside.append(f"  {class_.inner.name} in{class_.name};")
    for method in class_.methods:
        spaces = list(SPACES)
        rng.shuffle(spaces)
        for space in spaces:
            qualifiers = thread if space == "thread" else f"const {space}"
            body = f"{{ return {' + '.join(t.written for t in method.sums[space])}; }}"
            if qualifiers != "thread" and rng.random() < 0.3:
                inside.append(f"  float {method.name}() {qualifiers};")
                head = f"inline float {class_.name}::{method.name}() {qualifiers}"
                outside.append(f"{head} {body}")
            else:
                inside.append(f"  float {method.name}() {qualifiers} {body}")
    base = f" : {class_.base.name}" if class_.base is not None else ""
    lines = [f"struct {class_.name}{base} {{", *inside, "};", *outside]
    return "\n".join(lines) + "\n"


def _kernel(text: str, classes: Sequence[Class]) -> tuple[str, list[int]]:
    body, expected = list[str](), list[int]()
    for c in classes:
        body.append(f"  {c.name} t{c.name} = *(const device {c.name}*)x;")
        body.append(f"  threadgroup {c.name} g{c.name}; g{c.name} = t{c.name};")
        objects = {
            "thread": f"t{c.name}",
            "device": f"(*(const device {c.name}*)x)",
            "constant": f"(*(constant {c.name}*)z)",
            "threadgroup": f"g{c.name}",
        }
        for method in c.methods:
            for space in SPACES:
                body.append(f"  y[{len(expected)}] = {objects[space]}.{method.name}();")
                expected.append(c.value(method, space, 0))
    kernel = "\n".join(
        [
            "template <typename P> float through(P p) { return load(*p); }",
            "kernel void k(const device float* x [[buffer(0)]], constant float* z [[buffer(1)]],",
            "              device float* y [[buffer(2)]]) {",
            *body,
            "}\n",
        ]
    )
    through, _, rest = kernel.partition("\n")
    return text.replace("struct C0", f"{through}\nstruct C0", 1) + rest, expected
