"""A model with kernels in place stays the module it was."""

import copy
import importlib
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.generate import batch_generate, generate_step
from mlx_lm.models import llama
from mlx_lm.models.cache import QuantizedKVCache, RotatingKVCache, make_prompt_cache
from mlx_lm.tuner.utils import linear_to_lora_layers

import kernelwright as kw
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.runtime.models import install as installing
from kernelwright.runtime.models import plan_chooser
from kernelwright.runtime.models.install import optimize_model, restore_model
from kernelwright.runtime.models.recorded import Results, Trace
from kernelwright.runtime.models.site import Site, site_of
from kernelwright.runtime.models.trace import trace_call
from kernelwright.runtime.models.translated import Translation
from kernelwright.runtime.models.tree import all_modules
from kernelwright.runtime.models.warming import warm_up
from kernelwright.runtime.server import Service
from tests.runtime.models.replaying import Replaying, decode, served_classes

nn: Any = importlib.import_module("mlx.nn")
"""MLX exports its layers in a way that type checkers do not follow."""
PROMPT = mx.array([5, 17, 42, 3, 9, 1])


def build(width: int = 64) -> llama.Model:
    mx.random.seed(7)
    args = llama.ModelArgs(
        model_type="llama",
        hidden_size=width,
        num_hidden_layers=3,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=128,
    )
    model = llama.Model(args)
    mx.eval(model.parameters())
    return model


def flat(tree: object) -> dict[str, mx.array]:
    return dict(cast("list[tuple[str, mx.array]]", tree_flatten(tree)))


def same_tree(one: object, other: object) -> bool:
    a, b = flat(one), flat(other)
    return a.keys() == b.keys() and all(mx.array_equal(a[k], b[k]) for k in a)


def test_a_store_without_champions_costs_a_call_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(Replaying):
        has_champions = False

    server = Empty()
    model = optimize_model(build(), server)
    expected, _ = decode(model, 1)
    looked: list[object] = []
    monkeypatch.setattr(installing, "call_key", lambda *given: looked.append(given))
    assert decode(model, 3)[0][:1] == expected
    assert not looked


def test_it_is_the_same_module_of_the_same_class() -> None:
    model = build()
    names, shown = list(flat(model.parameters())), repr(model)
    found = optimize_model(model, Replaying())
    decode(model, 2)
    assert found is model
    assert isinstance(model, llama.Model)
    assert type(model).__name__ == "Model"
    assert list(flat(model.parameters())) == names
    assert repr(model) == shown


def test_layers_run_as_one_with_their_caches() -> None:
    model = build()
    optimize_model(model, Replaying())
    decode(model, 3)
    assert "TransformerBlock" in served_classes(model)


@pytest.mark.parametrize("only", ["rms_norm", "swiglu", "matmul"])
def test_each_kernel_counts_by_itself(only: str) -> None:
    model, server = build(), Replaying(only=only)
    tokens, logits = decode(model)
    optimize_model(model, server)
    found, same = decode(model)
    assert server.runs > 0
    assert found == tokens
    assert mx.allclose(same, logits, rtol=1e-4, atol=1e-4)


def test_restore_leaves_nothing_behind() -> None:
    model = build()
    classes = [type(m) for _, m in all_modules(model)]
    fields = [sorted(vars(m)) for _, m in all_modules(model)]
    optimize_model(model, Replaying())
    decode(model, 3)
    assert restore_model(model) is model
    assert [type(m) for _, m in all_modules(model)] == classes
    assert [sorted(vars(m)) for _, m in all_modules(model)] == fields


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    model, other = build(), build()
    other.update({"model": {"norm": {"weight": mx.full((64,), 3.0)}}})
    other.model.layers[0].mlp.up_proj.weight = other.model.layers[0].mlp.up_proj.weight * 2
    optimize_model(model, Replaying())
    decode(model, 3)
    file = str(tmp_path / "weights.safetensors")
    other.save_weights(file)
    model.load_weights(file)
    assert same_tree(model.parameters(), other.parameters())
    assert mx.allclose(decode(model)[1], decode(other)[1], rtol=1e-4, atol=1e-4)
    model.save_weights(file)
    other.load_weights(file)


def test_weights_of_another_type_are_used() -> None:
    model, other = build(), build()
    optimize_model(model, Replaying())
    decode(model, 3)
    for changed in (model, other):
        changed.set_dtype(mx.float16)
    assert decode(model)[0] == decode(other)[0]
    assert decode(model, 2)[1].dtype == mx.float16


def test_lora_layers_are_found_and_trained() -> None:
    model, other = build(), build()
    server = Replaying()
    optimize_model(model, server)
    decode(model, 3)
    config = {"rank": 4, "dropout": 0.0, "scale": 10.0}
    for changed in (model, other):
        changed.freeze()
        mx.random.seed(1)
        linear_to_lora_layers(changed, 2, config)
        layer = changed.model.layers[-1].self_attn.q_proj
        layer.lora_b = mx.full(layer.lora_b.shape, 0.1)
    expected, found = decode(other), decode(model)
    assert found[0] == expected[0]
    assert mx.allclose(found[1], expected[1], rtol=1e-4, atol=1e-4)

    def loss(model: Callable[..., mx.array], tokens: mx.array) -> mx.array:
        logits = model(tokens[:, :-1])
        return cast("mx.array", nn.losses.cross_entropy(logits, tokens[:, 1:], reduction="mean"))

    tokens = mx.array([[5, 17, 42, 3, 9, 1]])
    runs = server.runs
    for _ in range(2):
        one = nn.value_and_grad(model, loss)(model, tokens)[1]
        two = nn.value_and_grad(other, loss)(other, tokens)[1]
        for name, gradient in flat(one).items():
            assert mx.allclose(gradient, flat(two)[name], rtol=1e-3, atol=1e-4), name
    assert server.runs > runs


def test_quantizing_afterwards_works() -> None:
    model, other, server = build(), build(), Replaying()
    optimize_model(model, server)
    decode(model, 3)
    for changed in (model, other):
        nn.quantize(changed, group_size=32, bits=4)
    runs = server.runs
    assert decode(model)[0] == decode(other)[0]
    assert server.runs > runs
    assert "QuantizedLinear" in {type(m).__name__ for _, m in all_modules(model)}


def test_a_replaced_layer_is_used() -> None:
    model, other = build(), build()
    optimize_model(model, Replaying())
    decode(model, 3)
    for changed in (model, other):
        mx.random.seed(3)
        changed.model.layers[1].mlp.up_proj = nn.Linear(64, 128, bias=True)
        changed.model.layers[2].input_layernorm.eps = 0.5
    assert mx.allclose(decode(model)[1], decode(other)[1], rtol=1e-4, atol=1e-4)


def test_copies_and_pickles_are_of_the_models_own_class() -> None:
    model = build()
    tokens = decode(model)[0]
    optimize_model(model, Replaying())
    decode(model, 3)
    made = copy.deepcopy(model)
    assert type(made) is llama.Model
    assert site_of(made) is None
    assert decode(made)[0] == tokens
    layer = pickle.loads(pickle.dumps(model.model.layers[0].input_layernorm))
    assert type(layer) is nn.RMSNorm


@pytest.mark.parametrize(
    "make",
    [
        lambda model: make_prompt_cache(model),
        lambda model: [RotatingKVCache(max_size=8) for _ in model.layers],  # type: ignore[no-untyped-call]
        lambda model: [QuantizedKVCache(group_size=32, bits=8) for _ in model.layers],
    ],
    ids=["plain", "rotating", "quantized"],
)
def test_every_kind_of_cache_goes_in_and_out(make: Callable[[llama.Model], list[object]]) -> None:
    def tokens(model: llama.Model) -> list[int]:
        steps = generate_step(PROMPT, model, max_tokens=16, prompt_cache=make(model))
        return [int(token) for token, _ in steps]

    # Keys of a quantized cache come in groups of 32.
    model = build(width=128)
    expected = tokens(model)
    server = Replaying()
    optimize_model(model, server)
    assert tokens(model) == expected
    assert tokens(model) == expected
    assert server.runs > 0


class _Tokenizer:
    """As much of a tokenizer as generating in batches asks for."""

    eos_token_ids = frozenset({1000})
    eos_token_id = 1000
    has_tool_calling = False
    has_thinking = False

    def decode(self, tokens: list[int]) -> str:
        return " ".join(map(str, tokens))


def test_batches_are_generated() -> None:
    model = build()
    prompts = [[5, 17, 42, 3], [9, 1]]
    expected = batch_generate(model, _Tokenizer(), prompts, max_tokens=6).texts
    server = Replaying()
    optimize_model(model, server)
    for _ in range(2):
        assert batch_generate(model, _Tokenizer(), prompts, max_tokens=6).texts == expected
    assert server.runs > 0


def test_many_threads_get_the_right_tokens() -> None:
    model = build()
    prompts = [mx.array([[i, i + 1, i + 2][: 1 + i % 3]]) for i in range(6)]
    expected = [model(prompt) for prompt in prompts]
    mx.eval(expected)
    optimize_model(model, Replaying())
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                i = (number + turn) % len(prompts)
                if not mx.allclose(model(prompts[i]), expected[i], rtol=1e-4, atol=1e-4):
                    wrong.append(i)
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_tracing_never_touches_live_weights() -> None:
    model = build()
    before = {k: id(v) for k, v in flat(model.parameters()).items()}
    seen: list[bool] = []

    class Looking(Replaying):
        def serve(self, graph: Graph) -> Service:
            seen.append({k: id(v) for k, v in flat(model.parameters()).items()} == before)
            return super().serve(graph)

    optimize_model(model, Looking())
    decode(model, 3)
    assert seen
    assert all(seen)


def test_a_model_is_warm_before_its_first_token(tmp_path: Path) -> None:
    model, server = build(), Replaying()
    optimize_model(model, server)
    tokens = decode(build(), 3)[0]
    warm_up(model)
    runs = server.runs
    assert runs > 0
    assert decode(model, 3)[0] == tokens
    url = str(tmp_path / "none.db")
    assert kw.optimize(build(), store=url, warm=True) is not None
    with pytest.raises(InputError, match=r"expected a language model .* found Linear"):
        kw.optimize(nn.Linear(4, 4), store=url, warm=True)
    with pytest.raises(InputError, match="expected a language model with warm=True"):
        kw.optimize(mx.exp, store=url, warm=True)


def test_the_public_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    tokens = decode(model)[0]
    assert kw.optimize(model, store=str(tmp_path / "none.db")) is model
    assert decode(model)[0] == tokens
    assert kw.restore(model) is model
    with pytest.raises(KernelwrightError, match=r"expected an mlx\.nn\.Module"):
        kw.restore(len)
    monkeypatch.setenv("KERNELWRIGHT", "off")
    assert type(kw.optimize(model)) is llama.Model


def test_prompts_of_ever_new_lengths_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[str] = []
    own = trace_call

    def noted(
        module: nn.Module,
        method: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        results: Results,
        translation: Translation | None = None,
        *,
        holds_rope: bool = False,
    ) -> Trace:
        traced.append(method)
        return own(module, method, args, kwargs, results, translation, holds_rope=holds_rope)

    monkeypatch.setattr("kernelwright.runtime.models.plan_chooser.trace_call", noted)
    model = build()
    optimize_model(model, Replaying(only="nothing of this name"))
    looked = []
    for length in (3, 4, 5, 6, 5):
        traced.clear()
        mx.eval(model(mx.array([[7] * length])))
        looked.append(bool(traced))
    assert looked == [True, True, False, False, True]


def test_looking_at_a_call_draws_no_random_numbers() -> None:
    def draws(model: Callable[[mx.array], mx.array]) -> list[mx.array]:
        mx.random.seed(9)
        return [model(mx.ones((2, 32))) for _ in range(3)]

    mx.random.seed(7)
    model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.RMSNorm(32))
    expected = draws(model)
    optimize_model(model, Replaying())
    for drawn, other in zip(draws(model), expected, strict=True):
        assert mx.allclose(drawn, other, atol=1e-5)


class Shuffling(nn.Module):  # type: ignore[misc]
    """Draws by the random state, and keeps an array that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.proj, self.norm = nn.Linear(32, 32), nn.RMSNorm(32)
        self._rows = mx.zeros((2, 32))

    def __call__(self, x: mx.array) -> mx.array:
        return mx.random.permutation(self.norm(mx.concatenate([self.proj(x), self._rows])), axis=1)


@pytest.mark.parametrize("traces_model", [False, True])
def test_a_random_state_that_a_transformation_traces_is_no_obstacle(*, traces_model: bool) -> None:
    def drawn(*, is_optimized: bool) -> tuple[nn.Module, list[mx.array]]:
        mx.random.seed(3)
        model, x = Shuffling(), mx.ones((2, 32))
        if is_optimized:
            optimize_model(model, Replaying())
        state = [model.state, mx.random.state] if traces_model else mx.random.state
        compiled = mx.compile(lambda x: model(x), inputs=state, outputs=state)
        return model, [compiled(x), compiled(x), model(x), model(x)]

    _, expected = drawn(is_optimized=False)
    model, found = drawn(is_optimized=True)
    assert served_classes(model)
    for one, other in zip(found, expected, strict=True):
        assert mx.allclose(one, other, atol=1e-5)
    assert "fault" not in installing.explain_model(model, (), {})


def test_a_call_that_arrays_without_values_hinder_is_plain_for_that_call_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hindered(*given: object, **named: object) -> Trace:
        raise ValueError("[eval] Attempting to eval an array during function transformations")

    model, x = Shuffling(), mx.ones((2, 32))
    optimize_model(model, Replaying())
    with monkeypatch.context() as patched:
        patched.setattr("kernelwright.runtime.models.plan_chooser.trace_call", hindered)
        mx.eval(model(x))
    assert not served_classes(model)
    mx.eval(model(x))
    assert served_classes(model)


def test_an_array_that_is_returned_twice_is_one_array() -> None:
    class Twice(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.proj = nn.Linear(32, 32)

        def __call__(self, x: mx.array) -> tuple[mx.array, mx.array]:
            made = self.proj(x)
            return made, made

    model, server = Twice(), Replaying()
    optimize_model(model, server)
    for _ in range(2):
        one, other = model(mx.ones((2, 32)))
        assert one is other
    assert server.runs > 0


def test_a_fault_of_ours_leaves_a_module_to_mlx_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise IndexError("tuple index out of range")

    model = build()
    expected = model(PROMPT[None])
    monkeypatch.setattr(plan_chooser, "make_plan", fails)
    optimize_model(model, Replaying())
    assert mx.array_equal(model(PROMPT[None]), expected)
    words = installing.explain_model(model, (), {})
    assert words.startswith("MLX runs all of it: ")
    assert (
        "TransformerBlock is left to MLX by a fault of Kernelwright's (IndexError: tuple" in words
    )


class _OnlyTokens(Replaying):
    """Has kernels for single tokens alone."""

    def serve(self, graph: Graph) -> Service:
        found = super().serve(graph)
        is_prompt = any(len(PROMPT) in t.shape for t in graph.input_types)
        return replace(found, programs={}, kept={}, reason="a prompt") if is_prompt else found


def test_calls_of_a_kind_without_kernels_look_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = build(), []
    expected = model(PROMPT[None])
    server = _OnlyTokens()
    optimize_model(model, server)
    token = PROMPT[None, :1]
    for _ in range(3):
        assert mx.array_equal(model(PROMPT[None]), expected)
        model(token)
    assert server.runs
    find = Site.find

    def noted(
        self: Site, method: str, args: tuple[object, ...], given: dict[str, object]
    ) -> object:
        asked.append(method)
        return find(self, method, args, given)

    monkeypatch.setattr(Site, "find", noted)
    assert mx.array_equal(model(PROMPT[None]), expected)
    assert not asked
    before = server.runs
    model(token)
    assert asked
    assert server.runs > before
    # Another layer is another model: it is looked at again.
    model.model.layers[0].mlp = model.model.layers[1].mlp
    model(PROMPT[None])
    assert asked
