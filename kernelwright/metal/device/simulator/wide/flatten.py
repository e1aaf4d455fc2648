"""Conditional stores to threadgroup memory that become stores of one value or the other.

Sorts compare two elements and write both where they are out of order. In a loop over lanes each
such store is a branch of its own, and half of them are mispredicted. Where a thread has just read
the place that it may write, it can as well write back what it read: only a thread that races with
it could tell, since a place that one thread reads and another writes needs a barrier between.
"""

import re
from collections import Counter

from kernelwright.metal.device.simulator.wide.assembly import Block, Function, Instruction

_NAME = r"(%[-\w$.]+)"
_BRANCH = re.compile(rf"br i1 {_NAME}, label {_NAME}, label {_NAME}((?:, ![\w.]+ !\d+)*)")
_JUMP = re.compile(rf"br label {_NAME}(?:, ![\w.]+ !\d+)*")
_LOAD = re.compile(rf"load (\S+), ptr {_NAME}, align \d+.*")
_STORE = re.compile(rf"store (\S+) (\S+), ptr {_NAME}(, align \d+.*)")
_ADDRESS = re.compile(rf"getelementptr (?:[a-z]+ )*[^,]+, ptr {_NAME}, .*")
_PHI = re.compile(r"(phi (?:[a-z]+ )*)(\S+) (\[.*\])(.*)")
_WAY = re.compile(rf"\[ (\S+), {_NAME} \]")
_LABEL = re.compile(rf"label {_NAME}")
_PURE = frozenset(
    (
        *("getelementptr", "add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "icmp"),
        *("fcmp", "fadd", "fsub", "fmul", "fneg", "select", "trunc", "zext", "sext", "bitcast"),
    )
)
_MOST_TURNS = 64


def flattened(function: Function) -> Function:
    """Return a function in which such stores stand under no condition."""
    blocks = [Block(b.label, list(b.instructions)) for b in function.blocks]
    for _ in range(_MOST_TURNS):
        if not any(_flatten(blocks, block) for block in list(blocks)):
            break
    return Function(function.name, function.parameters, blocks, function.attributes)


def _flatten(blocks: list[Block], block: Block) -> bool:
    """Take up the block that a branch leads to beside the way on; say whether it could be."""
    branch = _BRANCH.fullmatch(block.instructions[-1].text)
    if branch is None:
        return False
    by_label = {b.label: b for b in blocks}
    entries = Counter(t for b in blocks for t in _LABEL.findall(b.instructions[-1].text))
    condition = branch[1]
    for number, (side, way_on) in enumerate(((branch[2], branch[3]), (branch[3], branch[2]))):
        body = by_label.get(side)
        if body is None or entries[side] != 1 or body is block:
            continue
        jump = _JUMP.fullmatch(body.instructions[-1].text)
        if jump is None or jump[1] != way_on or way_on not in by_label:
            continue
        written = _unconditional(blocks, block, body, condition, is_negated=number == 1)
        if written is None:
            continue
        selects = _joined(by_label[way_on], block, body, condition, is_negated=number == 1)
        block.instructions[-1:] = [*written, *selects, Instruction(f"br label {way_on}")]
        blocks.remove(body)
        return True
    return False


def _unconditional(
    blocks: list[Block], block: Block, body: Block, condition: str, *, is_negated: bool
) -> list[Instruction] | None:
    """Write the stores of a body so that they change nothing where it would not run."""
    read = _read_last(block)
    definitions = {i.result: i for b in blocks for i in b.instructions if i.result}
    written: list[Instruction] = []
    stores = 0
    for one in body.instructions[:-1]:
        store = _STORE.fullmatch(one.text)
        if store is None:
            if one.operation not in _PURE:
                return None
            written.append(one)
            continue
        type_, value, place, rest = store.groups()
        before = read.get((type_, place))
        if before is None or not _is_threadgroup(place, definitions):
            return None
        pair = (before, value) if is_negated else (value, before)
        chosen = f"{body.label}.kept{stores}"
        text = f"select i1 {condition}, {type_} {pair[0]}, {type_} {pair[1]}"
        written.append(Instruction(text, chosen))
        written.append(Instruction(f"store {type_} {chosen}, ptr {place}{rest}"))
        # What this one has written is what the next to the same place finds.
        read = {key: v for key, v in read.items() if key[1] != place} | {(type_, place): chosen}
        stores += 1
    return written if stores else None


def _read_last(block: Block) -> dict[tuple[str, str], str]:
    """Return what the block has read since it last wrote or called, by type and place."""
    read: dict[tuple[str, str], str] = {}
    for one in block.instructions[:-1]:
        if found := _LOAD.fullmatch(one.text):
            read[found[1], found[2]] = one.result
        elif one.operation not in _PURE and one.operation != "phi" and "@llvm." not in one.text:
            read.clear()
    return read


def _is_threadgroup(place: str, definitions: dict[str, Instruction]) -> bool:
    """Say whether a pointer is computed from a threadgroup variable's."""
    while place in definitions:
        one = definitions[place]
        if one.callee == "@kw_threadgroup_alloc":
            return True
        address = _ADDRESS.fullmatch(one.text)
        if address is None:
            return False
        place = address[1]
    return False


def _joined(
    way_on: Block, block: Block, body: Block, condition: str, *, is_negated: bool
) -> list[Instruction]:
    """Choose before a branch what its end chose by the way it was reached."""
    selects = []
    for one in way_on.instructions:
        phi = _PHI.fullmatch(one.text)
        if phi is None:
            continue
        ways = [(label, value) for value, label in _WAY.findall(phi[3])]
        given = dict(ways)
        pair = (given[body.label], given[block.label])
        if is_negated:
            pair = (pair[1], pair[0])
        chosen = f"{one.result}.joined.{body.label[1:]}"
        text = f"select i1 {condition}, {phi[2]} {pair[0]}, {phi[2]} {pair[1]}"
        selects.append(Instruction(text, chosen))
        kept = [(label, value) for label, value in ways if label not in (body.label, block.label)]
        shown = ", ".join(f"[ {v}, {label} ]" for label, v in [*kept, (block.label, chosen)])
        one.text = f"{phi[1]}{phi[2]} {shown}{phi[4]}"
    return selects
