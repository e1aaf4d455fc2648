"""A night takes up what programs asked for in vain, and only what has no kernel yet."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.campaign import Engine, judges_on, offline_team
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.planning.unserved_calls import resolve_wanted, still_wanted
from kernelwright.campaign.planning.wanted_calls import capture_campaign, joined
from kernelwright.campaign.spec.campaign_file import spec_of_wanted
from kernelwright.campaign.spec.campaign_spec import CampaignSpec, CampaignWanted
from kernelwright.errors import InputError
from kernelwright.runtime.optimize import Optimized, optimize
from kernelwright.store import KernelStore
from kernelwright.store.serving import ServedProgram


def twice(x: mx.array, y: mx.array) -> mx.array:
    return mx.softmax(x * 2, axis=-1) * 2 + y


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


def test_a_wish_becomes_a_kernel_overnight(store: KernelStore) -> None:
    arrays = (mx.ones((4, 8)), mx.ones((4, 8)))
    _call(store, *arrays)
    spec = _night(store)
    captured = capture_campaign(spec, store)
    assert [f.target[:7] for f in captured] == ["wanted:"]
    engine = Engine(store, spec, offline_team(), judges_on("simulator"), RunSettings(resumes=False))
    report = engine.run(joined(tuple(captured.values())))
    assert [task.name for task in report.tasks] == ["twice"]
    assert _call(store, *arrays).explain(*arrays).path == "kernels"
    with pytest.raises(InputError, match=r"nothing is wanted in .* that has no kernel yet"):
        resolve_wanted(spec_of_wanted(), store)


def test_a_resumed_night_has_the_same_wishes(store: KernelStore) -> None:
    _call(store, mx.ones((4, 8)), mx.ones((4, 8)))
    spec = _night(store)
    _call(store, mx.ones((2, 8)), mx.ones((2, 8)))
    assert len(spec.functions) == 1
    assert resolve_wanted(spec, store) == spec
    assert CampaignSpec.model_validate_json(spec.model_dump_json()) == spec


def test_the_most_frequent_wishes_come_first(store: KernelStore) -> None:
    for rows in (2, 3, 4):
        for _ in range(rows):
            _call(store, mx.ones((rows, 8)), mx.ones((rows, 8)))
    spec = spec_of_wanted().model_copy(update={"wanted": CampaignWanted(most=2, priority=3.0)})
    night = resolve_wanted(spec, store)
    fingerprints = [w.fingerprint for w in store.wanted(limit=2)]
    assert [f.target for f in night.functions] == [f"wanted:{f}" for f in fingerprints]
    assert {f.priority for f in night.functions} == {3.0}


def test_a_wish_of_another_store_is_one_sentence(store: KernelStore, tmp_path: Path) -> None:
    _call(store, mx.ones((4, 8)), mx.ones((4, 8)))
    spec = _night(store)
    with (
        KernelStore(str(tmp_path / "other.db")) as other,
        pytest.raises(InputError, match=r"wanted list of .*other\.db has no call"),
    ):
        capture_campaign(spec, other)


def test_what_has_kernels_is_wanted_no_longer(store: KernelStore) -> None:
    for rows in (4, 2):
        _call(store, mx.ones((rows, 8)), mx.ones((rows, 8)))
    assert len(still_wanted(store, 50)) == 2
    spec = _night(store)
    first = spec.model_copy(update={"functions": spec.functions[:1]})
    captured = joined(tuple(capture_campaign(first, store).values()))
    Engine(store, first, offline_team(), judges_on("simulator"), RunSettings(resumes=False)).run(
        captured
    )
    (left,) = still_wanted(store, 50)
    assert f"wanted:{left.fingerprint}" == spec.functions[1].target


def test_where_mlx_is_best_a_later_night_does_not_search_again(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _call(store, mx.ones((4, 8)), mx.ones((4, 8)))
    spec = _night(store)
    captured = joined(tuple(capture_campaign(spec, store).values()))
    Engine(store, spec, offline_team(), judges_on("simulator"), RunSettings(resumes=False)).run(
        captured
    )
    monkeypatch.setattr(ServedProgram, "beats_mlx", False)
    with pytest.raises(InputError, match="nothing is wanted"):
        resolve_wanted(spec_of_wanted(), store)


def test_a_program_writes_no_store_where_there_is_none(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import mlx.core as mx, kernelwright as kw\n"
        "@kw.optimize(store='there.db', device='simulator')\n"
        "def twice(x):\n    return mx.softmax(x * 2, axis=-1) * 2\n"
        "mx.eval(twice(mx.ones((4, 8))))\n"
    )
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
    assert [p.name for p in tmp_path.iterdir()] == ["program.py"]


def _call(store: KernelStore, *arrays: mx.array) -> Optimized:
    made = optimize(twice, store=store.url, device="simulator")
    assert isinstance(made, Optimized)
    made(*arrays)
    made.save_wanted()
    return made


def _night(store: KernelStore) -> CampaignSpec:
    few = {"candidates_per_task": 2, "jobs": 1}
    return resolve_wanted(spec_of_wanted().model_copy(update=few), store)
