"""A model's workload is recorded, shared, and searched for what pays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.agents.offline import OfflinePlanner
from kernelwright.errors import InputError
from kernelwright.metal.device.registry import open_device
from kernelwright.runtime.models import choosing
from kernelwright.runtime.models.choosing import choose
from kernelwright.runtime.models.install import optimize_model
from kernelwright.runtime.models.proof import Divergence, Sameness, compare_tokens
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.models.speed import measure_speed
from kernelwright.runtime.models.target import build_model, load_target
from kernelwright.runtime.models.tree import all_modules
from kernelwright.runtime.models.workload import (
    Part,
    Workload,
    is_workload,
    load_workload,
    record_generation,
)
from tests.runtime.models.replaying import Replaying

CONFIG: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 1100,
}


@pytest.fixture(scope="module")
def workload() -> Workload:
    with mx.stream(mx.cpu):
        return record_generation("tiny", build_model(CONFIG), prompt=16, tokens=256)


def test_layers_are_recorded_in_two_parts_around_their_cache(workload: Workload) -> None:
    parts = {(part.call, part.module): part.times for part in workload.parts}
    assert parts["decode", "TransformerBlock 1"] == 3
    assert parts["decode", "TransformerBlock 2"] == 3
    assert parts["prefill 16", "TransformerBlock 2"] == 3
    assert workload.calls == {"prefill 16": 1, "decode": 256}


def test_layers_are_recorded_with_and_without_their_rotary_embeddings(workload: Workload) -> None:
    choices = choose(workload, None)
    projections = [c for c in choices if len(c.graph.outputs) == 3 and c.name == "rms_norm+matmul"]
    assert [choice.calls for choice in projections] == [3 * 256]
    assert any("rope" in choice.name and choice.calls == 3 * 256 for choice in choices)


def test_recording_leaves_the_model_as_it_was() -> None:
    model = build_model(CONFIG)
    record_generation("tiny", model, prompt=4)
    assert all(site_of(module) is None for _, module in all_modules(model))


def test_a_workload_is_shared_as_a_file(workload: Workload, tmp_path: Path) -> None:
    workload.save(tmp_path / "trace.json")
    found = load_workload(tmp_path / "trace.json")
    assert [p.computed.fingerprint for p in found.parts] == [
        p.computed.fingerprint for p in workload.parts
    ]
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="is no workload trace"):
        load_workload(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("text", "is_trace", "words"),
    [
        ('{"model": NaN}', True, "trace: expected model to be a text, found nan"),
        ('{"calls": {}, "par', True, "trace: expected JSON"),
        ("[" * 100_000, False, "configuration: its lists and tables nest too deeply"),
        ('{"parts": ' + "[" * 100_000, True, "trace: expected JSON"),
        ('{"model_type": "llama", "model": 1', False, "cannot be read as a configuration"),
    ],
    ids=["nan", "cut", "deep", "deep trace", "configuration"],
)
def test_a_damaged_file_is_told_as_what_it_was_meant_for(
    tmp_path: Path, text: str, is_trace: bool, words: str
) -> None:
    path = tmp_path / "given.json"
    path.write_text(text)
    assert is_workload(path) is is_trace
    with pytest.raises(InputError, match=words):
        load_workload(path) if is_trace else load_target(str(path))


Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]
"""Changes a trace, its first part that multiplies, or the graph of that."""


def _retyped_product(graph: dict[str, Any]) -> None:
    product = next(node for node in graph["nodes"] if node[0] == "matmul")
    graph["types"][product[2][0]][1] = "int32"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (
            lambda _, part, __: part.update(call="nosuch"),
            r"\.call to be one of calls \(prefill 16,",
        ),
        (lambda _, part, __: part.update(times=-5), r"\.times to be greater than"),
        (lambda _, part, __: part.update(is_alternative="no"), r"\.is_alternative to be true or"),
        (lambda _, part, __: part.update(times="3"), r"\.times to be a whole number"),
        (lambda trace, *_: trace["calls"].update(decode=True), "calls.decode to be a whole number"),
        (lambda _, part, __: part.update(times=10**30), r"\.times to be less than"),
        (lambda trace, *_: trace["calls"].update(decode=0), "calls.decode to be greater than"),
        (lambda trace, *_: trace.update(chip="nosuch"), "no profile of a chip 'nosuch'"),
        (lambda _, __, g: g["nodes"][-1].__setitem__(0, "frobnicate"), "is no op that is known"),
        (lambda _, __, g: g.update(outputs=[7777]), "output value 7777 is never made"),
        (lambda _, __, g: g["nodes"].reverse(), "before it is made"),
        (lambda _, __, g: g["types"][0][0].__setitem__(0, 9999999999999), "fit a machine's memory"),
        (lambda _, __, g: g["nodes"][-1][1].clear(), "takes|cannot be computed"),
        (lambda _, __, g: _retyped_product(g), "changes the dtype|makes int32"),
    ],
)
def test_an_edited_workload_is_refused_as_a_whole(
    workload: Workload, tmp_path: Path, edit: Edit, words: str
) -> None:
    trace = json.loads(workload.model_dump_json())
    part = next(part for part in trace["parts"] if '"matmul"' in part["graph"])
    graph = json.loads(part["graph"])
    edit(trace, part, graph)
    part["graph"] = json.dumps(graph)
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    with pytest.raises(InputError, match=rf"trace.json is no workload trace: .*{words}"):
        load_workload(tmp_path / "trace.json")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"quantization": {"group_size": 7, "bits": 4}}, "cannot build 'llama': ValueError"),
        ({"quantization": {"group_size": 64, "bits": "4"}}, "cannot build 'llama': TypeError"),
        ({"hidden_size": -64}, "cannot build 'llama'"),
        ({"hidden_size": "64"}, "cannot build 'llama': TypeError"),
        ({"num_attention_heads": 0}, "cannot build 'llama': ZeroDivisionError"),
        ({"num_key_value_heads": 3}, "cannot be called: ValueError"),
        ({"model_type": ["llama"]}, "cannot build"),
        ({"torch_dtype": "load"}, "expected torch_dtype to be one of auto, bfloat16"),
    ],
    ids=str,
)
def test_a_configuration_that_mlx_refuses_is_named(
    tmp_path: Path, edit: dict[str, object], words: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | edit))
    with pytest.raises(InputError, match=words):
        load_target(str(tmp_path / "config.json"))


def test_what_is_called_most_above_its_floor_comes_first(workload: Workload) -> None:
    choices = choose(workload, None)
    gates = [choice for choice in choices if choice.name == "rms_norm+matmul+swiglu"]
    assert [choice.calls for choice in gates] == [3 * 256]
    wanted = [choice for choice in choices if not choice.refused]
    assert wanted == sorted(wanted, key=lambda c: -c.gain_us)
    refused = [choice for choice in choices if choice.refused]
    assert refused
    assert all(choice.gain_us <= wanted[-1].gain_us for choice in refused)


def test_a_search_finds_the_regions_that_the_model_asks_for(workload: Workload) -> None:
    info = open_device("simulator").info
    for choice in choose(workload, None):
        for region in OfflinePlanner().plan(choice.graph, info).cut(choice.graph):
            assert region.extract().fingerprint == choice.graph.fingerprint


def test_a_configuration_may_be_quantized(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, "quantization": {"group_size": 32, "bits": 4}}))
    target = load_target(str(file))
    assert target.generates
    assert "QuantizedLinear" in {type(m).__name__ for _, m in all_modules(target.model)}


def test_a_file_may_hold_any_module(tmp_path: Path) -> None:
    file = tmp_path / "own_model.py"
    file.write_text(
        "import mlx.core as mx\nimport mlx.nn as nn\nmodel = nn.Linear(4, 4)\n"
        "def example_inputs():\n    return (mx.zeros((2, 4)),)\n"
    )
    target = load_target(f"{file}:model")
    assert not target.generates
    assert target.example_inputs is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "expected mlx-lm:REPO"),
        ("missing.json", "cannot be read as a configuration"),
        ("missing.py:model", "there is no file"),
    ],
)
def test_bad_targets_get_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_target(text)


def test_speed_and_tokens_are_compared_with_the_model_itself() -> None:
    model = build_model({**CONFIG, "torch_dtype": "float32"})
    optimize_model(model, Replaying())
    speed = measure_speed(model, prompt=8, tokens=2, rounds=1)
    assert set(speed.arms) == {"untouched", "control", "tuned"}
    same = compare_tokens(model, prompts=2, tokens=6, length=4)
    assert (same.identical, same.same_bits, same.holds) == (2, True, True)


def test_a_token_may_differ_only_where_the_model_is_unsure() -> None:
    parted = Divergence(
        prompt=0,
        place=3,
        untouched=1,
        tuned=2,
        untouched_margin=0.5,
        tuned_margin=0.5,
        rounding=0.1,
    )
    same = Sameness(
        prompts=1,
        tokens=4,
        identical=0,
        same_bits=False,
        largest_difference=0.6,
        divergences=(parted,),
    )
    assert not same.holds
    for margin, holds in ((0.05, True), (0.2, True), (0.21, False)):
        margined = parted.model_copy(update={"untouched_margin": margin})
        assert same.model_copy(update={"divergences": (margined,)}).holds == holds


def test_a_part_is_timed_on_indices_that_its_table_has() -> None:
    """MLX reads wherever an index points: beyond the table it ends the process, or reads on."""
    graph = ir.capture(lambda table, ids: table[ids], mx.zeros((50, 8)), mx.zeros(999, mx.uint32))
    ids = choosing.drawn_inputs(graph, seed=0)[1]
    assert ids.dtype == mx.uint32
    assert 0 < int(ids.max()) < 50


_OWN = """import mlx.core as mx
import mlx.nn as nn
model = nn.Linear(4, 4)
def broken(): raise KeyError("no weights")
def example_inputs(): return {made}
"""


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("model", "mx.zeros((2, 5))", r"model of .* cannot be called with .*: ValueError: \[addmm"),
        ("model", "1 / 0", r"example_inputs\(\) of .* fails: ZeroDivisionError"),
        ("model", "{'x': mx.zeros((2, 4))}", "expected example_inputs.. to return a tuple"),
        ("broken", "()", r"broken\(\) of .* makes no mlx.nn.Module: KeyError: 'no weights'"),
        ("model", "(", r"own.py cannot be imported: SyntaxError"),
    ],
)
def test_what_is_wrong_with_an_own_file_is_said(
    tmp_path: Path, name: str, made: str, said: str
) -> None:
    file = tmp_path / "own.py"
    file.write_text(_OWN.replace("{made}", made))
    with pytest.raises(InputError, match=said):
        load_target(f"{file}:{name}")


@pytest.mark.parametrize(
    "made", ["mx.zeros((2, 4))", "[mx.zeros((2, 4))]", "{'model': (mx.zeros((2, 4)),)}"]
)
def test_example_inputs_are_those_of_a_search(tmp_path: Path, made: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(_OWN.replace("{made}", made))
    (found,) = load_target(str(file)).example_inputs or ()
    assert isinstance(found, mx.array)


def test_experts_that_are_not_chosen_are_no_part_of_the_floor() -> None:
    """One of 64 matrices has to be read: what all of them would take refuses no search."""

    def experts(x: mx.array, weights: mx.array, chosen: mx.array) -> mx.array:
        return mx.gather_mm(x, weights, rhs_indices=chosen)

    arrays = (mx.zeros((1, 1, 256)), mx.zeros((64, 256, 256)), mx.zeros((2,), mx.uint32))
    graph = ir.canonicalize(ir.capture(experts, *arrays)).to_json()
    part = Part(call="decode", module="Experts", times=1, graph=graph)
    (choice,) = choose(Workload(model="experts", calls={"decode": 256}, parts=(part,)), None)
    matrix_us = 256 * 256 * 4 / 4.3e6
    assert choice.floor_us == pytest.approx(2.0 + matrix_us, abs=0.01)
    assert not choice.refused


def test_a_gpu_that_multiplies_unpacked_weights_is_searched_for_what_unpacks_them(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "TRIED_WEIGHTS", 64 * 64)
    with mx.stream(mx.cpu):
        quantized = build_model({**CONFIG, "quantization": {"group_size": 64, "bits": 4}})
        packed = record_generation("tiny", quantized, prompt=16, with_prefill=False)

    def unpackings(of: Workload, chip: str) -> list[str]:
        choices = choose(of.model_copy(update={"chip": chip}), None)
        return [c.name for c in choices if any(w.startswith("prompts") for w in c.where)]

    assert set(unpackings(packed, "h200")) == {"dequantize"}
    assert not unpackings(packed, "m3-max")
    assert not unpackings(packed, "")
    assert not unpackings(workload, "h200")
