"""The devices of this machine, each opened once in a worker of its own."""

from typing import get_args

import mlx.core as mx

from kernelwright import evaluator
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.extra import MissingExtraError
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.diagnostic import Record

_REMEDIES: dict[DeviceName, str] = {
    "simulator": "reinstall Kernelwright's dependencies: pip install --force-reinstall ziglang",
    "metal": "needs a Mac with Apple silicon; the simulator stands in until then",
    "cuda": "needs Linux, an NVIDIA GPU and: pip install 'mlx[cuda13]'",
}
_ABSENT = "MLX sees no such GPU on this machine"


class DeviceFinding(Record):
    """A device of this machine, or the reason why there is none."""

    name: DeviceName
    info: DeviceInfo | None
    reason: str = ""
    remedy: str = ""


def find_devices() -> tuple[DeviceFinding, ...]:
    """Open every device once in a worker, as a search would."""
    return tuple(_find_device(name) for name in get_args(DeviceName))


def _find_device(name: DeviceName) -> DeviceFinding:
    if not _has_gpu(name):
        return DeviceFinding(name=name, info=None, reason=_ABSENT, remedy=_REMEDIES[name])
    try:
        worker, info = evaluator.open_worker(name, EvaluatorConfig().memory_bytes)
        worker.close()
        return DeviceFinding(name=name, info=info)
    except MissingExtraError as e:
        return DeviceFinding(name=name, info=None, reason="lacks a package", remedy=str(e))
    except KernelwrightError as e:
        return DeviceFinding(name=name, info=None, reason=str(e), remedy=_REMEDIES[name])


def _has_gpu(name: DeviceName) -> bool:
    """Say whether MLX has a device's GPU here; without it no package is of any use."""
    if name == "metal":
        return bool(mx.metal.is_available())
    return name != "cuda" or bool(mx.cuda.is_available())
