"""What tools say of a verdict: what is wrong and where, or where the time goes."""

from collections.abc import Iterator

from kernelwright.agents.roles.text.feedback import diagnosis, is_gated, profile, speed_of
from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.perf import ChipProfile, find_profile, predict

LONGEST = 6000


def check_report(evaluation: Evaluation, program: Program) -> str:
    """Say whether a program is right, and if not, what is wrong where."""
    if not evaluation.is_correct:
        return diagnosis(evaluation, program)[:LONGEST]
    speed = speed_of(evaluation)
    return f"Correct in {evaluation.cases} open cases" + (f"; {speed}." if speed else ".")


def measure_report(evaluation: Evaluation, program: Program, device: DeviceInfo) -> str:
    """Say where the time of a correct program goes."""
    if not evaluation.is_correct:
        return check_report(evaluation, program)
    lines = [profile(evaluation), *_parts(evaluation, device)]
    if evaluation.measured_us is not None:
        lines.insert(0, f"Measured: {evaluation.measured_us:.3g} us a launch.")
    return "\n".join(lines)[:LONGEST]


def verdict_report(evaluation: Evaluation, program: Program) -> str:
    """Say what the whole evaluation found; closed checks are named and not told."""
    if is_gated(evaluation) or not evaluation.is_correct:
        return diagnosis(evaluation, program)[:LONGEST]
    return check_report(evaluation, program)


def chip_of(device: DeviceInfo) -> ChipProfile | None:
    """Return the chip that times are predicted for, None for one without a profile."""
    chip = device.bare_chip if device.measures_time else EvaluatorConfig().chip_for(device)
    try:
        return find_profile(chip)
    except InputError:
        return None


def _parts(evaluation: Evaluation, device: DeviceInfo) -> Iterator[str]:
    chip = chip_of(device)
    if chip is None or not evaluation.counters:
        return
    yield "How long each resource alone would take, predicted from the counts:"
    for counters in evaluation.counters:
        found = predict(counters, chip)
        parts = sorted(found.bounds_us.items(), key=lambda item: -item[1])
        told = ", ".join(f"{name} {us:.3g} us" for name, us in parts if us >= 0.01)
        waits = f", and {found.imbalance_us:.3g} us for the largest threadgroup alone"
        yield (
            f"  {counters.kernel.rsplit('_', 1)[0]}: {found.time_us:.3g} us = the longest of "
            f"{told}, and what it cannot hide of the others"
            f"{waits if found.imbalance_us >= 0.01 else ''}; starting a kernel takes "
            f"{chip.launch_us:g} us; {found.occupancy:.0%} of the threads that keep the units "
            f"busy; {counters.threadgroup_bytes} bytes of threadgroup memory, "
            f"{counters.thread_array_bytes} bytes of arrays a thread in registers."
        )
