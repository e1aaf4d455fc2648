"""Sees where a function's own code places work on the CPU: a capture keeps no stream."""

from types import FrameType

import mlx.core as mx


def names_cpu(frame: FrameType) -> bool:
    """Say whether a call of the user's names the CPU, or was given a device or stream of it."""
    names = frame.f_code.co_names
    known = [frame.f_globals[name] for name in names if name in frame.f_globals]
    if "cpu" in names and (mx in known or frame.f_globals.get("cpu") == mx.cpu):
        return True
    return any(map(_is_cpu, (*known, *frame.f_locals.values())))


def _is_cpu(value: object) -> bool:
    if isinstance(value, mx.Stream):
        value = value.device
    if isinstance(value, mx.Device):
        value = value.type
    return isinstance(value, mx.DeviceType) and value == mx.cpu
