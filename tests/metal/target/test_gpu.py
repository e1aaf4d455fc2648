"""What lowering takes for a device's kind of GPU."""

import pytest

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.target.gpu import APPLE, NVIDIA, Gpu, gpu_of


def _info(name: DeviceName, chip: str) -> DeviceInfo:
    return DeviceInfo(name=name, chip=chip, runtime="1", measures_time=name != "simulator")


@pytest.mark.parametrize(
    ("name", "chip", "gpu"),
    [
        ("cuda", "NVIDIA L4", NVIDIA),
        ("metal", "Apple M2", APPLE),
        ("simulator", "x86_64", APPLE),
        ("simulator", "x86_64 for h200", NVIDIA),
        ("simulator", "x86_64 for h200, 96 KB threadgroup memory", NVIDIA),
        ("simulator", "arm64 for m2-pro", APPLE),
    ],
)
def test_a_simulator_lowers_for_the_chip_that_it_stands_for(
    name: DeviceName, chip: str, gpu: Gpu
) -> None:
    assert gpu_of(_info(name, chip)) is gpu


def test_a_simulator_says_what_it_stands_for_and_is_another_chip() -> None:
    plain, named = open_device("simulator").info, open_device("simulator", 98304, "h200").info
    assert (plain.stands_for, named.stands_for) == ("", "h200")
    assert named.chip == f"{plain.chip} for h200, 96 KB threadgroup memory"


@pytest.mark.parametrize("name", ["metal", "cuda"])
def test_a_gpu_stands_for_no_other(name: str) -> None:
    words = f"expected the simulator to stand for m4-pro, found {name}"
    with pytest.raises(DeviceError, match=words):
        open_device(name, stands_for="m4-pro")
