"""How lanes weigh keys: scores are dealt out, weighed once each, and handed round as weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.metal.kernel_ir.expression import Expr
from kernelwright.metal.lower.attention.deal import Deal
from kernelwright.metal.lower.attention.registers import Registers, each
from kernelwright.metal.lower.emit.layout import Line, surround
from kernelwright.metal.lower.emit.run import Run
from kernelwright.metal.lower.emit.writer import Writer

SLACK = "8.0f"
"""How far scores may exceed what they are weighed against: sums of weights up to exp(8) lose
nothing in a float, and maxima that rise by less need no agreement."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """Turns the lanes' parts of products into weights, which all of a key's lanes then hold."""

    writer: Writer
    registers: Registers
    product: Expr
    score: Expr
    """What becomes of a product: scaled, capped, masked."""
    exponential: str

    @property
    def deal(self) -> Deal:
        """Who weighs what."""
        return self.registers.layout.deal

    @property
    def query(self) -> str:
        """The variable that says of which query a lane's own score is."""
        return own_query(self.deal)

    def write(self) -> None:
        """Write how a lane's own products become weights."""
        self._finish_scores()
        self._raise_peaks()
        weight, peak = self._own, self.of_query("peak")
        with self.each_query(), self._each_key():
            self.writer.line(f"{weight} = {self.exponential}({weight} - {peak});")
            self.writer.line(f"{self.of_query('total')} += {weight};")

    def deal_queries(self) -> None:
        """Write how lanes add up their parts of one key's products, and which they keep."""
        deal = self.deal
        with self.each_query():
            total = f"turned_sum<{deal.queries}, {deal.alike}>({self._first_of('products')})"
            self.writer.line(f"{self._sum} = {total};")

    @property
    def weight(self) -> str:
        """The weight of a key for one of the queries, once handed round."""
        if not self.deal.is_dealt:
            return self._own
        return self.registers.of_row(self.registers.of_key("weights"))

    def hand_round(self) -> None:
        """Write how all lanes learn the weights of one key."""
        deal, weight = self.deal, self._weight_of_key
        with self.each_query():
            if deal.queries == 1:
                self.writer.line(f"{self.weight} = {weight};")
            else:
                copies = f"turned_copies<{deal.queries}, {deal.alike}>"
                self.writer.line(f"{copies}({weight}, {self._first_of('weights')});")

    def of_query(self, name: str) -> str:
        """Return what a lane keeps for a query of which it gets scores."""
        return f"{name}[{self._query_counter}]" if self.deal.own_queries > 1 else name

    @contextmanager
    def each_query(self) -> Iterator[None]:
        """Write a loop over the queries of which a lane gets scores."""
        with each(self.writer, self._query_counter, self.deal.own_queries):
            yield

    def query_lines(self) -> tuple[Line, ...]:
        """Return what says of which query a lane's own score is, where that takes a sum."""
        if self.query != "query":
            return ()
        return (Line(f"uint query = set * {self.deal.queries} + own_query;", "query"),)

    def _finish_scores(self) -> None:
        deal = self.deal
        if self._is_array and deal.keys > 1:
            dimensions = "".join(f"[{n}]" for n in (deal.own_queries, deal.own_keys) if n > 1)
            self.writer.line(f"float weight{dimensions};")
        if self._is_array:
            self.writer.line("bool is_higher = false;")
        with self.each_query(), self._each_key():
            self._finish_score()
            if self._is_array:
                self.writer.line(f"is_higher = is_higher || {self._higher};")

    def _finish_score(self) -> None:
        """Write a lane's own score."""
        layout = self.registers.layout
        dealt = self._dealt_product()
        alike = self.deal.alike
        if alike > 1:
            dealt = f"lanes_sum<{alike}>({dealt})" if alike < 32 else f"metal::simd_sum({dealt})"
        is_new = self.deal.keys > 1 and not self._is_array
        target = f"float {self._own}" if is_new else self._own
        is_plain = self.score is self.product

        def body(inner: Writer) -> list[Run]:
            if is_plain and not layout.is_ragged:
                if dealt != self._own:
                    inner.line(f"{target} = {dealt};")
                return []
            # Lanes without a key take part in the sum, so it stands before any branch.
            name = dealt
            if layout.schedule.lanes > 1 or layout.is_ragged:
                name = inner.fresh("product")
                inner.line(f"float {name} = {dealt};")
            inner.bind(self.product, name)
            keys = layout.attended.sizes.keys
            if not layout.is_ragged:
                self._write_score(inner, target)
            elif is_plain:
                inner.line(f"{target} = {own_position(self.deal)} < {keys} ? {name} : -INFINITY;")
            else:
                inner.line(f"{target} = -INFINITY;")
                with inner.block(f"if ({own_position(self.deal)} < {keys})"):
                    self._write_score(inner, self._own)
            return []

        surround(self.writer, (*self.query_lines(), *self._position_line()), body)

    def _write_score(self, writer: Writer, target: str) -> None:
        writer.prepare([self.score])
        writer.line(f"{target} = {writer.expression(self.score).text};")

    def _position_line(self) -> tuple[Line, ...]:
        deal, layout = self.deal, self.registers.layout
        if deal.keys == 1:
            return layout.position_line("j")
        key = f"(turn * {deal.keys} + own_key)" if deal.own_keys > 1 else "own_key"
        return layout.position_line(key, own_position(deal))

    def _dealt_product(self) -> str:
        """Return the text of a lane's own sum."""
        deal = self.deal
        if deal.keys == 1:
            return self._sum
        first = self.of_query("score") + (f" + turn * {deal.keys}" if deal.own_keys > 1 else "")
        return f"own_sum<{deal.keys}, {deal.apart}>({first}, own_key)"

    def _raise_peaks(self) -> None:
        """Bring what was found before to new maxima, where scores exceed the old ones by much."""
        writer = self.writer
        higher = "is_higher" if self._is_array else self._higher
        head = f"if (metal::simd_any({higher}))" if self._is_voted else f"if ({higher})"
        with writer.block(head), self.each_query():
            peak, total = self.of_query("peak"), self.of_query("total")
            raised = self._raised(peak)
            writer.line(f"float kept = {self.exponential}({peak} - {raised});")
            writer.line(f"{peak} = {raised};")
            writer.line(f"{total} *= kept;")
            self._rescale()

    def _raised(self, peak: str) -> str:
        """Write the new maximum, on which the lanes of a simdgroup agree, and return its name."""
        writer, deal = self.writer, self.deal
        is_shared = deal.apart < 32
        if not self._is_voted and not self._is_array:
            return self._own
        over_lanes = f"lanes_max<32, {deal.apart}>" if deal.apart > 1 else "metal::simd_max"
        if deal.own_keys == 1:
            raised = f"metal::max({peak}, {self._own})"
            writer.line(f"float raised = {f'{over_lanes}({raised})' if is_shared else raised};")
            return "raised"
        writer.line(f"float raised = {peak};")
        with self._each_key():
            writer.line(f"raised = metal::max(raised, {self._own});")
        if is_shared:
            writer.line(f"raised = {over_lanes}(raised);")
        return "raised"

    def _rescale(self) -> None:
        writer, deal, registers = self.writer, self.deal, self.registers
        width = registers.layout.attended.sizes.width
        if deal.queries == 1:
            with registers.each_element(writer, width):
                writer.line(f"{registers.place('attended', width)} *= kept;")
            return
        writer.line(f"float shares[{deal.queries}];")
        writer.line(f"turned_copies<{deal.queries}, {deal.alike}>(kept, shares);")
        row = f"[set * {deal.queries} + row]" if deal.own_queries > 1 else "[row]"
        with each(writer, "row", deal.queries), registers.each_element(writer, width):
            writer.line(f"attended{row}{registers.element(width)} *= shares[row];")

    @property
    def _higher(self) -> str:
        return f"{self._own} > {self.of_query('peak')} + {SLACK}"

    @property
    def _is_voted(self) -> bool:
        """True where lanes have different scores, of which some may be higher and others not."""
        return self.deal.apart < 32 or self.deal.queries > 1

    @property
    def _is_array(self) -> bool:
        """True where a lane gets several scores."""
        return self.deal.own_keys * self.deal.own_queries > 1

    @property
    def _own(self) -> str:
        """A lane's own score, which then becomes a weight."""
        if self.deal.keys == 1:
            return self._sum
        return self.of_query("weight") + ("[turn]" if self.deal.own_keys > 1 else "")

    @property
    def _weight_of_key(self) -> str:
        """The weight of any key and one of a lane's own queries."""
        deal = self.deal
        if deal.keys == 1:
            return self._own
        weight, place = self.of_query("weight"), "j"
        if deal.own_keys > 1:
            weight, place = f"{weight}[j / {deal.keys}]", f"j % {deal.keys}"
        turn = f"{place} * {deal.apart}" if deal.apart > 1 else place
        return f"metal::simd_shuffle({weight}, first_lane + {turn})"

    @property
    def _sum(self) -> str:
        """What a lane keeps of the products of a key."""
        key = "[j]" if self.registers.layout.schedule.keys > 1 else ""
        return self.of_query("score") + key

    def _first_of(self, name: str) -> str:
        """Return the first of some queries that are dealt out together."""
        first = self.registers.of_key(name)
        return f"{first} + set * {self.deal.queries}" if self.deal.own_queries > 1 else first

    @property
    def _query_counter(self) -> str:
        return "row" if self.deal.queries == 1 else "set"

    @property
    def _key_counter(self) -> str:
        return "j" if self.deal.keys == 1 else "turn"

    @contextmanager
    def _each_key(self) -> Iterator[None]:
        with each(self.writer, self._key_counter, self.deal.own_keys):
            yield


def own_query(deal: Deal) -> str:
    """Return the variable that says of which query a lane's own score is."""
    if deal.queries == 1:
        return "row"
    return "query" if deal.own_queries > 1 else "own_query"


def own_position(deal: Deal) -> str:
    """Return the variable that says where the key of a lane's own score stands."""
    return "own_position" if deal.keys > 1 else "position"
