"""What tools say of a verdict: what is wrong and where, or where the time goes."""

from collections.abc import Iterator

from kernelwright.agents.roles.text.feedback import (
    diagnosis,
    is_gated,
    name_of,
    profile,
    speed_of,
)
from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.device.base import Counters, DeviceInfo, LineCost
from kernelwright.metal.kernel import Program
from kernelwright.metal.perf import ChipProfile, find_profile, predict

LONGEST = 6000
_MOST_LINES = 4
_LEAST_SHARE = 0.05


_RIGHT = "Correct in "


def tells_right(report: str) -> bool:
    """Say whether `check_report` found a program right."""
    return report.startswith(_RIGHT)


def check_report(evaluation: Evaluation, program: Program) -> str:
    """Say whether a program is right, and if not, what is wrong where."""
    if not evaluation.is_correct:
        return diagnosis(evaluation, program)[:LONGEST]
    speed = speed_of(evaluation)
    return f"{_RIGHT}{evaluation.cases} open cases" + (f"; {speed}." if speed else ".")


def measure_report(evaluation: Evaluation, program: Program, device: DeviceInfo) -> str:
    """Say where the time of a correct program goes."""
    if not evaluation.is_correct:
        return check_report(evaluation, program)
    lines = [profile(evaluation), *_parts(evaluation, device), *_lines(evaluation, program)]
    if evaluation.measured_us is not None:
        lines.insert(0, f"Measured: {evaluation.measured_us:.3g} us a launch.")
    return "\n".join(lines)[:LONGEST]


def _lines(evaluation: Evaluation, program: Program) -> Iterator[str]:
    """Say which lines of the text take most of what is counted."""
    texts = {kernel.name: kernel for kernel in program.kernels}
    for counters in evaluation.counters:
        kernel = texts.get(name_of(counters))
        if kernel is None or not counters.lines:
            continue
        yield f"The lines of {kernel.name} that take most:"
        for cost in counters.lines[:_MOST_LINES]:
            text = (kernel.header if cost.file == "header" else kernel.source).splitlines()
            if cost.line <= len(text):
                told = ", ".join(_shares(cost, counters))
                yield f"  {cost.file}:{cost.line}: {told}\n      {text[cost.line - 1].strip()}"


def _shares(cost: LineCost, counters: Counters) -> Iterator[str]:
    moved = sum(buffer.sectors_read + buffer.sectors_written for buffer in counters.buffers)
    own = sum(count for _, count in cost.sectors)
    if own:
        arrays = ", ".join(f"{count} of {name}" for name, count in cost.sectors)
        yield f"{own / moved:.0%} of the sectors ({arrays})"
    if cost.bank_conflicts:
        yield f"{cost.bank_conflicts / counters.bank_conflicts:.0%} of the bank conflicts"
    computed = counters.float_operations + counters.special_operations + counters.integer_operations
    if cost.operations >= computed * _LEAST_SHARE:
        yield f"{cost.operations / computed:.0%} of the operations"


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
        kernel = counters.kernel.rsplit("_", 1)[0]
        yield (
            f"  {kernel}: {found.time_us:.3g} us = {chip.launch_us:g} us "
            f"to start it, the longest of {told}, and what it cannot hide of the others"
            f"{waits if found.imbalance_us >= 0.01 else ''}; of the latency any kernel waits "
            f"{chip.least_wait_us:.2g} us; {found.occupancy:.0%} of the threads that keep the "
            f"units busy; {counters.threadgroup_bytes} bytes of threadgroup memory, "
            f"{counters.thread_array_bytes} bytes of arrays a thread in registers."
        )
