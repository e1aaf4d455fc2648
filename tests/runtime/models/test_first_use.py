"""Champions found elsewhere are tried on this machine before they serve anything."""

import sqlite3
from contextlib import closing
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from kernelwright import ir
from kernelwright.campaign import Engine, SearchSpec, offline_team
from kernelwright.campaign.planning.given_graph import captured_graphs
from kernelwright.plan.mlx import quantized_product
from kernelwright.runtime.models.choosing import choose
from kernelwright.runtime.models.install import Installation, optimize_model, restore_model
from kernelwright.runtime.models.route import ROPE
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.workload import record_generation
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore
from tests.campaign.scripted import TrustingJudge
from tests.runtime.models.replaying import decode, served_classes

CONFIG: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 128,
    "torch_dtype": "float32",
}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the parts of a decode step have champions of another machine."""
    path = tmp_path_factory.mktemp("first_use") / "kernels.db"
    with mx.stream(mx.cpu):
        workload = record_generation("tiny", build_model(CONFIG), prompt=6)
    wanted = [c for c in choose(workload, None) if any(w.startswith("decode") for w in c.where)]
    graphs = {f"{i}:{c.name}": c.graph for i, c in enumerate(wanted)}
    spec = SearchSpec(device="simulator", candidates_per_task=1, jobs=2)
    with KernelStore(str(path)) as store:
        engine = Engine(store, spec, offline_team(), TrustingJudge)
        report = engine.run(captured_graphs(graphs, "tiny"))
    assert all(task.champion_id for task in report.tasks)
    _move(path, "elsewhere")
    return path


def _move(path: Path, chip: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE champion SET chip = ?", (chip,))
        database.execute("UPDATE champion_word SET chip = ?", (chip,))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _rows(store: str, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store)) as database:
        return database.execute(query).fetchall()


@pytest.fixture
def store(searched: Path, tmp_path: Path) -> str:
    copied = tmp_path / "kernels.db"
    copied.write_bytes(searched.read_bytes())
    return str(copied)


def test_a_kernel_from_elsewhere_serves_after_it_has_passed_here(store: str) -> None:
    model = build_model(CONFIG)
    tokens, logits = decode(model, 6)
    server = KernelServer(store, "simulator")
    optimize_model(model, server)
    # The prompt and the first decode step are MLX's, while kernels are tried.
    assert decode(model, 6)[0] == tokens
    found, same = decode(model, 6)
    assert found == tokens
    assert mx.allclose(same, logits, rtol=1e-4, atol=1e-4)
    assert "TransformerBlock" in served_classes(model)
    rows = _rows(store, "SELECT device, chip, is_kept, reason FROM machine_trial")
    assert rows
    assert all(row[2] for row in rows), rows
    assert {row[0] for row in rows} == {"simulator"}
    restore_model(model)


def test_rotary_embeddings_are_tried_with_what_stands_around_them(store: str) -> None:
    """Until then the call computes them op by op: MLX's kernel would not show what they read."""
    model = build_model(CONFIG)
    expected = decode(model, 6)[0]
    optimize_model(model, KernelServer(store, "simulator"))
    assert decode(model, 6)[0] == expected
    assert decode(model, 6)[0] == expected
    site = site_of(model)
    assert site is not None
    assert isinstance(site.owner, Installation)
    found = site.owner.chooser.plans
    assert any(ROPE in plan.parts and not plan.is_untried for plan in found)


def test_the_store_remembers_what_was_tried(store: str) -> None:
    model = build_model(CONFIG)
    optimize_model(model, KernelServer(store, "simulator"))
    decode(model, 4)
    before = _rows(store, "SELECT candidate_id, tried_at FROM machine_trial")
    other = build_model(CONFIG)
    optimize_model(other, KernelServer(store, "simulator"))
    decode(other, 4)
    assert served_classes(other) == served_classes(model)
    after = _rows(store, "SELECT candidate_id, tried_at FROM machine_trial")
    assert after == before


def test_a_kernel_that_differs_here_never_serves(store: str) -> None:
    with closing(sqlite3.connect(store)) as database, database:
        for key, body in database.execute("SELECT id, body FROM program").fetchall():
            wrong = body.replace("+=", "-=")
            database.execute("UPDATE program SET body = ? WHERE id = ?", (wrong, key))
    model = build_model(CONFIG)
    tokens, logits = decode(model, 6)
    optimize_model(model, KernelServer(store, "simulator"))
    for _ in range(3):
        found, same = decode(model, 6)
        assert found == tokens
        assert mx.allclose(same, logits, rtol=1e-4, atol=1e-4)
    refused = _rows(store, "SELECT reason FROM machine_trial WHERE NOT is_kept")
    assert any("not what MLX computes" in str(reason) for (reason,) in refused)


def test_a_prompts_packed_weights_are_unpacked_once_that_has_passed_here(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No device of the tests has MLX's slow product: this one is said to."""
    monkeypatch.setattr(KernelServer, "measures_time", True)
    # Steps are not weighed: graphs are asked, and not the layers.
    unweighed = property(lambda _: False, lambda *_: None)
    monkeypatch.setattr(KernelServer, "weighs_steps", unweighed, raising=False)
    monkeypatch.setattr(quantized_product, "TRIED_ROWS", 16)
    monkeypatch.setattr(quantized_product, "TRIED_WEIGHTS", 1 << 12)
    model = build_model({**CONFIG, "quantization": {"group_size": 64, "bits": 4}})
    ids = mx.random.randint(0, 128, (1, 16), key=mx.random.key(1))
    expected = model(ids, cache=make_prompt_cache(model))
    optimize_model(model, KernelServer(store, "simulator"))
    for _ in range(3):
        made = model(ids, cache=make_prompt_cache(model))
        assert mx.allclose(made, expected, rtol=1e-3, atol=1e-3)
    unpacked = quantized_product.UNPACKED
    query = f"SELECT reason, is_kept FROM machine_trial WHERE candidate_id = '{unpacked}'"
    tried = _rows(store, query)
    assert tried
    assert all(kept for _, kept in tried), tried
    site = site_of(model)
    assert site is not None
    assert isinstance(site.owner, Installation)
    plans = site.owner.chooser.plans
    served = [r for plan in plans for _, service in plan.services for r in service.programs]
    assert "quantized_matmul" in {ir.operation(region.extract()) for region in served}
    # Some more rows are not tried again.
    longer = mx.random.randint(0, 128, (1, 19), key=mx.random.key(2))
    for _ in range(3):
        model(longer, cache=make_prompt_cache(model))
    assert len(_rows(store, query)) == len(tried)
    restore_model(model)
