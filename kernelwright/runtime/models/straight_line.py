"""A plan's answer as one Python function without loops: building a step's graph is host time.

A decode step of a small model takes as long as the host needs to build and launch it, so each
layer's answer is written out as source: local names for the values of the trace, and calls.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.runtime.models.nest import Ref

Run = Callable[[tuple[object, ...], Mapping[str, object]], object]
_INDENT = "    "


@dataclass
class StraightLine:
    """Source of a function of a call's `args` and `kwargs`, and what it refers to."""

    names: dict[str, object] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def name(self, value: object, kind: str = "c") -> str:
        """Return a name for something that the function refers to."""
        found = f"{kind}{len(self.names)}"
        self.names[found] = value
        return found

    def say(self, line: str, *, depth: int = 0) -> None:
        """Add a line, so deep inside a condition."""
        self.lines.append(_INDENT * (depth + 1) + line)

    def take(self, template: object, source: str) -> None:
        """Unpack what stands at `source` where a template has places."""
        if type(template) is Ref:
            self.say(f"{place_name(template.place)} = {source}")
        elif isinstance(template, tuple | list):
            for number, part in enumerate(template):
                self.take(part, f"{source}[{number}]")
        elif isinstance(template, dict):
            for key, part in template.items():
                self.take(part, f"{source}[{self.expression(key)}]")

    def keep(self, template: object, source: str, *, depth: int = 0) -> None:
        """Unpack a result that is computed once; it has as many parts as the template."""
        if type(template) is Ref:
            self.say(f"{place_name(template.place)} = {source}", depth=depth)
        elif isinstance(template, tuple | list) and template:
            parts = [f"t{len(self.lines)}_{n}" for n in range(len(template))]
            self.say(f"{', '.join(parts)}, = {source}", depth=depth)
            for name, part in zip(parts, template, strict=True):
                if _has_places(part):
                    self.keep(part, name, depth=depth)
        elif isinstance(template, dict) and _has_places(template):
            whole = f"t{len(self.lines)}"
            self.say(f"{whole} = {source}", depth=depth)
            for key, part in template.items():
                self.keep(part, f"{whole}[{self.expression(key)}]", depth=depth)
        else:
            self.say(source, depth=depth)

    def expression(self, template: object) -> str:
        """Return source for a nest: names for its places, and what else it holds."""
        if type(template) is Ref:
            return place_name(template.place)
        if type(template) is tuple:
            return "(" + "".join(f"{self.expression(part)}, " for part in template) + ")"
        if type(template) is list:
            return "[" + ", ".join(map(self.expression, template)) + "]"
        if type(template) is dict:
            pairs = (f"{self.expression(k)}: {self.expression(v)}" for k, v in template.items())
            return "{" + ", ".join(pairs) + "}"
        if template is None or template is True or template is False:
            return repr(template)
        return repr(template) if type(template) in (int, str) else self.name(template)

    def arguments(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """Return source for what a call is given."""
        placed = [self.expression(value) for value in args]
        named = [f"**{self.expression(dict(kwargs))}"] if kwargs else []
        if all(name.isidentifier() for name in kwargs):
            named = [f"{name}={self.expression(value)}" for name, value in kwargs.items()]
        return ", ".join([*placed, *named])

    def function(self) -> Run:
        """Return the function."""
        source = "\n".join(["def answer(args, kwargs):", *self.lines])
        made: dict[str, object] = dict(self.names)
        exec(compile(source, "<kernelwright plan>", "exec"), made)
        return made["answer"]  # type: ignore[return-value]


def place_name(place: int) -> str:
    """Return the local name of a place of the trace."""
    return f"v{place}"


def _has_places(template: object) -> bool:
    if isinstance(template, tuple | list):
        return any(map(_has_places, template))
    if isinstance(template, dict):
        return any(map(_has_places, template.values()))
    return type(template) is Ref
