"""The limit of threadgroup memory: sizes as people write them, and who may have which."""

import pytest

from kernelwright.errors import DeviceError, InputError
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.device.threadgroup_memory import check_threadgroup_bytes, read_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("96K", 98304), ("96k", 98304), ("96 KB", 98304), ("96KiB", 98304), ("98304", 98304)],
)
def test_sizes_are_read_as_people_write_them(text: str, nbytes: int) -> None:
    assert read_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "lots", "96M", "-96K", "1.5K"])
def test_what_is_no_size_is_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match=r"^expected a size such as 96K or 98304, found '"):
        read_size(text)


@pytest.mark.parametrize(
    ("device", "nbytes", "words"),
    [
        ("metal", 98304, "^expected 32 KB of threadgroup memory on metal, .* found 96 KB; leave"),
        ("metal", 16384, "^expected 32 KB of threadgroup memory on metal, .* found 16 KB; leave"),
        ("cuda", 232449, "^expected 32 KB to 227 KB of threadgroup memory on cuda, found 227"),
        ("cuda", 16384, "^expected 32 KB to 227 KB of threadgroup memory on cuda, found 16 KB"),
        ("simulator", 262144, "^expected 32 KB to 227 KB .* on simulator, found 256 KB; choose"),
    ],
)
def test_a_device_without_the_memory_refuses_it(device: str, nbytes: int, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        open_device(device, nbytes)


@pytest.mark.parametrize(
    ("device", "nbytes"), [("metal", 32768), ("cuda", 232448), ("simulator", 98304)]
)
def test_a_device_with_the_memory_takes_it(device: str, nbytes: int) -> None:
    check_threadgroup_bytes(device, nbytes)


def test_a_device_with_another_limit_is_another_chip() -> None:
    plain, roomy = open_device("simulator").info, open_device("simulator", 98304).info
    assert (plain.threadgroup_bytes, plain.exceeds_metal) == (32768, False)
    assert (roomy.threadgroup_bytes, roomy.exceeds_metal) == (98304, True)
    assert roomy.chip == f"{plain.chip}, 96 KB threadgroup memory"
    assert roomy.bare_chip == plain.bare_chip == plain.chip


def test_a_chip_with_a_comma_in_its_name_keeps_it() -> None:
    info = DeviceInfo(name="cuda", chip="A, B", runtime="", measures_time=True)
    assert info.bare_chip == "A, B"
