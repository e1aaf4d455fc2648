"""What `pmset` prints on Macs that are cool, throttled, on mains or low on battery."""

import pytest

from kernelwright.campaign.execution.power_monitor import (
    MacPowerMonitor,
    battery_in,
    heat_in,
    power_monitor_here,
)

COOL = """\
Note: No thermal warning level has been recorded
Note: No performance warning level has been recorded
Note: No CPU power status has been recorded
"""
UNTHROTTLED = """\
2026-08-20 05:08:37 -0700 CPU Power notify
\tCPU_Scheduler_Limit \t= 100
\tCPU_Available_CPUs \t= 12
\tCPU_Speed_Limit \t= 100
"""
THROTTLED = UNTHROTTLED.replace("Speed_Limit \t= 100", "Speed_Limit \t= 62")
MAINS = """\
Now drawing from 'AC Power'
 -InternalBattery-0 (id=24182883)\t12%; charging; 1:00 remaining present: true
"""
LOW = """\
Now drawing from 'Battery Power'
 -InternalBattery-0 (id=24182883)\t14%; discharging; 2:31 remaining present: true
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COOL, ""),
        (UNTHROTTLED, ""),
        (COOL + UNTHROTTLED, ""),
        (THROTTLED, "the machine is hot and runs at 62% of its speed"),
        ("Thermal Warning Level = 2\n", "the machine gives thermal warning level 2"),
        ("Thermal Warning Level = 0\n", ""),
        ("", ""),
    ],
)
def test_heat_is_read(text: str, reason: str) -> None:
    assert heat_in(text) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MAINS, ""),
        (LOW, "the battery is at 14% and not charging"),
        (LOW.replace("14%", "72%"), ""),
        ("Now drawing from 'AC Power'\n", ""),
        ("", ""),
    ],
)
def test_a_low_battery_is_read(text: str, reason: str) -> None:
    assert battery_in(text) == reason


def test_the_machine_is_asked_seldom_while_it_is_well_and_often_while_it_is_not() -> None:
    asked: list[str] = []
    now = [0.0]
    says = {"therm": COOL, "batt": MAINS}

    def ask(about: str) -> str:
        asked.append(about)
        return says[about]

    power_monitor = MacPowerMonitor(ask, lambda: now[0])
    assert [power_monitor(), power_monitor()] == ["", ""]
    assert asked == ["therm", "batt"]
    now[0], says["therm"] = 31.0, THROTTLED
    assert "62%" in power_monitor()
    says["therm"] = COOL
    assert power_monitor() == ""


def test_other_machines_have_no_climate() -> None:
    assert power_monitor_here()() == ""
