"""Devices open by name, and an unknown name lists the known ones."""

import pytest

from kernelwright.errors import DeviceError
from kernelwright.metal.device.registry import open_device


def test_simulator_opens_everywhere() -> None:
    assert open_device("simulator").info.name == "simulator"


def test_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(DeviceError, match="one of simulator, metal, cuda; found 'vulkan'"):
        open_device("vulkan")
