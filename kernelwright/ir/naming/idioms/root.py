"""The root that a norm divides by, and what it is of."""

from kernelwright.ir.graph import ValueId
from kernelwright.ir.naming.idioms.reader import Reader


def ddof_of(reader: Reader, value: ValueId) -> int:
    """Return the correction of a variance; a difference of squares has none."""
    node = reader.made_by(value, "mean")
    return 0 if node is None else reader.call(node).integer("ddof")


def under_root(reader: Reader, value: ValueId, *, is_inverse: bool) -> ValueId | None:
    """Return v where a value is its root, or one over it, as an op or as a power."""
    row = reader.row(value)
    root = "rsqrt" if is_inverse else "sqrt"
    node = None if row is None else reader.made_by(row, root, "power")
    if node is None:
        return None
    wanted = -0.5 if is_inverse else 0.5
    is_root = node.op != "power" or reader.constant(node.inputs[1]) == wanted
    return reader.base(node.inputs[0]) if is_root else None
