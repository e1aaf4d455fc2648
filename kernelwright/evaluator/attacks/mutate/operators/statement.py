"""Mistakes of whole statements and names: one forgotten, one array read for another."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import ASSIGNMENTS, Change, MetalText


def _statement_dropped(text: MetalText) -> Iterator[Change]:
    """Leave out an assignment that declares nothing."""
    for place, word in enumerate(text.words):
        if word not in ASSIGNMENTS or text.is_in_loop_header(place):
            continue
        statement = text.statement(place)
        declares = text.is_name(place - 1) and text.is_name(place - 2)
        if text.words[statement.last] == ";" and not declares:
            yield text.change(statement.first, statement.last, ";")


def _statement_repeated(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word in ("+=", "-=", "*=", "|=", "^="):
            if text.is_in_loop_header(place):
                continue
            statement = text.statement(place)
            if text.words[statement.last] == ";":
                yield text.insert(statement.first, text.operand_text(statement) + " ")


def _wrong_input(text: MetalText) -> Iterator[Change]:
    kinds = dict(text.inputs)
    for place, word in enumerate(text.words):
        if word in kinds and text.word(place - 1) not in (".", "->"):
            for other, kind in text.inputs:
                if other != word and kind == kinds[word]:
                    yield text.change(place, place, other)


def _wrong_local(text: MetalText) -> Iterator[Change]:
    """Use the variable of the same type that was declared just before."""
    names: dict[str, list[str]] = {}
    for kind, name, _ in text.declarations():
        names.setdefault(text.words[kind], []).append(text.words[name])
    before = {
        name: listed[place - 1]
        for listed in names.values()
        for place, name in enumerate(listed)
        if place and listed[place - 1] != name
    }
    for place, word in enumerate(text.words):
        is_read = word in before and text.word(place + 1) not in ASSIGNMENTS
        if is_read and text.word(place - 1) not in (".", "::") and not text.is_type(place - 1):
            yield text.change(place, place, before[word])


OPERATORS = (
    TextOperator("statement dropped", "statements", "an assignment is gone", _statement_dropped),
    TextOperator(
        "statement repeated", "statements", "a sum takes a term twice", _statement_repeated
    ),
    TextOperator("wrong input", "inputs", "another array of the same type is read", _wrong_input),
    TextOperator(
        "wrong local", "inputs", "another variable of the same type is read", _wrong_local
    ),
)
