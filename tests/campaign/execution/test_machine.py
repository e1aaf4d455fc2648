"""What a machine lacks is named by what would bring it."""

from importlib.metadata import PackageNotFoundError

import mlx.core as mx
import pytest

from kernelwright import evaluator, extra
from kernelwright.campaign.execution import device_finding, machine
from kernelwright.extra import MissingExtraError
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.device.simulator import toolchain
from kernelwright.metal.device.simulator.device import SimulatorDevice


@pytest.mark.skipif(mx.metal.is_available() or mx.cuda.is_available(), reason="has a GPU")
@pytest.mark.parametrize(("name", "words"), [("metal", "Apple silicon"), ("cuda", "NVIDIA")])
def test_a_missing_gpu_is_no_missing_package(
    name: DeviceName, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(device: str, memory_bytes: int) -> None:
        raise MissingExtraError("expected the package 'scipy'", name="scipy")

    monkeypatch.setattr(evaluator, "open_worker", lacks)
    found = {device.name: device for device in device_finding.find_devices()}
    assert words in found[name].remedy
    assert "scipy" in found["simulator"].remedy


def test_the_simulators_limits_need_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    toolchain.compiler_version.cache_clear()
    monkeypatch.setattr(toolchain, "version", absent)
    assert SimulatorDevice().info.runtime.endswith(", no compiler")
    toolchain.compiler_version.cache_clear()


def test_each_extra_is_listed_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "missing_by_extra", lambda: {"serve": (), "fleet": ("psycopg",)})
    found = {finding.name: finding for finding in machine._packages()}
    assert [name for name in found if name.startswith("[")] == [
        f"[{name}]" for name in ("search", "models", "serve", "mcp", "fleet", "report")
    ]
    assert (found["[serve]"].works, found["[serve]"].remedy) == (True, "")
    assert found["[fleet]"].detail == "shares work among machines; not installed: psycopg"
    assert found["[fleet]"].remedy == "pip install 'kernelwright[fleet]'"


def test_every_extra_says_what_it_is_for() -> None:
    assert set(machine._EXTRAS) == set(extra.missing_by_extra())
