"""Two counters of opposite cases in one loop become one."""

import pytest

from kernelwright.metal.device.simulator.wide.assembly import Module
from kernelwright.metal.device.simulator.wide.opposite import with_single_counters

_LOOP = """define void @k(ptr %p, i32 %a, i32 %b) {
enter:
  br label %loop

loop:
  %k = phi ROUND [ FIRST, %enter ], [ %k1, %loop ]
  %z = phi i32 [ %a, %enter ], [ %z1, %loop ]
  %o = phi i32 [ %b, %enter ], [ %o1, %loop ]
  %at = getelementptr i32, ptr %p, i32 %z
  %v = load i32, ptr %at
  %c = icmp sgt i32 %v, 0
  %n = xor i1 %c, true
  %zc = UP i1 %c to i32
  %on = DOWN i1 OTHER to i32
  %z1 = add i32 %z, %zc
  %o1 = add i32 %o, %on
  %k1 = add nuw nsw ROUND %k, 1
  %e = icmp eq ROUND %k1, 16
  br i1 %e, label %leave, label %loop

leave:
  ret void
}
"""


def _rewritten(**replaced: str) -> list[str]:
    parts = {"ROUND": "i64", "FIRST": "0", "UP": "zext", "DOWN": "zext", "OTHER": "%n"} | replaced
    text = _LOOP
    for name, part in parts.items():
        text = text.replace(name, part)
    function = with_single_counters(Module.read(text).function("@k"), ", !llvm.loop !9")
    return [i.text for b in function.blocks for i in b.instructions]


@pytest.mark.parametrize(
    ("up", "down", "expected"),
    [
        ("zext", "zext", ("sub i32 %o.carried, %zc", "add i32 %o.carried, %o.rounds")),
        ("zext", "sext", ("add i32 %o.carried, %zc", "sub i32 %o.carried, %o.rounds")),
        ("sext", "zext", ("add i32 %o.carried, %zc", "add i32 %o.carried, %o.rounds")),
        ("sext", "sext", ("sub i32 %o.carried, %zc", "sub i32 %o.carried, %o.rounds")),
    ],
)
def test_the_second_counter_follows_from_the_rounds_and_what_moves_the_first(
    up: str, down: str, expected: tuple[str, ...]
) -> None:
    found = _rewritten(UP=up, DOWN=down)
    assert set(expected) <= set(found)
    assert "br i1 %e, label %leave, label %loop, !llvm.loop !9" in found
    # Else no load would leave the loop over lanes.
    assert all(text.endswith("memory(none)") for text in found if " asm " in text)


@pytest.mark.parametrize(
    "replaced",
    [{"OTHER": "%c"}, {"ROUND": "i16"}, {"FIRST": "3"}],
    ids=["same case", "rounds may wrap", "rounds begin elsewhere"],
)
def test_other_loops_stay_as_they_are(replaced: dict[str, str]) -> None:
    assert not any(".carried" in text or "!llvm.loop" in text for text in _rewritten(**replaced))
