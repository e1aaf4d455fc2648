"""Makes a text's functions device code, where one function stands for all address spaces."""

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.metal.msl.entry import template_names
from kernelwright.metal.msl.structure import Declared, Function, Structure

_TESTS = {"threadgroup": "__isShared", "thread": "__isLocal"}
"""What tells at run time where a pointer leads; what is neither lies in device memory."""


@dataclass
class DeviceFunctions:
    """Declares the functions of one text, whose tokens `out` holds as CUDA."""

    structure: Structure
    out: MutableSequence[str]
    """One text for each code token."""

    def declare(self) -> None:
        """Overloads by address space alone become one function, or choose at run time."""
        for group in self._groups():
            written = [self._text(f.begin, f.end) for f in group]
            kept: list[Function] = []
            for function, text in zip(group, written, strict=True):
                if text in written[: group.index(function)]:
                    for i in range(function.begin, function.end + 1):
                        self.out[i] = ""
                else:
                    kept.append(function)
            if self._differing(kept) is not None:
                self._choose(kept)
            for function in kept:
                self.out[function.start] = f"__device__ {self.out[function.start]}"

    def _groups(self) -> list[list[Function]]:
        """Gather functions that have the same head in the same scope."""
        found: dict[tuple[object, ...], list[Function]] = {}
        for function in self.structure.functions:
            if _is_call(function):
                continue
            head = self._text(function.begin, function.parameters[1])
            tail = self._text(function.parameters[1] + 1, function.tail_end - 1)
            # Structs may have members of the same text.
            key = (self._around[function.begin], head, tail, function.body is None)
            found.setdefault(key, []).append(function)
        return list(found.values())

    @cached_property
    def _around(self) -> list[int]:
        """The brace around each token, -1 outside of all."""
        found, open_braces = list[int](), [-1]
        for place in range(len(self.structure.code)):
            word = self.structure.spelling(place)
            if word == "}" and len(open_braces) > 1:
                open_braces.pop()
            found.append(open_braces[-1])
            if word == "{":
                open_braces.append(place)
        return found

    def _text(self, start: int, end: int) -> str:
        return " ".join(t for i in range(start, end + 1) if (t := self.out[i].strip()))

    def _differing(self, group: Sequence[Function]) -> int | None:
        """Return the parameter whose memory tells functions of one head apart."""
        if len(group) < 2 or any(f.body is None for f in group):
            return None
        heads = [self.structure.text(f.start, f.parameters[1]) for f in group]
        if any("=" in head or "auto " in head or "..." in head for head in heads):
            return None
        for place in range(len(group[0].declared)):
            spaces = {self._space(f.declared[place]) for f in group}
            if len(spaces) == len(group) and "" not in spaces:
                return place
        return None

    def _space(self, parameter: Declared) -> str:
        words = {self.structure.spelling(i) for i in parameter.type_tokens}
        if not words & {"*", "&"} or parameter.name_at < 0:
            return ""
        return next((w for w in ("threadgroup", "device", "constant") if w in words), "thread")

    def _choose(self, group: Sequence[Function]) -> None:
        """Give each function a name of its own, and write the one that calls the right one."""
        place = self._differing(group)
        assert place is not None
        first, last = group[0], group[-1]
        head = self._text(first.begin, first.start - 1)
        before = self._text(first.start, first.name_at - 1)
        parameters = self._text(*first.parameters)
        name, chosen = self.out[first.name_at].strip(), ""
        arguments = ", ".join(self.structure.spelling(d.name_at) for d in first.declared)
        given = ""
        if first.template is not None:
            given = f"<{', '.join(template_names(self.structure, first.template))}>"
        pointer = self.structure.spelling(first.declared[place].name_at)
        words = {self.structure.spelling(i) for i in first.declared[place].type_tokens}
        asked = pointer if "*" in words else f"&{pointer}"
        by_test = sorted(group, key=lambda f: self._space(f.declared[place]) not in _TESTS)
        for function in by_test:
            space = self._space(function.declared[place])
            own = f"kw_{space}_{name}"
            self.out[function.name_at] = f" {own}"
            call = f"{own}{given}({arguments})"
            is_last = function is by_test[-1]
            chosen += call if is_last else f"{_TESTS.get(space, '__isGlobal')}({asked}) ? {call} : "
        declared = f"{head} __device__ {before} {name}{parameters}".strip()
        self.out[first.begin] = f"{declared}; {self.out[first.begin]}"
        self.out[last.end] += f" {declared} {{ return {chosen}; }}"


def _is_call(function: Function) -> bool:
    """Tell a macro's call at namespace scope from a function, which has a type before its name."""
    is_member = function.in_class and function.name.lstrip("~") == function.scope[-1]
    is_member = is_member or function.name.startswith("operator")
    return function.body is None and function.name_at == function.start and not is_member
