"""What a model computes when it generates: which graphs, how often, and what they cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import mlx.core as mx
from mlx.nn.layers.base import Module
from pydantic import Field, ValidationError
from pydantic_core import from_json

from kernelwright import ir
from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.trace.inference import check_types
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf import find_profile
from kernelwright.runtime.cutting import regions_of
from kernelwright.runtime.fast import put_back
from kernelwright.runtime.models.install import Installation, restore_model
from kernelwright.runtime.models.route import Plan
from kernelwright.runtime.models.site import SeenCall
from kernelwright.runtime.models.tree import own_class
from kernelwright.runtime.server import KernelServer, Service
from kernelwright.validation import LARGEST, shown, words_of


class Part(Record):
    """Something that a call of the model computes between two steps of state."""

    call: str
    """Which call of the model, such as `decode` or `prefill 512`."""
    module: str
    """The class of the module that computes it, and which part of it."""
    times: int = Field(ge=1, le=LARGEST)
    """How often one call of the model computes it."""
    graph: str
    """As JSON; weights are inputs."""
    is_alternative: bool = False
    """Whether another part computes the same, and rotary embeddings as well."""

    @cached_property
    def computed(self) -> Graph:
        """The graph itself."""
        return Graph.from_json(self.graph)


class Workload(Record):
    """A model's calls, as they were recorded."""

    model: str
    calls: Mapping[str, Annotated[int, Field(ge=1, le=LARGEST)]]
    """How often each kind of call is made, such as 256 decode steps for one prompt."""
    parts: tuple[Part, ...]
    mlx: str = Field(default_factory=lambda: version("mlx"))
    chip: str = ""
    """The GPU that it was recorded on, whose schedules are tried elsewhere; empty where there was
    none, or none that is known."""

    def save(self, path: Path) -> None:
        """Write it as JSON, to be shared and searched elsewhere.

        Raises:
            InputError: it cannot be written there.
        """
        write_file(path, self.model_dump_json(indent=1))


def check_replaceable(path: Path) -> None:
    """Refuse to write a workload over a file that is none.

    Raises:
        InputError: there is another file.
    """
    if not path.is_file():
        return
    try:
        is_one = {"model", "parts"} <= from_json(path.read_bytes()).keys()
    except (ValueError, AttributeError):
        is_one = False
    if not is_one:
        raise InputError(f"{path} is no workload trace and stays as it is; record to another file.")


def is_workload(path: Path) -> bool:
    """Say whether a file is meant as a workload, however damaged, and not as a configuration."""
    if path.suffix != ".json" or not path.exists():
        return False
    text = path.read_bytes()
    if b'"parts"' in text:
        return True
    return b'"model_type"' not in text and (b'"model"' in text or b'"calls"' in text)


def load_workload(path: Path) -> Workload:
    """Read what `save` wrote, which somebody may have edited, and check all of it.

    Raises:
        InputError: the file is missing, or is no workload that MLX would compute.
    """
    try:
        found = Workload.model_validate_json(path.read_bytes(), strict=True)
        _check(found)
    except (OSError, ValidationError, InputError) as e:
        raise InputError(f"{path} is no workload trace: {words_of(e)}") from e
    return found


def _check(workload: Workload) -> None:
    """Check what no field tells by itself: the calls of parts, and their graphs."""
    checked: set[str] = set()
    for place, part in enumerate(workload.parts):
        if part.call not in workload.calls:
            known = ", ".join(workload.calls) or "none"
            raise InputError(
                f"expected parts[{place}].call to be one of calls ({known}), "
                f"found {shown(part.call)}."
            )
        if part.graph in checked:
            continue
        try:
            check_types(part.computed)
        except InputError as e:
            raise InputError(f"in the graph of parts[{place}] {e}") from e
        checked.add(part.graph)
    if workload.chip:
        find_profile(workload.chip)


class _Collecting(KernelServer):
    """Takes every region for served, by MLX itself, so that whole layers are seen."""

    has_champions = True
    unpacks_weights = False

    def __init__(self) -> None:
        super().__init__()
        self.is_off = False

    def generation(self) -> int:
        """Return the same always: nothing is looked up."""
        return 1

    def serve(self, graph: Graph) -> Service:
        """Serve every region."""
        programs = {region: _replaying(region) for region in regions_of(graph)}
        taken = frozenset(i for region in programs for i in region.indices)
        kept, left = put_back(graph, taken)
        return Service(graph, {} if left else programs, (), left, is_lazy=False, kept=kept)


def _replaying(region: Region) -> RunRegion:
    task = region.bare()
    return lambda arrays: ir.interpret(task, *arrays)


class WorkloadRecorder:
    """Records calls of a model, each under a name."""

    def __init__(self, name: str, model: Module) -> None:
        self._name = name
        self._model = model
        self._parts: dict[tuple[str, str, str], Part] = {}
        self._calls: dict[str, int] = {}

    @contextmanager
    def recording(self, call: str, times: int) -> Iterator[None]:
        """Record what the model computes inside; it is called `times` in a typical use."""
        restore_model(self._model)
        installation = Installation(self._model, _Collecting(), hear=self._hearing(call))
        installation.install()
        try:
            yield
        finally:
            restore_model(self._model)
        self._calls[call] = times

    def _hearing(self, call: str) -> Callable[[Sequence[tuple[SeenCall, Plan]]], None]:
        def hear(chosen: Sequence[tuple[SeenCall, Plan]]) -> None:
            for seen, plan in chosen:
                name = own_class(seen.module).__name__
                graphs = [segment.graph for segment, _ in plan.services]
                for number, graph in enumerate(graphs):
                    self._add(call, f"{name} {number + 1}", graph)
                for kernels, length in plan.attentions:
                    self._add(call, f"{name} attention", kernels.attention.task(length))
                others = plan.otherwise.services if plan.otherwise is not None else ()
                for number, (segment, _) in enumerate(others):
                    if segment.graph not in graphs:
                        self._add(call, f"{name} {number + 1}", segment.graph, is_alternative=True)

        return hear

    def _add(self, call: str, module: str, graph: Graph, *, is_alternative: bool = False) -> None:
        key = (call, module, graph.fingerprint)
        known = self._parts.get(key)
        if known is None:
            self._parts[key] = Part(
                call=call,
                module=module,
                times=1,
                graph=graph.to_json(),
                is_alternative=is_alternative,
            )
        else:
            self._parts[key] = known.model_copy(update={"times": known.times + 1})

    @property
    def workload(self) -> Workload:
        """What was recorded."""
        return Workload(
            model=self._name,
            calls=self._calls,
            parts=tuple(self._parts.values()),
            chip=_own_chip(),
        )


def _own_chip() -> str:
    """Return this machine's GPU by the name of its profile; nothing where it has none."""
    device = KernelServer().device
    try:
        return find_profile(device.info.bare_chip).name if device is not None else ""
    except InputError:
        return ""


def record_generation(
    name: str,
    model: Module,
    *,
    prompt: int = 512,
    tokens: int = 256,
    batches: Sequence[int] = (1,),
    with_prefill: bool = True,
) -> Workload:
    """Record prompts of a length and decode steps behind them, for each size of a batch."""
    from mlx_lm.models.cache import make_prompt_cache

    recorder = WorkloadRecorder(name, model)
    for batch in batches:
        words = f" x{batch}" if batch > 1 else ""
        cache = make_prompt_cache(model)
        ids = mx.zeros((batch, prompt), dtype=mx.uint32)
        recording = recorder.recording(f"prefill {prompt}{words}", 1)
        with recording if with_prefill else nullcontext():
            mx.eval(model(ids, cache=cache), [c.state for c in cache])
        with recorder.recording(f"decode{words}", tokens):
            mx.eval(model(ids[:, :1], cache=cache))
    return recorder.workload


def record_call(name: str, model: Module, arguments: Sequence[object]) -> Workload:
    """Record one call of a module that is no language model."""
    recorder = WorkloadRecorder(name, model)
    with recorder.recording("call", 1):
        mx.eval(model(*arguments))
    return recorder.workload
