"""Runs: neighbouring elements that a lane reads or writes in one access."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel_ir.expression import Expr, Literal, Load, Store, Switch, always
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.neighbour import PACKED, WIDEST_PACKED, WIDTHS, packed
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.target.gpu import gpu_of
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_WIDEST_STEP, _MOST_TOGETHER = 4, 40
"""How far apart elements may stand that are still read with what lies between, and how many
elements of theirs a lane holds at once."""


def preferred_run(device: DeviceInfo, itemsize: int) -> int:
    """Return how many neighbours of so many bytes a lane takes best."""
    return max(WIDEST_PACKED, min(gpu_of(device).access_bytes // itemsize, max(WIDTHS)))


@dataclass(frozen=True, slots=True)
class Run:
    """The lines before and after the loop over a run's elements."""

    name: str
    before: str
    after: str = ""
    declared: str = ""
    """What stands before everything else where several runs are read at once."""


@dataclass(frozen=True, slots=True)
class Span:
    """`width` neighbours along `axis`, from `first` on; `counter` counts them.

    Where a thread takes `count` of them, `j` counts those, and all are read before any is used.
    """

    axis: Axis
    width: int
    count: int = 1
    counter: str = "k"
    first: str = "start"
    """The axis that says where a run begins; empty where the rest of an offset says it."""

    def bind(self, writer: Writer, roots: Sequence[Expr], stores: Iterable[Store]) -> list[Run]:
        """Let the writer reach what a loop's terms read and write through runs."""
        if self.width not in WIDTHS:
            return []
        loads = [t for t in always(roots, writer.bound) if isinstance(t, Load)]
        runs = [self._read_together(writer, group) for group in self._together(writer, loads)]
        runs += [self._load(writer, load) for load in loads if self._fits(writer, load)]
        runs += [self._still(writer, load) for load in loads if self._is_still(writer, load)]
        for choice in always(roots, writer.bound):
            if isinstance(choice, Switch) and self._is_framed(writer, choice):
                runs.append(self._framed(writer, choice))
        written = [s for s in stores if s.stored in PACKED]
        runs += [self._write_together(writer, group) for group in self._interleaved(written)]
        return runs + [
            self._store(writer, s) for s in written if s.offset.coefficient(self.axis) == 1
        ]

    def whole(self, writer: Writer, load: Load) -> tuple[str, str] | None:
        """Return the type of a run and what reads it in one access, for who copies it as it is."""
        if self.width not in WIDTHS or not self._fits(writer, load):
            return None
        kind = self._kind(load.stored)
        address = writer.address(load.array, self._first(load.offset))
        return kind, writer.run_at(kind, load.array, address)

    def _fits(self, writer: Writer, load: Load) -> bool:
        return load.offset.coefficient(self.axis) == 1 and self._is_read_here(writer, load)

    def _is_read_here(self, writer: Writer, load: Load) -> bool:
        return (
            load.number not in writer.bound
            and (load.array, load.offset) not in writer.runs
            and load.stored in PACKED
            and load.array not in writer.scalars
            and not any(self.axis in place.axes for place in load.places)
        )

    def _together(self, writer: Writer, loads: Sequence[Load]) -> list[tuple[Load, ...]]:
        """Return loads whose elements lie side by side over a run, as in windows and pixels.

        All between the first element of the first and the last one of the last is read at once.
        """
        alike: dict[tuple[object, ...], dict[int, Load]] = {}
        for load in loads:
            if self._is_stepped(writer, load):
                alike.setdefault((load.array, load.offset.terms), {})[load.offset.offset] = load
        found: list[tuple[Load, ...]] = []
        for places in alike.values():
            ordered = [load for _, load in sorted(places.items())]
            step = ordered[0].offset.coefficient(self.axis) or 1
            # Neighbouring runs of a whole width are read apart, each of them aligned.
            gap = step if step > 1 else self.width - 1
            group = [ordered[0]]
            for load in ordered[1:]:
                if load.offset.offset - group[-1].offset.offset > gap or (
                    self._taken([*group, load]) > _MOST_TOGETHER
                ):
                    found.append(tuple(group))
                    group = []
                group.append(load)
            found.append(tuple(group))
        return [g for g in found if len(g) > 1 or g[0].offset.coefficient(self.axis) != 1]

    def _taken(self, group: Sequence[Load]) -> int:
        """Return how many elements lie from the first to the last one of some loads' runs."""
        step = group[0].offset.coefficient(self.axis) or 1
        return step * (self.width - 1) + group[-1].offset.offset - group[0].offset.offset + 1

    def _is_stepped(self, writer: Writer, load: Load) -> bool:
        step = load.offset.coefficient(self.axis)
        return step is not None and 1 <= step <= _WIDEST_STEP and self._is_read_here(writer, load)

    def _read_together(self, writer: Writer, group: Sequence[Load]) -> Run:
        first, step = group[0], group[0].offset.coefficient(self.axis) or 1
        kind = f"packed_many<{MSL_TYPE[first.stored]}, {self._taken(group)}>"
        name = writer.fresh(f"{first.array}_runs" if self.count > 1 else f"{first.array}_run")
        place = f"{name}[j]" if self.count > 1 else name
        for load in group:
            apart = load.offset.offset - first.offset.offset
            element = self.counter if step == 1 else f"{self.counter} * {step}"
            element += f" + {apart}" if apart else ""
            writer.runs[load.array, load.offset] = f"{place}[{element}]"
        text = self._text_together(writer, group, kind)
        if self.count > 1:
            declared = f"{kind} {name}[{self.count}];"
            return Run(name, f"{place} = {text};", declared=declared)
        return Run(name, f"auto {name} = {text};")

    def _text_together(self, writer: Writer, group: Sequence[Load], kind: str) -> str:
        """Return what reads the elements of a group, in one access where its run is aligned."""
        first = group[0]
        aligned = next((load for load in group if self._is_aligned(load)), None)
        if aligned is None or first.offset.coefficient(self.axis) != 1:
            address = writer.address(first.array, self._first(first.offset))
            return writer.run_at(kind, first.array, address)
        ahead = aligned.offset.offset - first.offset.offset
        address = writer.address(aligned.array, self._first(aligned.offset))
        return f"load_around<{ahead}, {self.width}, {self._taken(group)}>({address})"

    def _is_aligned(self, load: Load) -> bool:
        others = [c for atom, c in load.offset.terms if atom != self.axis]
        return all(number % self.width == 0 for number in (load.offset.offset, *others))

    def _is_framed(self, writer: Writer, choice: Switch) -> bool:
        """Say whether a whole run is read, or a number stands for all of it, as in padding."""
        is_one_for_all = self.axis not in choice.place.axes and not choice.places
        if len(choice.arms) != 2 or not is_one_for_all:
            return False
        loads = [arm for arm in choice.arms if isinstance(arm, Load)]
        numbers = [arm for arm in choice.arms if isinstance(arm, Literal)]
        return len(loads) == len(numbers) == 1 and self._fits(writer, loads[0])

    def _framed(self, writer: Writer, choice: Switch) -> Run:
        """Read a run from the array's beginning where it would lie outside."""
        number, load = next((n, arm) for n, arm in enumerate(choice.arms) if isinstance(arm, Load))
        inside = writer.index(self._first(load.offset))
        parts = (inside, "0") if number == 0 else ("0", inside)
        question = writer.question(choice.place, choice.edges[0])
        return self._read(writer, load, f"{load.array} + ({question} ? {parts[0]} : {parts[1]})")

    def _is_still(self, writer: Writer, load: Load) -> bool:
        """Say whether all of a run read the same element, as with packed words and groups."""
        return (
            load.number not in writer.bound
            and load.array not in writer.scalars
            and self.axis in load.axes
            and not load.places
            and load.offset.is_still(self.axis, self.width)
        )

    def _still(self, writer: Writer, load: Load) -> Run:
        text = writer.access(load.array, load.offset.renamed(self.axis, self.first))
        kind = MSL_TYPE[load.dtype]
        several = f"[{self.count}]" if self.count > 1 else ""
        name = writer.fresh(f"{load.name}s" if several else load.name)
        place = f"{name}[j]" if several else name
        writer.runs[load.array, load.offset] = place
        writer.bind(load, place)
        if several:
            return Run(name, f"{place} = {text};", declared=f"{kind} {name}{several};")
        return Run(name, f"{kind} {name} = {text};")

    def _load(self, writer: Writer, load: Load) -> Run:
        return self._read(writer, load, writer.address(load.array, self._first(load.offset)))

    def _read(self, writer: Writer, load: Load, address: str) -> Run:
        kind = self._kind(load.stored)
        if self.count > 1:
            name = writer.fresh(f"{load.array}_runs")
            writer.runs[load.array, load.offset] = f"{name}[j][{self.counter}]"
            text = f"{name}[j] = {writer.run_at(kind, load.array, address)};"
            return Run(name, text, declared=f"{kind} {name}[{self.count}];")
        name = writer.fresh(f"{load.array}_run")
        writer.runs[load.array, load.offset] = f"{name}[{self.counter}]"
        return Run(name, f"auto {name} = {writer.run_at(kind, load.array, address)};")

    def _store(self, writer: Writer, store: Store) -> Run:
        name = writer.fresh(f"{store.array}_run")
        writer.runs[store.array, store.offset] = f"{name}[{self.counter}]"
        return self._written(writer, store, self._kind(store.stored), name)

    def _interleaved(self, stores: Sequence[Store]) -> Iterator[tuple[Store, ...]]:
        """Yield stores that together fill all that lies between the steps of each, as pairs do."""
        alike: dict[tuple[str, object, int], dict[int, Store]] = {}
        for store in stores:
            step = store.offset.coefficient(self.axis)
            if step is not None and 1 < step <= _WIDEST_STEP:
                key = (store.array, store.offset.terms, step)
                alike.setdefault(key, {})[store.offset.offset] = store
        for (_, _, count), at in alike.items():
            group = tuple(store for _, store in sorted(at.items()))
            if len(group) == count == max(at) - min(at) + 1:
                yield group

    def _write_together(self, writer: Writer, group: Sequence[Store]) -> Run:
        """Write the elements of several stores, which alternate, in one access."""
        first, step = group[0], len(group)
        kind = f"packed_many<{MSL_TYPE[first.stored]}, {step * self.width}>"
        name = writer.fresh(f"{first.array}_run")
        for place, store in enumerate(group):
            element = f"{self.counter} * {step}" + (f" + {place}" if place else "")
            writer.runs[store.array, store.offset] = f"{name}[{element}]"
        return self._written(writer, first, kind, name)

    def _written(self, writer: Writer, first: Store, kind: str, name: str) -> Run:
        address = writer.address(first.array, self._first(first.offset))
        space = "threadgroup" if first.array in writer.shared else "device"
        return Run(name, f"{kind} {name};", f"*({space} {kind}*)({address}) = {name};")

    def _kind(self, dtype: Dtype) -> str:
        return packed(dtype, self.width)

    def _first(self, offset: Index) -> Index:
        step = offset.coefficient(self.axis) or 1
        rest = offset + Index.of(self.axis) * -step
        first = Index.of(Axis(self.first, self.axis.extent)) * step
        return rest + first if self.first else rest
