"""How MLX's tracer names its primitives, and which op of the table each becomes."""

from collections.abc import Mapping
from functools import cache

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Attribute, TensorType
from kernelwright.ir.ops import OPS, Op

_SHAPED = {"Broadcast": "broadcast", "Reshape": "reshape"}
_REDUCTIONS = dict(enumerate(("max", "min", "sum", "prod", "none")))
_MODES = dict(enumerate(("affine", "mxfp4", "mxfp8", "nvfp4")))
_WORDED: Mapping[str, tuple[int, Mapping[int, str]]] = {
    "Scatter": (0, _REDUCTIONS),
    "ScatterAxis": (0, {0: "sum", 1: "none"}),
    "SliceUpdate": (0, _REDUCTIONS),
    "QuantizedMatmul": (2, _MODES),
    "GatherQMM": (2, _MODES),
    "Quantize": (2, _MODES),
}
"""Arguments that are numbers to MLX and words here: the place, and the word of each number."""

Arguments = tuple[Attribute, ...]
Translation = tuple[str, tuple[tuple[str, Attribute], ...]]


def _snake(name: str) -> str:
    if name.startswith("Arc"):
        return name.lower()
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


@cache
def _named(primitive: str) -> str:
    """Return the op of a primitive that is one op: the one that says so, or that of its name."""
    said = (op.name for op in OPS.values() if op.primitive == primitive and op.variant is None)
    return next(said, _snake(primitive))


@cache
def _variants(primitive: str) -> dict[int, str]:
    """Return the ops of a primitive that is several, by its first argument."""
    ops = [op for op in OPS.values() if op.primitive == primitive]
    return {op.variant: op.name for op in ops if op.variant is not None}


def _known(primitive: str, variant: Attribute | None, known: Mapping[int, str]) -> str:
    """Return the name of a variant that MLX numbers.

    Raises:
        UnsupportedError: this release of Kernelwright knows no such one.
    """
    if isinstance(variant, int) and variant in known:
        return known[variant]
    raise UnsupportedError(
        f"expected one of the variants of MLX's {primitive} ({', '.join(known.values())}), "
        f"found {variant!r}; leave that op outside the function, or use a version of MLX that "
        "Kernelwright names in its dependencies."
    )


def _normalised(primitive: str, arguments: Arguments) -> Arguments:
    if primitive not in _WORDED:
        return arguments
    place, words = _WORDED[primitive]
    word = _known(primitive, arguments[place] if place < len(arguments) else None, words)
    return (*arguments[:place], word, *arguments[place + 1 :])


@cache
def translate_bare(primitive: str) -> Translation:
    """Return the op of a primitive that MLX's tracer reported without arguments.

    Raises:
        UnsupportedError: this release of Kernelwright expects some.
    """
    known = OPS.get(_named(primitive))
    return (primitive, ()) if known is None else _with_attributes(primitive, known, ())


def translate(primitive: str, arguments: Arguments, output: TensorType) -> Translation:
    """Return the op and its named attributes for a primitive that MLX's tracer reported.

    `output` is the type of its first result. A primitive that the table does not know keeps its
    own name, and its arguments are numbered: it is a barrier in every region.

    Raises:
        UnsupportedError: MLX reports other arguments, or another variant, than this release of
            Kernelwright knows.
    """
    if primitive in _SHAPED:
        # MLX records -1 where the caller wrote it.
        return _SHAPED[primitive], (("shape", output.shape),)
    if variants := _variants(primitive):
        op, arguments = _known(primitive, arguments[0], variants), arguments[1:]
    else:
        op = _named(primitive)
        arguments = _normalised(primitive, arguments)
    known = OPS.get(op)
    if known is None or op == "custom_kernel":
        name = primitive if known is None else op
        return name, tuple((f"argument_{i}", value) for i, value in enumerate(arguments))
    return _with_attributes(primitive, known, arguments)


def _with_attributes(primitive: str, op: Op, arguments: Arguments) -> Translation:
    if len(op.attributes) != len(arguments):
        raise UnsupportedError(
            f"expected {len(op.attributes)} arguments of MLX's {primitive}, found "
            f"{len(arguments)}; use a version of MLX that Kernelwright names in its dependencies."
        )
    return op.name, tuple(zip(op.attributes, arguments, strict=True))
