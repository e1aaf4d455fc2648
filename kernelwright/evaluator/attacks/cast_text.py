"""A kernel of floats made one of halves: it reads floats, and rounds where it stores."""

import re
from collections.abc import Iterator, Sequence

from kernelwright.ir.graph.dtype import Dtype

_TYPES = {Dtype.FLOAT16: "half", Dtype.BFLOAT16: "bfloat16_t"}
_STORE = re.compile(r"\s*([-+*]?)=(?!=)\s*")


def cast_text(text: str, arrays: Sequence[str], dtype: Dtype) -> str:
    """Return a text whose arrays of these names hold `dtype` in the place of float32.

    What is read becomes a float at once, and what is stored is rounded where it is stored.
    """
    return "".join(_pieces(text, re.compile(rf"(?<!&)\b(?:{'|'.join(arrays)})\["), dtype))


def _pieces(text: str, access: re.Pattern[str], dtype: Dtype) -> Iterator[str]:
    place = 0
    while found := access.search(text, place):
        yield text[place : found.start()]
        end = _end(text, found.end(), "]") + 1
        index = "".join(_pieces(text[found.end() : end - 1], access, dtype))
        element = f"{found[0]}{index}]"
        if store := _STORE.match(text, end):
            place = _end(text, store.end(), ";")
            value = "".join(_pieces(text[store.end() : place], access, dtype))
            before = f"float({element}) {store[1]} " if store[1] else ""
            yield f"{element} = {_TYPES[dtype]}({before}({value}))"
        else:
            yield f"float({element})"
            place = end
    yield text[place:]


def _end(text: str, place: int, closing: str) -> int:
    """Return where a bracket or a statement ends that goes on at a place."""
    depth = 0
    for number in range(place, len(text)):
        character = text[number]
        if depth == 0 and character == closing:
            return number
        depth += (character in "([{") - (character in ")]}")
    return len(text)
