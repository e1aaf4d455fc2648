"""What a program asked for in vain reaches the store, and never disturbs the program."""

import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import StoreError
from kernelwright.ir.graph import Graph
from kernelwright.plan import partition
from kernelwright.runtime.demand import without_weights
from kernelwright.runtime.optimize import Optimized, optimize
from kernelwright.store import KernelStore

PROGRAM = """
import mlx.core as mx, kernelwright as kw
mx.set_default_device(mx.cpu)

@kw.optimize(store={store!r}, device="simulator")
def double(x):
    return mx.exp(x) * 2

for _ in range(3):
    double(mx.ones((4, 8)))
print("done")
"""


def optimized(url: str) -> Optimized:
    made = optimize(lambda x: mx.exp(x) * 2, store=url, device="simulator")
    assert isinstance(made, Optimized)
    return made


def test_each_call_is_saved_once(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    fast = optimized(url)
    fast(mx.ones(4))
    fast(mx.ones(4))
    assert (fast.save_wanted(), fast.save_wanted()) == (2, 0)
    fast(mx.ones(4))
    assert fast.save_wanted() == 1
    with KernelStore(url) as store:
        assert [w.calls for w in store.wanted()] == [3]


def test_calls_that_could_not_be_saved_are_kept_for_later(tmp_path: Path) -> None:
    fast = optimized(str(tmp_path / "kernels.db"))
    fast(mx.ones(4))
    with pytest.raises(StoreError, match="there is no store"):
        fast.save_wanted(must_exist=True)
    assert fast.save_wanted() == 1


def test_a_program_saves_what_it_wanted_when_it_exits(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    KernelStore(url).close()
    assert run(PROGRAM.format(store=url)) == ("done\n", "")
    with KernelStore(url) as store:
        (wanted,) = store.wanted()
    assert (wanted.function, wanted.calls, wanted.inputs) == ("double", 3, ("f32[4,8]",))


def test_a_store_that_cannot_be_written_does_not_disturb_the_program(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("remember the milk\n" * 100)
    assert run(PROGRAM.format(store=str(tmp_path / "notes.db"))) == ("done\n", "")


def test_a_program_without_a_store_makes_none(tmp_path: Path) -> None:
    run(PROGRAM.format(store=str(tmp_path / "none.db")))
    assert list(tmp_path.iterdir()) == []


def test_weights_are_left_out_and_the_tasks_stay_the_same() -> None:
    weight = mx.random.normal((256, 128))
    scale = mx.random.normal((128,))

    def layer(x: mx.array) -> mx.array:
        return mx.tanh((x @ weight) * scale + 1)

    graph = ir.canonicalize(ir.capture(layer, mx.zeros((4, 256))))
    light = without_weights(graph)
    assert len(light.to_json()) < 10_000 < len(graph.to_json())
    assert tasks(light) == tasks(graph)
    assert Graph.from_json(light.to_json()).fingerprint == light.fingerprint


def tasks(graph: Graph) -> set[str]:
    return {region.extract().fingerprint for region in partition(graph)}


def run(program: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout, done.stderr
