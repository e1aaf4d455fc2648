"""Mistakes in bounds, guards and tails: one iteration, one element, one tile too many or few."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import COMPARISONS, Change, Loop, MetalText, Operand

_OTHER_STRICTNESS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_ORDERINGS = tuple(_OTHER_STRICTNESS)


def _is_within(place: int, operand: Operand) -> bool:
    return operand.first <= place <= operand.last


def _bounds(text: MetalText) -> Iterator[tuple[Loop, int]]:
    """Yield the comparisons of every loop's condition."""
    for place in text.binaries(*COMPARISONS):
        for loop in text.loops:
            if loop.opening < place < loop.closing and loop.part(place) == 1:
                yield loop, place


def _loop_bound_inclusive(text: MetalText) -> Iterator[Change]:
    for _, place in _bounds(text):
        if other := _OTHER_STRICTNESS.get(text.words[place]):
            yield text.change(place, place, other)


def _loop_bound_moved(text: MetalText) -> Iterator[Change]:
    for _, place in _bounds(text):
        bound = text.right_operand(place)
        for move in ("- 1", "+ 1"):
            new = f"({text.operand_text(bound)} {move})"
            yield text.change(bound.first, bound.last, new)


def _loop_start_moved(text: MetalText) -> Iterator[Change]:
    for loop in text.loops:
        for place in range(loop.opening, loop.closing):
            if text.words[place] == "=" and loop.semicolons and loop.part(place) == 0:
                last = loop.semicolons[0] - 1
                new = f"{text.text(place + 1, last)} + 1"
                yield text.change(place + 1, last, new)


def _steps(text: MetalText) -> Iterator[tuple[Loop, int]]:
    """Yield the assignments that step a loop."""
    for loop in text.loops:
        if loop.semicolons:
            for place in range(loop.semicolons[1], loop.closing):
                if text.words[place] in ("+=", "-=", "*=", "/=", "<<=", ">>="):
                    yield loop, place


def _step_changed(text: MetalText) -> Iterator[Change]:
    for loop, place in _steps(text):
        step = text.text(place + 1, loop.closing - 1)
        by = "+ 1" if text.words[place] in ("<<=", ">>=") else "* 2"
        yield text.change(place + 1, loop.closing - 1, f"({step}) {by}")
    for loop in text.loops:
        for place in range(loop.opening, loop.closing):
            if text.words[place] in ("++", "--") and loop.semicolons and loop.part(place) == 2:
                name = place + 1 if text.is_name(place + 1) else place - 1
                sign = text.words[place][0]
                first, last = min(place, name), max(place, name)
                yield text.change(first, last, f"{text.words[name]} {sign}= 2")


def _last_tile_dropped(text: MetalText) -> Iterator[Change]:
    for loop, place in _steps(text):
        step = text.text(place + 1, loop.closing - 1)
        for found, comparison in _bounds(text):
            if found == loop and text.words[place] == "+=":
                bound = text.right_operand(comparison)
                new = f"({text.operand_text(bound)} - ({step}))"
                yield text.change(bound.first, bound.last, new)


def _tail_rounded_down(text: MetalText) -> Iterator[Change]:
    for _, place in _bounds(text):
        bound = text.right_operand(place)
        for tile in (4, 32):
            new = f"({text.operand_text(bound)} / {tile} * {tile})"
            yield text.change(bound.first, bound.last, new)


def _guard_inclusive(text: MetalText) -> Iterator[Change]:
    for place in text.binaries(*_ORDERINGS):
        if any(_is_within(place, condition) for condition in text.conditions):
            yield text.change(place, place, _OTHER_STRICTNESS[text.words[place]])


def _guard_moved(text: MetalText) -> Iterator[Change]:
    for place in text.binaries(*COMPARISONS):
        if any(_is_within(place, condition) for condition in text.conditions):
            bound = text.right_operand(place)
            for move in ("- 1", "+ 1"):
                new = f"({text.operand_text(bound)} {move})"
                yield text.change(bound.first, bound.last, new)


def _guard_dropped(text: MetalText) -> Iterator[Change]:
    for condition in text.conditions:
        yield text.change(condition.first, condition.last, "true")


def _branch_never_taken(text: MetalText) -> Iterator[Change]:
    for condition in text.conditions:
        yield text.change(condition.first, condition.last, "false")


def _clause_dropped(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("&&", "||"):
        left, right = text.left_operand(place), text.right_operand(place)
        for kept in (left, right):
            yield text.change(left.first, right.last, text.operand_text(kept))


OPERATORS = (
    TextOperator(
        "loop bound inclusive",
        "bounds",
        "`i < n` becomes `i <= n`, and back",
        _loop_bound_inclusive,
    ),
    TextOperator("loop bound moved", "bounds", "a loop ends at n - 1 or n + 1", _loop_bound_moved),
    TextOperator("loop start moved", "bounds", "a loop starts one later", _loop_start_moved),
    TextOperator("step changed", "bounds", "a loop's step is doubled", _step_changed),
    TextOperator(
        "guard inclusive", "bounds", "an `if` takes its bound in, or not", _guard_inclusive
    ),
    TextOperator("guard moved", "bounds", "an `if` compares with n - 1 or n + 1", _guard_moved),
    TextOperator("guard dropped", "bounds", "an `if` is always taken", _guard_dropped),
    TextOperator("branch never taken", "bounds", "an `if` is never taken", _branch_never_taken),
    TextOperator("clause dropped", "guards", "one side of `&&` or `||` is gone", _clause_dropped),
    TextOperator("last tile dropped", "tails", "a loop ends one step early", _last_tile_dropped),
    TextOperator(
        "tail rounded down", "tails", "a bound becomes a multiple of 4 or 32", _tail_rounded_down
    ),
)
