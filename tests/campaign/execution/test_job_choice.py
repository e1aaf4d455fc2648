"""A search evaluates as many candidates at once as the machine has cores and memory for."""

import mlx.core as mx
import pytest

from kernelwright.campaign.execution.job_choice import Host, choose_jobs, this_host
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.device.base import DeviceName

GIB = 1 << 30
H200 = Host(cores=16, memory_bytes=128 * GIB, gpu_bytes=139 * GIB)


def _graph(elements: int) -> Graph:
    """Add two arrays of halves: six bytes an element."""
    rows = elements // 1024
    with mx.stream(mx.cpu):
        return capture(mx.add, *(mx.zeros((rows, 1024), mx.float16),) * 2)


SMALL, LARGE = _graph(1 << 22), _graph(1 << 29)


@pytest.mark.parametrize(
    ("host", "device", "graphs", "jobs"),
    [
        (H200, "cuda", [SMALL], 14),
        (H200, "cuda", [], 14),
        (H200, "simulator", [SMALL], 7),
        # A large function's arrays are in every job's workers.
        (H200, "cuda", [SMALL, LARGE], 4),
        (Host(16, 128 * GIB, 24 * GIB), "cuda", [SMALL], 4),
        (Host(16, 12 * GIB, 139 * GIB), "cuda", [SMALL], 3),
        (Host(16, 128 * GIB), "cuda", [SMALL], 14),
        (Host(4, 16 * GIB), "simulator", [SMALL], 2),
        (Host(1, 8 * GIB), "simulator", [SMALL], 2),
        (Host(2, 3 * GIB), "simulator", [SMALL], 1),
        (Host(12, 32 * GIB), "metal", [SMALL], 1),
    ],
)
def test_jobs_are_as_many_as_cores_and_memory_allow(
    host: Host, device: DeviceName, graphs: list[Graph], jobs: int
) -> None:
    assert choose_jobs(host, device, graphs).jobs == jobs


@pytest.mark.parametrize(
    ("host", "device", "words"),
    [
        (H200, "cuda", "14 jobs: 16 cores, 128 GiB, a GPU of 139 GiB"),
        (Host(1, 4 * GIB), "metal", "1 job: 1 core, 4 GiB"),
    ],
)
def test_what_they_were_chosen_by_is_said(host: Host, device: DeviceName, words: str) -> None:
    assert choose_jobs(host, device, [SMALL]).words == words


def test_this_machine_has_cores_and_memory() -> None:
    host = this_host("simulator")
    assert host.cores >= 1
    assert host.memory_bytes > GIB // 2
    assert host.gpu_bytes is None
