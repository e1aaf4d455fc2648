"""How an attention is divided among threads."""

from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.metal.lower.attention.deal import Deal
from kernelwright.metal.lower.attention.terms import Attended
from kernelwright.metal.lower.emit.layout import Line
from kernelwright.metal.schedule import Attention


@dataclass(frozen=True)
class Layout:
    """How a schedule divides an attention among threads."""

    attended: Attended
    schedule: Attention
    vector: int
    """Neighbouring features that a lane reads at once."""

    @classmethod
    def of(cls, attended: Attended, schedule: Attention) -> "Layout":
        """Divide the features among lanes.

        Raises:
            UnsupportedError: they do not divide, or the queries do not.
        """
        size, lanes = attended.sizes, schedule.lanes
        widths = [v for v in (8, 4, 2, 1) if v <= schedule.vector]
        fits = [v for v in widths if size.head % (lanes * v) == size.width % (lanes * v) == 0]
        if not fits:
            raise UnsupportedError(
                f"{lanes} lanes do not divide heads of {size.head} and {size.width} features; "
                "use fewer."
            )
        if size.rows % schedule.queries:
            raise UnsupportedError(
                f"{schedule.queries} queries do not divide the {size.rows} of a key head."
            )
        if schedule.simdgroups < 2:
            raise UnsupportedError("attention needs at least 2 simdgroups.")
        return cls(attended, schedule, fits[0])

    @property
    def deal(self) -> Deal:
        """Which lanes weigh which keys."""
        return Deal.of(self.schedule)

    @property
    def slots(self) -> int:
        """Keys that a simdgroup takes side by side."""
        return 32 // self.schedule.lanes

    @property
    def stride(self) -> int:
        """Keys that a threadgroup takes at a time."""
        return self.schedule.simdgroups * self.slots * self.schedule.keys

    @property
    def length(self) -> int:
        """Keys of a chunk."""
        keys = self.attended.sizes.seen
        return -(-keys // (self.schedule.chunks * self.stride)) * self.stride

    @property
    def chunks(self) -> int:
        """Chunks that have any keys; of an open number of keys all that there are."""
        seen = self.attended.sizes.seen
        if self.schedule.chunks == 1 or isinstance(seen, OpenSize):
            return self.schedule.chunks
        return -(-seen // self.length)

    @property
    def is_ragged(self) -> bool:
        """True where the lanes of a simdgroup do not all have keys in its last turn."""
        turn, size = self.slots * self.schedule.keys, self.attended.sizes
        return size.seen % turn != 0 or (not self.schedule.fixed and size.keys % turn != 0)

    @property
    def is_one_run(self) -> bool:
        """True where a lane reads one run of every query, key and value."""
        size = self.attended.sizes
        return self.parts(size.head) == self.parts(size.width) == 1

    @property
    def asks_ahead(self) -> bool:
        """True where all of a turn is on its way before any of it is used: one wait serves it."""
        return self.is_one_run and self.schedule.keys > 1 and self.vector > 1

    def parts(self, features: int) -> int:
        """Count the runs of a lane along some features."""
        return features // (self.schedule.lanes * self.vector)

    def position_line(self, key: str, name: str = "position") -> tuple[Line, ...]:
        """Return what says where one of a turn's keys stands; nothing where a turn has one."""
        if self.schedule.keys == 1:
            return ()
        return (Line(f"uint {name} = {self._place(key)};", name),)

    def nearest_line(self) -> tuple[Line, ...]:
        """Return the same for a key that is read ahead: beyond the last one, the last."""
        place = self._place("j")
        if self.is_ragged:
            place = f"metal::min({place}, {self.attended.sizes.keys - 1}u)"
        return (Line(f"uint position = {place};", "position"),)

    def _place(self, key: str) -> str:
        turns = ["first", f"{key} * {self.slots}", "slot"] if self.slots > 1 else ["first", key]
        return " + ".join(turns)

    @property
    def threadgroup_bytes(self) -> int:
        """Bytes in which the simdgroups leave what they found."""
        return (
            4 * self.schedule.simdgroups * self.schedule.queries * (self.attended.sizes.width + 2)
        )

    @property
    def bytes_ahead(self) -> int:
        """Bytes of keys and values that a lane asks for in a turn."""
        call, lanes = self.attended.call, self.schedule.lanes
        both = (operand.shape[-1] * operand.dtype.itemsize for operand in call.inputs[1:3])
        return self.schedule.keys * sum(both) // lanes

    @property
    def registers(self) -> int:
        """Registers that a lane keeps between keys."""
        size, vector = self.attended.sizes, self.vector
        features = (self.parts(size.head) + self.parts(size.width)) * vector
        return self.schedule.queries * (features + self.schedule.keys + 2)
