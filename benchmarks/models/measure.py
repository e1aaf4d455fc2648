"""One row: recorded, probed, searched, installed, timed; each step is kept when it is done."""

import argparse
import math
import signal
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

from mlx.nn.layers.base import Module

from benchmarks.models.probe import probe
from benchmarks.models.rows import Row, small
from benchmarks.models.search import search_parts
from kernelwright.campaign import SearchSpec
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.registry import open_device
from kernelwright.runtime.models.accuracy import compare_accuracy, float32_once
from kernelwright.runtime.models.choosing import Choice, choose
from kernelwright.runtime.models.install import explain_model, optimize_model, restore_model
from kernelwright.runtime.models.proof import compare_tokens
from kernelwright.runtime.models.speed import Speed, measure_speed
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.workload import record_generation
from kernelwright.runtime.server import KernelServer

Result = dict[str, object]
Step = TypeVar("Step")


class Measuring:
    """Measures one row; every step's result, time or traceback is written at once."""

    def __init__(
        self,
        row: Row,
        device: DeviceName,
        options: argparse.Namespace,
        keep: Callable[[Result], None],
    ) -> None:
        self.result: Result = {"row": row.name, "seconds": {}, "errors": {}}
        self._row = row
        self._name: DeviceName = device
        self._device: Device = open_device(device)
        self._options = options
        self._keep = keep
        self._ending_s = time.perf_counter() + options.row_seconds

    def run(self) -> None:
        """Do every step that was asked for; one that fails leaves the others."""
        options = self._options
        if options.row_seconds < math.inf:
            signal.signal(signal.SIGALRM, _late)
            signal.setitimer(signal.ITIMER_REAL, options.row_seconds)
        try:
            self._steps()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _steps(self) -> None:
        options = self._options
        config = small(self._row.config) if options.small else self._row.config
        model = self._step("built", lambda: build_model(config))
        if model is None:
            return
        choices: tuple[Choice, ...] = ()
        if options.candidates or options.probe:
            choices = self._step("recorded", lambda: self._recorded(model)) or ()
        if options.candidates:
            self._step("searched", lambda: self._searched(choices))
        self._step("timed", lambda: self._timed(model))
        if options.prompts:
            self._step("compared", lambda: self._compared(model))
        restore_model(model)
        if options.probe:
            self._step("probed", lambda: self._probed(model, choices))
        restore_model(model)

    def _step(self, name: str, work: Callable[[], Step]) -> Step | None:
        """Do one step; None where it fails or the row's time is over."""
        begun_s = time.perf_counter()
        seconds, errors = self.result["seconds"], self.result["errors"]
        assert isinstance(seconds, dict)
        assert isinstance(errors, dict)
        if begun_s > self._ending_s:
            errors[name] = "the row's time is over"
            return None
        made = None
        try:
            made = work()
        except Exception as e:
            # What later steps need may still be there.
            errors[name] = f"{type(e).__name__}: {e}"[:500]
            self.result.setdefault("error", f"{name}: {errors[name]}")
            trace = traceback.format_exc()
            path = self._options.output.with_suffix(".errors.txt")
            with path.open("a") as file:
                file.write(f"== {self._row.name}: {name}\n{trace}\n")
        seconds[name] = round(time.perf_counter() - begun_s, 1)
        self._keep(self.result)
        return made

    def _timed(self, model: Module) -> None:
        optimize_model(model, KernelServer(self._options.store, self._name))
        if self._device.info.measures_time:
            self.result["speed"] = self._speed(model).model_dump()
            self.result["served"] = explain_model(model, (), {})[:2000]

    def _compared(self, model: Module) -> None:
        options = self._options
        exact = float32_once(model)
        same = compare_tokens(
            model, prompts=options.prompts, tokens=options.compared, exact_of=exact
        )
        self.result["sameness"] = same.model_dump()
        accuracy = compare_accuracy(model, exact_of=exact)
        self.result["accuracy"] = accuracy.model_dump() if accuracy else None

    def _recorded(self, model: Module) -> tuple[Choice, ...]:
        options = self._options
        workload = record_generation(
            self._row.name,
            model,
            prompt=options.prompt,
            tokens=256,
            with_prefill=not options.decode_only,
        )
        choices = choose(workload, self._device)
        self.result["tasks"] = [
            {
                "task": choice.name,
                "inputs": [str(t) for t in choice.graph.input_types],
                "calls": choice.calls,
                "mlx_us": round(choice.taken_us, 2),
                "floor_us": round(choice.floor_us, 2),
                "refused": choice.refused,
                "where": choice.where[:4],
            }
            for choice in choices
        ]
        return choices

    def _wanted(self, choices: tuple[Choice, ...]) -> list[Choice]:
        return [choice for choice in choices if not choice.refused][: self._options.tasks]

    def _probed(self, model: Module, choices: tuple[Choice, ...]) -> None:
        options = self._options
        rows, server = probe(
            self._wanted(choices),
            self._device,
            most_schedules=options.probe,
            seconds=options.probe_seconds,
        )
        self.result["probes"] = [row.model_dump() for row in rows]
        self._keep(self.result)
        optimize_model(model, server)
        self.result["probed_speed"] = self._speed(model).model_dump()

    def _searched(self, choices: tuple[Choice, ...]) -> None:
        options = self._options
        limit = int(options.most_elements)
        wanted = [
            c for c in self._wanted(choices) if sum(t.size for t in c.graph.input_types) <= limit
        ]
        if not wanted:
            return
        left_s = max(self._ending_s - time.perf_counter() - options.timing_seconds, 5.0)
        spec = SearchSpec(
            name=f"models {self._row.name}",
            device=self._name,
            candidates_per_task=options.candidates,
            seconds=min(options.seconds, left_s),
            jobs=options.jobs,
        )
        report = search_parts(wanted, spec, options.store, source=self._row.name)
        assert report is not None
        self.result["search"] = [
            {
                "task": task.name,
                "tried": task.tried,
                "champion": task.champion_id,
                "rank": task.rank.model_dump() if task.rank else None,
                "failures": {str(k): v for k, v in task.failures.items()},
                "reason": task.reason,
            }
            for task in report.tasks
        ]

    def _speed(self, model: Module) -> Speed:
        options = self._options
        return measure_speed(
            model, prompt=options.prompt, tokens=options.tokens, rounds=options.rounds
        )


def _late(number: int, frame: object) -> None:
    raise TimeoutError("the row's time is over")
