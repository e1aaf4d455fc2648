"""Gains as cells of tables and as lines: every page shows them with these words."""

from collections.abc import Iterable

from rich.text import Text

from kernelwright.evaluator.gain import Gain
from kernelwright.metal.perf import caveat_of
from kernelwright.service.view.figure import MLX_IS_BEST


def gain_cells(gain: Gain) -> list[Text]:
    """Return MLX's time, ours, and the speedup or that MLX is best."""
    if gain.beats_mlx:
        speedup = Text(gain.with_interval, style="good")
    else:
        speedup = Text(MLX_IS_BEST, style="quiet")
    return [Text(gain.mlx_time, style="figure"), Text(gain.kernel_time, style="figure"), speedup]


def gain_line(gain: Gain) -> Text:
    """Return a gain in a line: both times, the speedup, over what and on which chip."""
    mlx, ours, _ = gain_cells(gain)
    if gain.kernel_us is None:
        return Text(gain.words)
    verdict = "" if gain.beats_mlx else f"; {MLX_IS_BEST}"
    style = "good" if gain.beats_mlx else "quiet"
    return Text.assemble(
        (gain.with_interval, style),
        f" over {gain.baseline} on {gain.chip} ({gain.how}): ",
        mlx,
        " → ",
        ours,
        (verdict, "quiet"),
    )


def speedup_note(gains: Iterable[Gain]) -> str:
    """Say what is compared with what, on which chip, and what `~` means."""
    known = list(gains)
    chips = ", ".join(dict.fromkeys(g.chip for g in known))
    words = f"over the fastest of eager MLX, mx.compile and mx.fast, on {chips}"
    if all(g.kind == "measured" for g in known):
        return f"{words}; brackets hold the measured interval"
    caveat = caveat_of(g.chip for g in known if g.kind == "predicted")
    return f"{words}. ~ is predicted from counted work, not timed{'; ' if caveat else ''}{caveat}"
