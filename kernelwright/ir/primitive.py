"""How MLX's tracer names its primitives, and which op of the table each becomes."""

from collections.abc import Sequence
from functools import cache

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Attribute, TensorType
from kernelwright.ir.ops import OPS, Op

# A family's first argument says which op it is; the order is that of MLX's own enums
# (mlx/primitives.h of 0.32.4).
_FAMILIES: dict[str, tuple[str, ...]] = {
    "Reduce": ("all", "any", "sum", "prod", "min", "max"),
    "ArgReduce": ("argmin", "argmax"),
    "Scan": ("cummax", "cummin", "cumsum", "cumprod", "logcumsumexp"),
    "Log": ("log2", "log10", "log"),
    "Sqrt": ("sqrt", "rsqrt"),
    "BitwiseBinary": (
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
    ),
}

# Primitives whose op is not simply their name in snake case.
_RENAMED: dict[str, str] = {
    "AddMM": "addmm",
    "ArgPartition": "argpartition",
    "ArgSort": "argsort",
    "AsType": "cast",
    "BlockMaskedMM": "block_masked_mm",
    "DivMod": "divmod",
    "ErfInv": "erfinv",
    "FFT": "fft",
    "GatherMM": "gather_mm",
    "GatherQMM": "gather_qmm",
    "LogAddExp": "logaddexp",
    "LogSumExp": "logsumexp",
    "QRF": "qr",
    "SVD": "svd",
}

_SHAPED = {"Broadcast": "broadcast", "Reshape": "reshape"}
_REDUCE_WORDS = {
    "Scatter": ("max", "min", "sum", "prod", "none"),
    "ScatterAxis": ("sum", "none"),
    "SliceUpdate": ("max", "min", "sum", "prod", "none"),
}
_MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
_MODE_PLACE = {"QuantizedMatmul": 2, "GatherQMM": 2, "Quantize": 2}

Arguments = tuple[Attribute, ...]
Translation = tuple[str, tuple[tuple[str, Attribute], ...]]


def _snake(name: str) -> str:
    if name.startswith("Arc"):
        return name.lower()
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


@cache
def _op(primitive: str) -> str:
    return _RENAMED.get(primitive) or _snake(primitive)


def _kind(arguments: Arguments) -> int:
    kind = arguments[0]
    assert isinstance(kind, int)
    return kind


def _worded(words: Sequence[str], arguments: Arguments, place: int) -> Arguments:
    value = arguments[place]
    assert isinstance(value, int)
    return (*arguments[:place], words[value], *arguments[place + 1 :])


def _normalised(primitive: str, arguments: Arguments) -> Arguments:
    if primitive in _REDUCE_WORDS:
        return _worded(_REDUCE_WORDS[primitive], arguments, 0)
    if primitive in _MODE_PLACE:
        return _worded(_MODES, arguments, _MODE_PLACE[primitive])
    return arguments


@cache
def translate_bare(primitive: str) -> Translation:
    """Return the op of a primitive that MLX's tracer reported without arguments.

    Raises:
        UnsupportedError: this release of Kernelwright expects some.
    """
    known = OPS.get(_op(primitive))
    return (primitive, ()) if known is None else _named(primitive, known, ())


def translate(primitive: str, arguments: Arguments, output: TensorType) -> Translation:
    """Return the op and its named attributes for a primitive that MLX's tracer reported.

    `output` is the type of its first result. A primitive that the table does not know keeps its
    own name, and its arguments are numbered: it is a barrier in every region.

    Raises:
        UnsupportedError: MLX reports other arguments than this release of Kernelwright knows.
    """
    if primitive in _SHAPED:
        # MLX records -1 where the caller wrote it.
        return _SHAPED[primitive], (("shape", output.shape),)
    if primitive in _FAMILIES:
        op, arguments = _FAMILIES[primitive][_kind(arguments)], arguments[1:]
    else:
        op = _op(primitive)
        arguments = _normalised(primitive, arguments)
    known = OPS.get(op)
    if known is None or op == "custom_kernel":
        name = primitive if known is None else op
        return name, tuple((f"argument_{i}", value) for i, value in enumerate(arguments))
    return _named(primitive, known, arguments)


def _named(primitive: str, op: Op, arguments: Arguments) -> Translation:
    if len(op.attributes) != len(arguments):
        raise UnsupportedError(
            f"expected {len(op.attributes)} arguments of MLX's {primitive}, found "
            f"{len(arguments)}; use a version of MLX that Kernelwright names in its dependencies."
        )
    return op.name, tuple(zip(op.attributes, arguments, strict=True))
