"""What a kernel computes from the data that it has loaded."""

import heapq
import re
from collections.abc import Collection, Iterator

from kernelwright.metal.device.simulator.branches.listing import Block, Function, Instruction
from kernelwright.metal.device.simulator.path import TOLD
from kernelwright.metal.device.simulator.wide.assembly import NAME

_OFFSET = re.compile(r"i64 (\d+)$")
_POINTERS = frozenset(("getelementptr", "phi", "select", "bitcast", "addrspacecast", "freeze"))
_EXCHANGE = "@kw_simdgroup"
_LIFETIME = "@llvm.lifetime."
_THREADGROUP = "threadgroup memory"
_ANYTHING = "anything"
_BUFFER_BYTES = 8
_BUFFER = "buffer "
_UNCHANGED = frozenset(("zext", "sext", "uitofp", "sitofp", "fpext", "freeze"))
_WIDTH = re.compile(r"load (?:volatile |atomic )*i(\d+),")
_ALIGNMENT = re.compile(r", align (\d+)")
_ELEMENTS = re.compile(r"(?:i|\[\d+ x i)(\d+)\]?, ptr")
_BYTES = re.compile(r"i8, ptr [^,]+, i64 (\d+)$")


class Taint:
    """Names and memory of one function that depend on loaded data."""

    def __init__(
        self, function: Function, descriptions: Collection[int], *, is_entry: bool
    ) -> None:
        """Follow data from its loads.

        Args:
            function: A kernel's entry, or a function that it calls.
            descriptions: Numbers of the buffers that hold shapes and strides alone.
            is_entry: Whether its parameters are the entry's: buffers, and the thread.
        """
        self._function, self._descriptions = function, descriptions
        self._is_entry = is_entry
        self._roots: dict[str, frozenset[str]] = {}
        self.names: set[str] = set() if is_entry else set(function.parameters)
        self._memory: set[str] = {_ANYTHING}
        self._flow = _ControlFlow(function)
        self._block_of = {
            i.number: label for label, block in function.blocks.items() for i in block.instructions
        }
        self._written: dict[str, set[int]] = {}
        """Where data comes into each piece of memory, by the numbers of instructions."""
        self._spread()

    def _spread(self) -> None:
        before = -1
        while before != self._known:
            before = self._known
            for instruction in self._function.instructions:
                self._follow(instruction)
            for block in self._function.blocks.values():
                self._choose(block)

    @property
    def _known(self) -> int:
        return len(self.names) + len(self._memory) + sum(map(len, self._written.values()))

    def _choose(self, block: Block) -> None:
        """What a condition chooses depends on it, even where it chooses among constants."""
        last = block.instructions[-1]
        condition = [n for n in NAME.findall(last.text.partition("label")[0]) if n[0] == "%"]
        if len(block.successors) < 2 or not self.names.intersection(condition):
            return
        for join in self._flow.joins(block):
            for instruction in join.instructions:
                if instruction.operation != "phi":
                    break
                self.names.add(instruction.result)

    def _follow(self, instruction: Instruction) -> None:
        operation = instruction.operation
        names = [n for n in instruction.operands if n[0] == "%"]
        is_tainted = not self.names.isdisjoint(names)
        if operation == "store":
            value, pointer = names[:-1], names[-1] if names else ""
            if pointer and (not self.names.isdisjoint(value) or pointer in self.names):
                self._write(pointer, instruction)
        elif operation == "call":
            is_tainted = self._call(instruction, names, is_tainted=is_tainted)
        elif operation in ("load", "atomicrmw", "cmpxchg"):
            pointer = names[-1 if operation == "load" else 0] if names else ""
            is_tainted = is_tainted or (bool(pointer) and self._holds_data(pointer, instruction))
        if is_tainted and instruction.result:
            self.names.add(instruction.result)

    def _call(self, instruction: Instruction, names: list[str], *, is_tainted: bool) -> bool:
        """Let a call carry what it is given to what it is given to write."""
        if any(f"{told}(" in instruction.text for told in TOLD):
            return False
        if f"{_EXCHANGE}(" in instruction.text:
            given, result = names[0], names[1]
            if self._holds_data(given, instruction):
                self._write(result, instruction)
            return False
        pointers = [n for n in names if self._is_memory(n)]
        if not is_tainted and not any(self._holds_data(p, instruction) for p in pointers):
            return False
        for pointer in pointers:
            self._write(pointer, instruction)
        return True

    def _write(self, pointer: str, instruction: Instruction) -> None:
        """Note that data comes into what a pointer points into."""
        self._memory |= self._root(pointer)
        for root in self._root(pointer):
            self._written.setdefault(root, set()).add(instruction.number)

    def _is_memory(self, name: str) -> bool:
        return bool(self._root(name) - {_ANYTHING})

    def _holds_data(self, pointer: str, reader: Instruction) -> bool:
        """Say whether data may be where a pointer points to, when an instruction reads it."""
        roots = self._root(pointer)
        if any(root.startswith(_BUFFER) for root in roots):
            return True
        return any(
            not root.startswith("%") or self._may_be_written(root, reader)
            for root in self._memory.intersection(roots)
        )

    def _may_be_written(self, root: str, reader: Instruction) -> bool:
        """Say whether a thread's own memory may hold data by then: none comes from behind."""
        place = self._block_of[reader.number]
        for number in self._written.get(root, ()):
            writer = self._block_of[number]
            if (writer == place and number < reader.number) or self._flow.leads(writer, place):
                return True
        return False

    def memory_of(self, pointer: str) -> frozenset[str]:
        """Return the pieces of memory, buffers aside, that a pointer may point into."""
        found = self._root(pointer)
        return frozenset(r for r in found if r.startswith("%") or r == _THREADGROUP)

    def buffers_of(self, pointer: str) -> frozenset[int]:
        """Return the numbers of the buffers that a pointer may point into."""
        found = (r for r in self._root(pointer) if r.startswith(_BUFFER))
        return frozenset(int(root.removeprefix(_BUFFER)) for root in found)

    def is_chosen_index(self, name: str) -> bool:
        """Say whether a value is one of several that no data went into, which data chose among.

        One of them at least is no constant: a place that was found, or a mark that none was.
        """
        seen: set[str] = set()
        pending, is_index = [name], False
        while pending:
            value = pending.pop()
            instruction = self._function.definitions.get(value)
            if value in seen or not value.startswith("%"):
                continue
            seen.add(value)
            if value not in self.names:
                is_index = True
            elif instruction is not None and instruction.operation in ("phi", "select"):
                pending += _chosen(instruction)
            else:
                return False
        return is_index

    def loaded_from(self, name: str) -> tuple[int, int]:
        """Return the buffer that a value was loaded from as it is, and how many bits at a time.

        It may have been copied to the thread's own memory. The buffer is -1 where anything else
        was done to it; the bits are 0 where no integer was loaded.
        """
        instruction = self._function.definitions.get(name)
        while instruction is not None and instruction.operation in _UNCHANGED:
            instruction = self._function.definitions.get(instruction.operands[0])
        if instruction is None or instruction.operation != "load":
            return -1, 0
        width = _WIDTH.match(instruction.text)
        bits = int(width[1]) if width else 0
        return self._copied_from(instruction, bits, frozenset()), bits

    def _copied_from(self, load: Instruction, bits: int, seen: frozenset[str]) -> int:
        """Return the only buffer of whose elements a load reads, -1 where there is no such one."""
        roots = self._root(load.operands[-1])
        if len(roots) != 1 or not seen.isdisjoint(roots) or not _is_aligned(load, bits):
            return -1
        (root,) = roots
        if root.startswith(_BUFFER):
            return int(root.removeprefix(_BUFFER))
        if not self._is_element(load.operands[-1], root, bits):
            return -1
        found = {self._stored_from(i, root, bits, seen) for i in self._writers_of(root)}
        return found.pop() if len(found) == 1 else -1

    def _is_element(self, pointer: str, root: str, bits: int) -> bool:
        """Say whether a pointer into a variable is sure to point to where an element begins."""
        if pointer == root:
            return True
        instruction = self._function.definitions.get(pointer)
        if instruction is None:
            # An argument of a function that was not inlined.
            return False
        made = instruction.text
        if not made.startswith("getelementptr") or NAME.findall(made)[0] != root:
            return False
        elements, offset = _ELEMENTS.search(made), _BYTES.search(made)
        if offset:
            return 8 * int(offset[1]) % max(bits, 8) == 0
        return elements is not None and int(elements[1]) == bits

    def _writers_of(self, root: str) -> Iterator[Instruction]:
        """Yield what may write to a thread's own variable."""
        if root not in self._function.definitions:
            return
        for instruction in self._function.instructions:
            names = [n for n in instruction.operands if n[0] == "%"]
            if instruction.is_fill or _LIFETIME in instruction.text:
                continue
            if instruction.operation == "store":
                names = names[-1:]
            elif instruction.operation not in ("call", "atomicrmw", "cmpxchg"):
                continue
            if any(root in self._root(name) for name in names):
                yield instruction

    def _stored_from(self, writer: Instruction, root: str, bits: int, seen: frozenset[str]) -> int:
        """Return the buffer that a store copies to a variable, -1 for all else that writes."""
        if writer.operation != "store" or len(writer.operands) != 2:
            return -1
        value, pointer = writer.operands
        made = self._function.definitions.get(value)
        if made is None or made.operation != "load" or not self._is_element(pointer, root, bits):
            return -1
        return self._copied_from(made, bits, seen | {root})

    def _root(self, name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        """Return what a pointer points into."""
        if name in self._roots:
            return self._roots[name]
        if name in seen:
            return frozenset()
        found = self._find_root(name, seen | {name})
        if not seen:
            self._roots[name] = found
        return found

    def _find_root(self, name: str, seen: frozenset[str]) -> frozenset[str]:
        parameters = self._function.parameters
        if name in parameters:
            # Of an entry they are the list of buffers and the thread, neither of which is data.
            return frozenset((f"parameter {name}" if self._is_entry else _ANYTHING,))
        if name.startswith("@"):
            return frozenset(("constant",))
        instruction = self._function.definitions.get(name)
        if instruction is None:
            return frozenset((_ANYTHING,))
        operation, text = instruction.operation, instruction.text
        if operation == "alloca":
            return frozenset((name,))
        if operation == "call":
            if "@kw_threadgroup_alloc(" in text:
                return frozenset((_THREADGROUP,))
            return frozenset(("thread",)) if "@kw_current(" in text else frozenset((_ANYTHING,))
        if operation == "load":
            return self._loaded_root(instruction)
        if operation not in _POINTERS:
            return frozenset((_ANYTHING,))
        pointers = _pointer_operands(instruction)
        return frozenset().union(*(self._root(p, seen) for p in pointers))

    def _loaded_root(self, instruction: Instruction) -> frozenset[str]:
        """Return which buffer a pointer that was loaded from the list of buffers points to."""
        pointer = instruction.operands[-1]
        index = 0
        if (step := self._function.definitions.get(pointer)) is not None:
            offset = _OFFSET.search(step.text)
            if step.operation != "getelementptr" or offset is None:
                return frozenset((_ANYTHING,))
            pointer, index = step.operands[0], int(offset[1]) // _BUFFER_BYTES
        if not self._is_entry or pointer != self._function.parameters[0]:
            return frozenset((_ANYTHING,))
        is_data = index not in self._descriptions
        return frozenset((f"{_BUFFER}{index}" if is_data else "description",))


def _is_aligned(load: Instruction, bits: int) -> bool:
    found = _ALIGNMENT.search(load.text)
    return found is None or 8 * int(found[1]) >= bits


def _chosen(instruction: Instruction) -> list[str]:
    """Return the values that a phi or a selection passes on."""
    if instruction.operation == "phi":
        return list(re.findall(r"\[ ([^,\s]+),", instruction.text))
    return re.findall(r"\w+ ([^,\s]+)", instruction.text.partition(", ")[2])


def _pointer_operands(instruction: Instruction) -> list[str]:
    names = NAME.findall(instruction.text)
    if instruction.operation == "phi":
        return list(re.findall(r"\[ ([%@][^,\s]+),", instruction.text))
    if instruction.operation == "select":
        return re.findall(r"ptr ([%@][^,\s]+)", instruction.text)
    return names[:1]


class _ControlFlow:
    """Where the ways that part at a branch meet again."""

    def __init__(self, function: Function) -> None:
        self._blocks = function.blocks
        self._order = _reverse_postorder(function)
        self._found: dict[str, tuple[Block, ...]] = {}
        self._after: dict[str, frozenset[str]] = {}

    def leads(self, block: str, other: str) -> bool:
        """Say whether a way of at least one step goes from one block to the other."""
        if block not in self._after:
            found: set[str] = set()
            pending = list(self._blocks[block].successors)
            while pending:
                label = pending.pop()
                if label in self._blocks and label not in found:
                    found.add(label)
                    pending += self._blocks[label].successors
            self._after[block] = frozenset(found)
        return other in self._after[block]

    def joins(self, block: Block) -> tuple[Block, ...]:
        """Return the blocks in which more than one way out of a block may first meet."""
        if block.label not in self._found:
            self._found[block.label] = tuple(self._find(block))
        return self._found[block.label]

    def _find(self, block: Block) -> Iterator[Block]:
        # Forward edges alone: what a loop brings back is not what one turn of it has chosen.
        ways = {label: label for label in block.successors if self._is_forward(block.label, label)}
        pending = [(self._order[label], label) for label in ways]
        heapq.heapify(pending)
        while pending:
            _, label = heapq.heappop(pending)
            if ways[label] == label and label not in block.successors:
                yield self._blocks[label]
            for following in self._blocks[label].successors:
                if not self._is_forward(label, following):
                    continue
                if following not in ways:
                    ways[following] = ways[label]
                    heapq.heappush(pending, (self._order[following], following))
                elif ways[following] != ways[label]:
                    if following in block.successors:
                        yield self._blocks[following]
                    ways[following] = following

    def _is_forward(self, label: str, following: str) -> bool:
        return self._order.get(following, -1) > self._order[label]


def _reverse_postorder(function: Function) -> dict[str, int]:
    """Number the blocks so that each comes after those before it, loops aside."""
    first = next(iter(function.blocks))
    found: list[str] = []
    seen = {first}
    stack = [(first, iter(function.blocks[first].successors))]
    while stack:
        label, successors = stack[-1]
        following = next((s for s in successors if s in function.blocks and s not in seen), None)
        if following is None:
            found.append(label)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(function.blocks[following].successors)))
    return {label: place for place, label in enumerate(reversed(found))}
