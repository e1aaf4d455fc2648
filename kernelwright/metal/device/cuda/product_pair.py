"""Finds products of simdgroup matrices that follow each other and share a right factor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_CALL = "simdgroup_multiply_accumulate"
_BEFORE = frozenset({";", "{", "}"})
"""What a statement stands behind that no `if` or loop has for its body."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProductPair:
    """Two statements among a text's words that one call can stand for."""

    name: int
    """Place of the first function's name."""
    seam: range
    """Places from the parenthesis that closes the first call to the one that opens the second."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A statement that adds a product to a matrix."""

    name: int
    sums: Words
    left: Words
    right: Words
    end: int
    """Place of the semicolon."""


def product_pairs(words: Sequence[str]) -> Iterator[ProductPair]:
    """Yield the pairs in a text's words; no product is in two of them."""
    referred = {after for word, after in pairwise(words) if word == "&"}
    place = 0
    while place < len(words):
        first = _product(words, place)
        second = _product(words, first.end + 1) if first else None
        if first and second and _are_apart(first, second, referred):
            yield ProductPair(first.name, range(first.end - 1, second.name + 2))
            place = second.end
        place += 1


def _product(words: Sequence[str], place: int) -> _Product | None:
    """Return the statement that begins at a place, if it is a product and nothing else."""
    name = place + 2 if tuple(words[place : place + 2]) == ("metal", "::") else place
    if tuple(words[name : name + 2]) != (_CALL, "(") or words[place - 1] not in _BEFORE:
        return None
    end = name + 2
    # What holds a call or an assignment is left alone: its turn may matter.
    while end < len(words) and words[end] not in (")", "(", "=", "++", "--", ""):
        end += 1
    arguments = _split(words[name + 2 : end])
    if tuple(words[end : end + 2]) != (")", ";") or len(arguments) != 4:
        return None
    sums, left, right, added = arguments
    return _Product(name, sums, left, right, end + 1) if sums == added else None


def _split(words: Sequence[str]) -> list[Words]:
    """Return what stands between commas outside of brackets."""
    arguments: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word == "[") - (word == "]")
        if word == "," and not depth:
            arguments.append([])
        else:
            arguments[-1].append(word)
    return [tuple(argument) for argument in arguments]


def _are_apart(first: _Product, second: _Product, referred: set[str]) -> bool:
    """Say whether the second product certainly reads nothing that the first one writes."""
    written = first.sums[0]
    if first.right != second.right or {written, second.sums[0]} & referred:
        return False
    if written in (*second.left, *second.right):
        return False
    return written != second.sums[0] or _are_different(first.sums, second.sums)


def _are_different(first: Words, second: Words) -> bool:
    """Say whether an index tells two elements apart, as in `a[0]`, `a[1]` or `a[m]`, `a[m + 1]`."""
    same = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    if not same:
        return False
    if first[same] == "]":
        added = second[same : same + 2]
        return (
            added[:1] == ("+",) and _is_positive(*added[1:]) and second[same + 2 :] == first[same:]
        )
    numbers = first[same].isdecimal() and second[same].isdecimal()
    return numbers and (first[same - 1], first[same + 1]) == ("[", "]") == (
        second[same - 1],
        second[same + 1],
    )


def _is_positive(number: str) -> bool:
    return number.isdecimal() and int(number) > 0
