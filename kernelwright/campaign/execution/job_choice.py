"""How many candidates a machine evaluates at once, by its cores, its memory and its GPU's."""

from collections.abc import Iterable
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.evaluator.oracle.parallel import machine_bytes, usable_cores, working_cores
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceName
from kernelwright.plural import counted

_FEWEST = 2
"""One is judged while the other one waits for a compiler or its process."""
_CORES_A_SIMULATION = 2
_HOST_SHARE = 1 / 2
_HOST_BYTES = 3 << 29
"""Of a judge with its cases, and of its workers on the device and on the simulator."""
_GPU_BYTES = 5_500_000_000
"""Fourteen jobs on functions of 4 M elements held 77 GB of an H200."""
_HOST_COPIES, _GPU_COPIES = 4, 2
"""Of a function's inputs and outputs, for each job."""


@dataclass(frozen=True)
class Host:
    """What a machine has to evaluate with."""

    cores: int
    memory_bytes: int
    gpu_bytes: int | None = None
    """Memory of an NVIDIA GPU; None where there is none, or MLX does not say."""


@dataclass(frozen=True)
class JobChoice:
    """A number of jobs, and what it was chosen by, for people."""

    jobs: int
    words: str


def this_host(device: DeviceName) -> Host:
    """Describe this machine as a search on a device finds it."""
    return Host(usable_cores(), machine_bytes(), _gpu_bytes() if device == "cuda" else None)


def choose_jobs(host: Host, device: DeviceName, graphs: Iterable[Graph]) -> JobChoice:
    """Return how many candidates of functions with these graphs a machine evaluates at once.

    An NVIDIA GPU times one while the host's cores compile, sanitize and judge others. The simulator
    works on several cores for each. A Mac's GPU shares memory and power with its cores.
    """
    held = max((_bytes_of(graph) for graph in graphs), default=0)
    rooms = [int(_HOST_SHARE * host.memory_bytes) // (_HOST_BYTES + _HOST_COPIES * held)]
    if host.gpu_bytes is not None:
        rooms.append(host.gpu_bytes // (_GPU_BYTES + _GPU_COPIES * held))
    cores = working_cores(host.cores) // (1 if device == "cuda" else _CORES_A_SIMULATION)
    wanted = 1 if device == "metal" else max(cores, _FEWEST)
    jobs = max(min(wanted, *rooms), 1)
    return JobChoice(jobs, f"{counted(jobs, 'job')}: {_words(host)}")


def _words(host: Host) -> str:
    parts = [counted(host.cores, "core"), _in_gib(host.memory_bytes)]
    if host.gpu_bytes is not None:
        parts.append(f"a GPU of {_in_gib(host.gpu_bytes)}")
    return ", ".join(parts)


def _in_gib(size: int) -> str:
    return f"{size / (1 << 30):.0f} GiB"


def _bytes_of(graph: Graph) -> int:
    return sum(type_.nbytes for type_ in (*graph.input_types, *graph.output_types))


def _gpu_bytes() -> int | None:
    if not mx.cuda.is_available():
        return None
    found = mx.device_info(mx.Device(mx.gpu, 0)).get("total_memory")
    return found if isinstance(found, int) else None
