"""Mistakes among threads: barriers, shuffles, reductions, attributes, stores, early returns."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import ASSIGNMENTS, Change, MetalText, Operand

_BARRIERS = ("threadgroup_barrier", "simdgroup_barrier")
_ATTRIBUTES = (
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
)
_SCALARS = (
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "thread_index_in_threadgroup",
)
_OTHER_REDUCTION = {
    "simd_sum": ("simd_max", "simd_prefix_inclusive_sum"),
    "simd_max": ("simd_min", "simd_sum"),
    "simd_min": ("simd_max",),
    "simd_maximum": ("simd_min",),
    "simd_product": ("simd_sum",),
    "simd_any": ("simd_all",),
    "simd_all": ("simd_any",),
    "simd_prefix_inclusive_sum": ("simd_prefix_exclusive_sum", "simd_sum"),
    "simd_prefix_exclusive_sum": ("simd_prefix_inclusive_sum",),
}
_OTHER_SHUFFLE = {
    "simd_shuffle_xor": ("simd_shuffle_down", "simd_shuffle_up"),
    "simd_shuffle_down": ("simd_shuffle_xor", "simd_shuffle_up"),
    "simd_shuffle_up": ("simd_shuffle_down",),
    "simd_shuffle": ("simd_shuffle_xor",),
    "simd_broadcast": ("simd_shuffle_xor",),
}


def _barriers(text: MetalText) -> Iterator[Operand]:
    """Yield every barrier's statement."""
    for name, _ in text.calls(*_BARRIERS):
        start, end = text.call_start(name), text.partner[name + 1] + 1
        if text.word(end) == ";":
            yield Operand(start, end)


def _barrier_dropped(text: MetalText) -> Iterator[Change]:
    for barrier in _barriers(text):
        yield text.change(barrier.first, barrier.last, "")


def _barrier_moved(text: MetalText) -> Iterator[Change]:
    for barrier in _barriers(text):
        statement = text.operand_text(barrier)
        if text.word(barrier.first - 1) in (";", "}"):
            before = _whole_statement(text, barrier.first - 1)
            old = text.text(before, barrier.first - 1)
            yield text.change(before, barrier.last, f"{statement} {old}")
        if text.word(barrier.last + 1) not in ("", "}"):
            after = text.statement(barrier.last + 1)
            if text.words[after.last] == ";":
                new = f"{text.operand_text(after)} {statement}"
                yield text.change(barrier.first, after.last, new)


def _whole_statement(text: MetalText, last: int) -> int:
    """Return the first token of the statement or block that ends at a token, its head included."""
    first = text.statement(last - 1).first if text.words[last] == ";" else text.partner[last]
    while text.word(first - 1) == ")" and text.partner.get(first - 1, 0) > 0:
        first = text.partner[first - 1] - 1
    return first


def _barrier_scope(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word in ("mem_threadgroup", "mem_device"):
            other = "mem_device" if word == "mem_threadgroup" else "mem_threadgroup"
            for new in ("mem_none", other):
                yield text.change(place, place, new)


def _early_return(text: MetalText) -> Iterator[Change]:
    for barrier in _barriers(text) if text.is_body else ():
        for test in ("thread_index_in_simdgroup >= 16", "thread_position_in_threadgroup.x == 0"):
            yield text.insert(barrier.first, f"if ({test}) return; ")


def _reduction_changed(text: MetalText) -> Iterator[Change]:
    for name, _ in text.calls(*_OTHER_REDUCTION):
        for other in _OTHER_REDUCTION[text.words[name]]:
            yield text.change(name, name, other)


def _reduction_dropped(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls(*_OTHER_REDUCTION, *_OTHER_SHUFFLE):
        if arguments:
            new = f"({text.operand_text(arguments[0])})"
            yield text.change(text.call_start(name), text.partner[name + 1], new)


def _shuffle_changed(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls(*_OTHER_SHUFFLE):
        for other in _OTHER_SHUFFLE[text.words[name]]:
            yield text.change(name, name, other)
        if len(arguments) == 2:
            distance = arguments[1]
            for new in ("({}) / 2", "({}) * 2", "({}) + 1"):
                changed = new.format(text.operand_text(distance))
                yield text.change(distance.first, distance.last, changed)


def _half_simdgroup(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word.rstrip("uU") in ("32", "31", "16"):
            new = {"32": "16", "31": "15", "16": "8"}[word.rstrip("uU")]
            yield text.change(place, place, new + word[len(word.rstrip("uU")) :])


def _other_attribute(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        for family in (_ATTRIBUTES, _SCALARS):
            if word in family:
                for other in sorted(set(family) - {word}):
                    yield text.change(place, place, other)
        if word in _ATTRIBUTES and text.word(place + 1) == ".":
            axes = {"x", "y", "z"} - {text.word(place + 2)}
            for axis in sorted(axes):
                yield text.change(place + 2, place + 2, axis)


def _stores(text: MetalText) -> Iterator[Operand]:
    """Yield the statements that write through a pointer that is no local array."""
    for place, word in enumerate(text.words):
        if word not in ASSIGNMENTS:
            continue
        statement = text.statement(place)
        first = statement.first
        is_through = text.words[first] == "*" and text.word(first + 1) == "("
        is_subscript = text.words[first] in text.pointers and text.word(first + 1) == "["
        if (is_through or is_subscript) and text.words[statement.last] == ";":
            yield statement


def _store_skipped(text: MetalText) -> Iterator[Change]:
    for store in _stores(text) if text.is_body else ():
        for test in ("thread_index_in_simdgroup != 31", "thread_position_in_grid.x != 0"):
            yield text.insert(store.first, f"if ({test}) ")


def _atomic_made_plain(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls("atomic_fetch_add_explicit", "atomic_fetch_max_explicit"):
        if len(arguments) == 3:
            place, value, order = map(text.operand_text, arguments)
            old = f"atomic_load_explicit({place}, {order})"
            new = f"atomic_store_explicit({place}, {old} + {value}, {order})"
            yield text.change(text.call_start(name), text.partner[name + 1], new)


OPERATORS = (
    TextOperator("barrier dropped", "barriers", "a barrier is gone", _barrier_dropped),
    TextOperator("barrier moved", "barriers", "a barrier stands one statement off", _barrier_moved),
    TextOperator(
        "barrier scope",
        "barriers",
        "a barrier orders other memory, or none",
        _barrier_scope,
        shows_in_code=False,
    ),
    TextOperator("early return", "barriers", "some threads leave before a barrier", _early_return),
    TextOperator("reduction changed", "simdgroup", "simd_max for simd_sum", _reduction_changed),
    TextOperator("reduction dropped", "simdgroup", "each lane keeps its own", _reduction_dropped),
    TextOperator("shuffle changed", "simdgroup", "another distance or direction", _shuffle_changed),
    TextOperator("half a simdgroup", "simdgroup", "16 lanes for 32", _half_simdgroup),
    TextOperator(
        "other attribute", "threads", "another thread attribute or axis", _other_attribute
    ),
    TextOperator("store skipped", "threads", "some threads do not write", _store_skipped),
    TextOperator("atomic made plain", "threads", "read, add and write apart", _atomic_made_plain),
)
