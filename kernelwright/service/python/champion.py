"""`kernelwright.best`: the store's champions, which can be called on arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import overload

import mlx.core as mx
import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult

from kernelwright.campaign.report.champion_list import (
    RankedChampion,
    candidate_gain,
    champions_by_gain,
)
from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.gain import Gain
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.trace.stitch import stitch
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.kernel import Program
from kernelwright.public_call import check_types, one_sentence
from kernelwright.runtime.derivative import with_derivatives_of
from kernelwright.runtime.export import KernelFormatName
from kernelwright.runtime.running import runner
from kernelwright.service.export_function import ExportResult, export
from kernelwright.service.python.html import as_html, as_text, page
from kernelwright.service.python.request import DeviceChoice, chip_of, device_of, store_of
from kernelwright.service.python.speedup import Speedup
from kernelwright.service.view.candidate import print_candidate
from kernelwright.service.view.figure import short
from kernelwright.service.view.listing import print_champions
from kernelwright.store import CandidateDetail, KernelStore

Flat = Callable[..., list[mx.array]]


@dataclass(frozen=True)
class Champion:
    """The best kernel of a task: call it on arrays, look at its source, export it.

    Arrays go in as `inputs` names them, in order; results are MLX arrays, one or a tuple. It runs
    on this machine's GPU, else on the simulator; `on` chooses another device. Gradients, `vmap`
    and `jvp` are MLX's own.
    """

    id: str
    store: str | None = None
    """The store's path or URL; None for the default one."""
    chip: str | None = None
    """Whose time its gain predicts; None for the default one."""
    device: DeviceChoice = "auto"
    """Where it runs when it is called."""
    _compiled: dict[tuple[TensorType, ...], Flat] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def detail(self) -> CandidateDetail:
        """Everything that the store knows of it.

        Raises:
            StoreError: the store is not there any more.
        """
        with KernelStore(self.store, must_exist=True) as opened:
            return opened.show(self.id)

    @property
    def name(self) -> str:
        """Its task's name: the function's, and the region's in it."""
        return self.detail.candidate.task.name

    @property
    def program(self) -> Program:
        """The kernels with their launches."""
        return self.detail.program

    @property
    def source(self) -> str:
        """The Metal source of its kernels, headers first."""
        texts = [text for k in self.program.kernels for text in (k.header, k.source)]
        return "\n\n".join(text.strip("\n") for text in texts if text.strip())

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names and types of the arrays that it takes, such as `x: f16[8,512]`."""
        names, types = self.detail.graph.input_names(), self.detail.graph.input_types
        return tuple(f"{n}: {t}" for n, t in zip(names, types, strict=True))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Types of the arrays that it returns."""
        return tuple(map(str, self.detail.graph.output_types))

    @property
    def evaluation(self) -> Evaluation | None:
        """The verdict that its gain is of."""
        known = self.detail.standing
        return None if known is None else known.evaluation

    @property
    def gain(self) -> Gain | None:
        """Both times, measured or predicted."""
        return candidate_gain(self.detail, self.chip)

    @property
    def speedup(self) -> Speedup:
        """How many times faster than MLX; see `Speedup`."""
        return Speedup.of(self.gain)

    def on(self, device: DeviceChoice) -> "Champion":
        """Return it for another device: `metal`, `cuda` or `simulator`.

        Raises:
            InputError: there is no such device.
        """
        return Champion(self.id, self.store, self.chip, device_of(device))

    def __call__(self, *arrays: object) -> mx.array | tuple[mx.array, ...]:
        """Run the kernels.

        Raises:
            InputError: the arrays are not what the kernels take.
            DeviceError: the device does not open.
        """
        given = [_array(i, value) for i, value in enumerate(arrays)]
        types = tuple(map(_type, given))
        run = self._compiled.get(types)
        if run is None:
            run = self._compiled[types] = self._prepare(types)
        made = run(*given)
        return made[0] if len(made) == 1 else tuple(made)

    def _prepare(self, types: Sequence[TensorType]) -> Flat:
        found = ", ".join(map(str, types)) or "no arrays"
        wanted = ", ".join(self.inputs)
        try:
            bound = self.program.bind(types)
        except InputError as e:
            raise InputError(
                f"{self.name} takes {wanted}, found {found}; search the function for these inputs."
            ) from e
        name = device_of(self.device)
        device = open_device(name, self._threadgroup_bytes(name))
        launch = runner(device.compile(bound))
        is_own = tuple(types) == self.detail.graph.input_types
        if not is_own:
            # A kernel for any size: its reference at this one would have to be traced anew.
            return lambda *arrays: list(launch(arrays))
        return with_derivatives_of(
            stitch(self.detail.graph, {}),
            lambda *arrays: list(launch(arrays)),
            is_lazy=device.info.measures_time,
        )

    def _threadgroup_bytes(self, device: str) -> int:
        taken = METAL_THREADGROUP_BYTES
        if device != "metal" and self.evaluation is not None:
            taken = max([taken, *(c.threadgroup_bytes for c in self.evaluation.counters)])
        return taken

    def export(
        self,
        directory: str | Path,
        *,
        format_name: KernelFormatName = "module",
        name: str | None = None,
        force: bool = False,
    ) -> ExportResult:
        """Write it as code that needs no Kernelwright; see `kernelwright.export`.

        A patch is of a whole function: `kernelwright.export("FILE.py:function", …)` writes one.
        """
        return export(
            self.id,
            directory,
            format_name=format_name,
            name=name,
            store=self.store,
            force=force,
        )

    def __repr__(self) -> str:
        return f"Champion({short(self.id)} {self.name}: {self.speedup})"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield page(lambda inner: print_candidate(inner, self.detail, self.gain), options.max_width)

    def _repr_html_(self) -> str:
        return as_html(self)


def _array(place: int, value: object) -> mx.array:
    """Take MLX's arrays, and NumPy's and numbers as MLX does."""
    if isinstance(value, mx.array):
        return value
    if isinstance(value, np.ndarray | np.generic | int | float):
        made = mx.array(value)  # type: ignore[arg-type]
        if isinstance(value, np.ndarray | np.generic) and made.itemsize != value.itemsize:
            # MLX would drop half of each number without a word.
            raise InputError(
                f"expected argument {place + 1} in a dtype that MLX has on a GPU, found "
                f"{value.dtype}; convert it, such as by .astype(numpy.float32)."
            )
        return made
    raise InputError(
        f"expected an MLX or NumPy array as argument {place + 1}, found {type(value).__name__}."
    )


def _type(array: mx.array) -> TensorType:
    return TensorType(tuple(array.shape), Dtype.parse(str(array.dtype).rpartition(".")[2]))


@one_sentence
def best(
    *,
    op: str | None = None,
    dtype: str | None = None,
    shape: str | None = None,
    device: DeviceChoice | None = None,
    chip: str | None = None,
    limit: int = 50,
    store: str | Path | None = None,
) -> "Champions":
    """Return the store's champions, those that gain most over MLX first.

    Args:
        op: an op in the task, or a word of its name.
        dtype: of the first output, such as `f16` or `bfloat16`.
        shape: a part of the inputs' types, such as `2048,4096`.
        device: only those found on it; on any device by default.
        chip: whose times are predicted, such as `m4-pro`.
        limit: the most to return.
        store: a path or SQLAlchemy URL; the default store otherwise.

    Raises:
        InputError: the dtype, the device or the chip is not known.
        StoreError: there is no such store.
    """
    check_types(best, {"op": op, "dtype": dtype, "shape": shape, "chip": chip, "limit": limit})
    if limit < 1:
        raise InputError(f"expected limit to be at least 1, found {limit}.")
    url, of = store_of(store), chip_of(chip)
    on = None if device is None else device_of(device)
    with KernelStore(url, must_exist=True) as opened:
        found = champions_by_gain(
            opened,
            op=op,
            dtype=dtype,
            shape=shape,
            device=on,
            chip=of,
            limit=limit,
        )
        return Champions(found, url, of, opened.label)


class Champions(Sequence[Champion]):
    """The champions that a question found, in order; a table in terminals and notebooks."""

    def __init__(
        self,
        records: Sequence[RankedChampion],
        store: str | None,
        chip: str | None,
        label: str,
    ) -> None:
        """Hold what a store at `label`, which people know it by, had."""
        self.records = tuple(records)
        """The rows, with tasks, gains and freshness."""
        self._label = label
        self._champions = tuple(Champion(r.candidate_id, store, chip) for r in records)

    @overload
    def __getitem__(self, index: int) -> Champion: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Champion, ...]: ...

    def __getitem__(self, index: int | slice) -> Champion | tuple[Champion, ...]:
        """Return one, or several."""
        return self._champions[index]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._champions)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield page(
            lambda inner: print_champions(inner, self.records, self._label), options.max_width
        )

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
