"""What hides scores: positions, told apart from masks that have to be read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.attention import HIDDEN, MaskLayer
from kernelwright.ir.passes.attention_operand import shaped
from kernelwright.ir.passes.position import band_of
from kernelwright.ir.passes.reading import number
from kernelwright.ir.passes.view import broadcast


@dataclass(frozen=True, slots=True)
class AttentionMask:
    """What a query sees: by where it stands, and by masks that broadcast over all scores."""

    is_causal: bool = False
    window: int = 0
    masks: tuple[ValueId, ...] = ()


def sight_of(
    builder: GraphBuilder, layers: Sequence[MaskLayer], whole: tuple[int, ...]
) -> AttentionMask:
    """Tell what layers over [B, H, L, S] scores hide by position from what has to be read.

    Beside masks of truth values, positions are masks too: a row that both of them hide as a
    whole is uniform over every key in MLX, and would not be over those that positions leave.
    """
    layers = [part for layer in layers for part in _apart(builder, layer, whole)]
    ranges = [_range(builder, layer, whole) for layer in layers]
    others = [layer for layer, found in zip(layers, ranges, strict=True) if found is None]
    if not any(builder.types[layer.mask].dtype is Dtype.BOOL for layer in others):
        known = [found for found in ranges if found is not None]
        low = max((found[0] for found in known), default=-math.inf)
        high = min((found[1] for found in known), default=math.inf)
        sight = _standing(low, high, whole[2], whole[3])
        if sight is not None:
            masks = tuple(_unspread(builder, layer, whole) for layer in others)
            return AttentionMask(sight.is_causal, sight.window, masks)
    return AttentionMask(masks=tuple(_unspread(builder, layer, whole) for layer in layers))


def _apart(builder: GraphBuilder, layer: MaskLayer, whole: tuple[int, ...]) -> list[MaskLayer]:
    """Take addends that positions choose, and something that hides elsewhere, for two layers."""
    shape = builder.types[layer.mask].shape
    spread = builder.made_by(layer.mask, "broadcast")
    node = builder.made_by(layer.mask if spread is None else spread.inputs[0], "select")
    if node is None or builder.types[layer.mask].dtype is Dtype.BOOL:
        return [layer]
    mask, shown, other = node.inputs
    for added, filler, hides in ((shown, other, False), (other, shown, True)):
        held, places = number(builder, filler), MaskLayer(broadcast(builder, mask, shape), hides)
        is_hidden = held is not None and held <= HIDDEN and number(builder, added) is None
        if is_hidden and _range(builder, places, whole):
            return [places, MaskLayer(broadcast(builder, added, shape))]
    return [layer]


def _range(
    builder: GraphBuilder, layer: MaskLayer, whole: tuple[int, ...]
) -> tuple[float, float] | None:
    """Return the diagonals on which a layer lets scores through as they are."""
    type_ = builder.types[layer.mask]
    if type_.shape[-2:] != whole[-2:]:
        return None
    band = band_of(builder, layer.mask)
    if band is None:
        return None
    if type_.dtype is Dtype.BOOL:
        return band.where(0.0 if layer.hides else 1.0)
    hidden = band.outside if band.inside == 0.0 else band.inside
    return band.where(0.0) if hidden <= HIDDEN else None


def _standing(low: float, high: float, queries: int, keys: int) -> AttentionMask | None:
    """Return what a range of diagonals is for queries at the last of all positions, if it is it."""
    here, lowest, highest = keys - queries, 1 - queries, keys - 1
    if high == here:
        if low <= lowest:
            return AttentionMask(is_causal=True)
        return (
            AttentionMask(is_causal=True, window=int(here + 1 - low)) if 0 <= here >= low else None
        )
    if low <= lowest and high >= highest:
        return AttentionMask()
    # A side that hides nothing may be as far away as the other one.
    before, after = here - low, high - here
    reach = after if low <= lowest else before
    is_even = (before == reach or (low <= lowest and here - reach <= lowest)) and (
        after == reach or (high >= highest and here + reach >= highest)
    )
    return AttentionMask(window=int(reach + 1)) if is_even and here >= 0 <= reach else None


def _unspread(builder: GraphBuilder, layer: MaskLayer, whole: tuple[int, ...]) -> ValueId:
    """Return a mask that shows, before it was spread over batches and heads."""
    value, shape = layer.mask, builder.types[layer.mask].shape
    spread = builder.made_by(value, "broadcast")
    if spread is not None:
        source = builder.types[spread.inputs[0]].shape
        padded = (*(1,) * (len(shape) - len(source)), *source)
        small = _by_head(padded, shape, whole)
        if small is not None:
            while len(small) > 2 and small[0] == 1:
                small = small[1:]
            value = shaped(builder, spread.inputs[0], small)
            return _shown(builder, value, layer)
    return _shown(builder, shaped(builder, value, whole), layer)


def _by_head(
    source: tuple[int, ...], shape: tuple[int, ...], whole: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the shape of an unspread mask over [B, H, L, S], if it is a reshape of the source."""
    if len(shape) == 5 and shape[-2:] == whole[-2:]:
        if source[1:3] not in (shape[1:3], (1, 1)):
            return None
        return (source[0], source[1] * source[2], *source[3:])
    lead = (*(1,) * (4 - len(source)), *source)
    return lead if (*(1,) * (4 - len(shape)), *shape) == whole else None


def _shown(builder: GraphBuilder, value: ValueId, layer: MaskLayer) -> ValueId:
    if not layer.hides:
        return value
    type_ = TensorType(builder.types[value].shape, Dtype.BOOL)
    return builder.add("logical_not", (value,), [type_])[0]
