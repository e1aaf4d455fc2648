"""A detour around a fold of LLVM 22 that moves conditional loads below the stores that follow.

https://github.com/llvm/llvm-project/issues/215453: of a masked load whose value one `select` takes
under the same mask, InstCombine makes a new load at the place of the `select`. A value that is
first combined with a zero of its own, which only the runtime knows to be one, is no such load.
"""

import re
from dataclasses import dataclass, field

# grid_origin of kw_thread, which is always zero.
_ZERO_AT = 84
_WORDS = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}
_WORDS |= {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}


@dataclass
class Opaque:
    """Makes the values of conditional loads ones that no fold takes for loads."""

    before: list[str] = field(default_factory=list)
    """Once for all lanes."""
    _count: int = 0

    def load(self, name: str, text: str) -> list[str]:
        """Return a load with what keeps it in its place; a vector's needs nothing."""
        type_ = re.split(r"[ ,]", text.removeprefix("load "))[0]
        word = _WORDS.get(type_)
        if word is None:
            return [f"{name} = {text}"]
        zero, loaded = self._zero(word), f"{name}.loaded"
        if word == type_:
            return [f"{loaded} = {text}", f"{name} = or {word} {loaded}, {zero}"]
        return [
            f"{loaded} = {text}",
            f"{name}.word = bitcast {type_} {loaded} to {word}",
            f"{name}.hidden = or {word} {name}.word, {zero}",
            f"{name} = bitcast {word} {name}.hidden to {type_}",
        ]

    def _zero(self, word: str) -> str:
        """Return a zero that is another value to the compiler than all others."""
        if not self.before:
            self.before = [
                f"%zero.at = getelementptr i8, ptr %first, i64 {_ZERO_AT}",
                "%zero = load i32, ptr %zero.at, !invariant.load !{}",
            ]
        self._count += 1
        zero = f"%zero.{self._count}"
        self.before.append(f"{zero} = mul i32 %zero, {2 * self._count + 1}")
        if word != "i32":
            cast = "zext" if word == "i64" else "trunc"
            self.before.append(f"{zero}.{word} = {cast} i32 {zero} to {word}")
            zero += f".{word}"
        return zero
