"""The wanted list counts what no kernel could serve, over programs and machines."""

import platform

import pytest

from kernelwright.store import KernelStore, Wanted
from tests.store.conftest import task_of


def call_of(extent: int, calls: int, *, function: str = "block") -> Wanted:
    graph = task_of((extent, 8)).graph
    return Wanted(
        function=function,
        fingerprint=graph.fingerprint,
        inputs=tuple(map(str, graph.input_types)),
        calls=calls,
        graph_json=graph.to_json(),
    )


def test_counts_of_one_graph_add_up_and_the_latest_name_stays(store: KernelStore) -> None:
    store.want([call_of(2, 3), call_of(2, 4)])
    store.want([call_of(2, 5, function="model.block")])
    (wanted,) = store.wanted()
    assert (wanted.calls, wanted.function) == (12, "model.block")
    assert wanted.inputs == ("f16[2,8]",)
    assert wanted.graph_json == call_of(2, 1).graph_json
    assert wanted.last_seen_at is not None


def test_the_most_called_come_first_up_to_the_limit(store: KernelStore) -> None:
    store.want([call_of(extent, calls=extent) for extent in (2, 9, 5)])
    assert [w.calls for w in store.wanted(limit=2)] == [9, 5]


def test_machines_count_side_by_side(store: KernelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.want([call_of(2, 3)])
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    store.want([call_of(2, 4)])
    assert [w.calls for w in store.wanted()] == [7]
    assert store.statistics().rows["wanted"] == 2
