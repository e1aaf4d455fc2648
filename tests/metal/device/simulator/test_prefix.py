"""Loops that store where running counts say take eight rounds at a time."""

import pytest

from kernelwright.metal.device.simulator.wide.assembly import Function, Module
from kernelwright.metal.device.simulator.wide.prefix import with_prefix_sums

_LOOP = """declare ptr @kw_threadgroup_alloc(i32, i64, i64)

define void @k(ptr %buffers, ptr %thread) {
enter:
  %own = alloca [16 x i32], align 4
  %to = call ptr @kw_threadgroup_alloc(i32 0, i64 64, i64 4)
  br label %loop

loop:
  %k = phi i64 [ 0, %enter ], [ %k1, %loop ]
  %n = phi i32 [ 5, %enter ], [ %n1, %loop ]
  %at = getelementptr i32, ptr FROM, i64 %k
  %v = load i32, ptr %at, align 4
  %i = zext i32 %n to i64
  %place = getelementptr i32, ptr %to, i64 INDEX
  store i32 %v, ptr %place, align 4
  %c = icmp sgt i32 %v, 3
  %one = ONE
  %n1 = add i32 %n, %one
  %k1 = add nuw nsw i64 %k, 1
  %e = icmp eq i64 %k1, ROUNDS
  br i1 %e, label %leave, label %loop

leave:
  %used = add i32 USED, 1
  ret void
}
"""


def _rewritten(**replaced: str) -> Function:
    parts = {
        "FROM": "%own",
        "INDEX": "%i",
        "ONE": "zext i1 %c to i32",
        "ROUNDS": "16",
        "USED": "%n1",
    }
    text = _LOOP
    for name, part in (parts | replaced).items():
        text = text.replace(name, part)
    module = Module.read(text)
    return with_prefix_sums(module.function("@k"), module, ", !llvm.loop !9")


def _texts(function: Function) -> list[str]:
    return [i.text for i in function.blocks[1].instructions]


@pytest.mark.parametrize("rounds", [8, 16, 24])
def test_places_are_computed_in_eights_and_stored_to_in_order(rounds: int) -> None:
    texts = _texts(_rewritten(ROUNDS=str(rounds)))
    loads = [t for t in texts if t.startswith("load <8 x i32>")]
    stores = [t for t in texts if t.startswith("store ")]
    assert len(loads) == rounds // 8
    assert [t.split(", ")[0] for t in stores] == [f"store i32 %v.round{k}" for k in range(rounds)]
    assert texts[-1] == "br label %leave, !llvm.loop !9"


def test_a_count_goes_on_from_eight_rounds_to_the_next_and_is_left_behind() -> None:
    function = _rewritten()
    lines = {i.result: i.text for i in function.blocks[1].instructions}
    assert lines["%n"] == "phi i32 [ 5, %enter ]"
    assert lines["%n.next0"] == "add <8 x i32> %n.ink, %n.next0.total"
    assert lines["%n.wide8"] == "add <8 x i32> %n.next0, %n.wide8.before"
    assert lines["%n1"] == "extractelement <8 x i32> %n1.wide8, i64 7"


def test_other_values_of_the_last_round_are_left_behind_too() -> None:
    function = _rewritten(USED="%v")
    lines = {i.result: i.text for i in function.blocks[1].instructions}
    assert lines["%v"] == "extractelement <8 x i32> %v.wide8, i64 7"


@pytest.mark.parametrize(
    "replaced",
    [
        {"ROUNDS": "12"},
        {"ROUNDS": "72"},
        {"FROM": "%to"},
        {"FROM": "%thread"},
        {"INDEX": "%k1"},
        {"INDEX": "%k"},
        {"ONE": "add i32 %v, 1"},
        {"ONE": "add i32 %n, 1"},
        {"USED": "%n"},
    ],
    ids=[
        "rounds left over",
        "too many rounds",
        "reads what it writes",
        "reads what is not known",
        "needs the next round",
        "stores to places that are known",
        "counts in other steps",
        "counts what it counted",
        "the last place but one is asked for",
    ],
)
def test_other_loops_stay_as_they_are(replaced: dict[str, str]) -> None:
    texts = _texts(_rewritten(**replaced))
    assert not any("<8 x" in text for text in texts)
    assert texts[-1] == "br i1 %e, label %leave, label %loop"
