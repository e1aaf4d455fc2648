"""What a lane of an attention kernel keeps: its arrays, and the loops over them, as text."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.metal.lower.attention.layout import Layout
from kernelwright.metal.lower.emit.layout import Block, Line, span
from kernelwright.metal.lower.emit.writer import Writer


@contextmanager
def each(writer: Writer, counter: str, count: int) -> Iterator[None]:
    """Write a loop, or nothing around a single turn."""
    if count == 1:
        yield
        return
    with writer.block(f"for (uint {counter} = 0; {counter} < {count}; ++{counter})"):
        yield


@dataclass(frozen=True, slots=True)
class Registers:
    """The text of a lane's parts of queries, results and scores; counters are part of it."""

    layout: Layout

    @property
    def product(self) -> str:
        """A lane's part of the product of a key and one of the queries."""
        if self.layout.deal.queries > 1:
            return f"{self.of_key('products')}[row]"
        return self.of_row("score") + ("[j]" if self.layout.schedule.keys > 1 else "")

    def of_key(self, name: str) -> str:
        """Return what belongs to one of a turn's keys, for as long as it is held."""
        return f"{name}[j]" if self._holds_keys else name

    def of_keys(self, name: str) -> str:
        """Return the declaration of what a lane holds for every query, and maybe every key.

        Where lanes ask ahead, one key's is enough; elsewhere exchanges between lanes, over which
        no compiler moves a load, stand apart from loads.
        """
        schedule = self.layout.schedule
        numbers = (schedule.keys if self._holds_keys else 1, schedule.queries)
        return name + "".join(f"[{n}]" for n in numbers if n > 1)

    @property
    def _holds_keys(self) -> bool:
        return self.layout.schedule.keys > 1 and not self.layout.asks_ahead

    def of_row(self, name: str) -> str:
        """Return what belongs to one of the queries that a lane holds."""
        return f"{name}[row]" if self.layout.schedule.queries > 1 else name

    def dimensions(self, features: int) -> str:
        """Return the dimensions of a lane's part of some rows."""
        elements = self.layout.parts(features) * self.layout.vector
        return "".join(f"[{n}]" for n in (self.layout.schedule.queries, elements) if n > 1)

    def place(self, name: str, features: int) -> str:
        """Return the text of one element of a lane's part of a row."""
        return self.of_row(name) + self.element(features)

    def element(self, features: int) -> str:
        """Return where one element stands in a lane's part of a row."""
        parts, vector = self.layout.parts(features), self.layout.vector
        turn = f"part * {vector}" if vector > 1 else "part"
        counters = [turn] * (parts > 1) + ["i"] * (vector > 1)
        return f"[{' + '.join(counters)}]" if counters else ""

    @contextmanager
    def each_element(self, writer: Writer, features: int) -> Iterator[None]:
        """Write the loops over what a lane holds of a row."""
        with (
            each(writer, "part", self.layout.parts(features)),
            each(writer, "i", self.layout.vector),
        ):
            yield

    @property
    def query_line(self) -> tuple[Line, ...]:
        """What says which query a lane holds as its n-th, where lanes differ in that."""
        if self.layout.deal.queries == 1:
            return ()
        return (Line("uint query = row ^ own_query;", "query"),)

    @property
    def feature(self) -> str:
        """The place of an element in its row."""
        return "start + i" if self.layout.vector > 1 else "feature"

    def around(self, features: int) -> tuple[Line | Block, ...]:
        """Return the loops over a lane's features, queries' and keys' or values'."""
        vector = self.layout.vector
        within = span("feature", vector, "i") if vector > 1 else ()
        return (*self.runs(features), *within)

    def runs(self, features: int) -> tuple[Line | Block, ...]:
        """Return the loop over a lane's runs of features."""
        parts = self.layout.parts(features)
        vector, lanes = self.layout.vector, self.layout.schedule.lanes
        around: list[Line | Block] = []
        if parts > 1:
            around.append(Block(f"for (uint part = 0; part < {parts}; ++part)"))
        name = "start" if vector > 1 else "feature"
        terms = [f"part * {lanes * vector}" if lanes * vector > 1 else "part"] * (parts > 1)
        terms += [f"lane * {vector}" if vector > 1 else "lane"] * (lanes > 1)
        if not self.layout.is_one_run:
            around.append(Line(f"uint {name} = {' + '.join(terms) or '0'};", name))
        return tuple(around)
