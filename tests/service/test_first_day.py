"""What a newcomer tries on the first day: their own files, as they are."""

import warnings
from pathlib import Path

import mlx.core as mx
import pytest
from typer.testing import CliRunner, Result

import kernelwright as kw
from kernelwright.annotation import Example
from kernelwright.campaign import capture_subjects, load_subjects
from kernelwright.campaign.spec.input_text import read_inputs, written
from kernelwright.campaign.spec.subject import subject_of
from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.ir import canonicalize, capture, idioms
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.service.commands import app
from kernelwright.service.export_source import function_targets
from kernelwright.service.python.target import captured
from kernelwright.store import KernelStore
from tests.service.conftest import Searched

_MODEL = """
import mlx.core as mx
import mlx.nn as nn

SCALES = {"x": mx.random.normal((16,)) * 2}


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.RMSNorm(size)
        self._table = mx.random.normal((size,)) + 1

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x, n=2):
        return mx.tanh(self.norm(x) * self._table) * SCALES["x"] * n


block = Block(16)
blocks = [Block(16), Block(16)]


class Lonely:
    def __call__(self, x):
        return x + 1


def takes(x, n):
    if n > 2:
        print("large", n)
    return mx.softmax(x * n, axis=-1) + 1
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(_MODEL)
    return file


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("name", ["block", "block.forward", "blocks.0", "blocks.1.forward"])
def test_methods_and_objects_are_targets(model: Path, name: str) -> None:
    (subject,) = load_subjects(f"{model}:{name}", ["f32[8,16]"])
    graph = capture(subject.function, *subject.inputs, **subject.keywords)
    assert subject.name == name
    assert str(graph.output_types[0]) == "f32[8,16]"


def test_captured_arrays_are_evaluated_before_the_trace(model: Path) -> None:
    (subject,) = load_subjects(f"{model}:block", ["f32[8,16]"])
    graph = capture(subject.function, *subject.inputs)
    assert not any(node.op == "random_bits" for node in graph.nodes)
    assert sum(constant.type.shape == (16,) for _, constant in graph.constants) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Block", r"found the class .*; name an instance, such as 'block'"),
        ("Lonely", r"make an instance .* lonely = Lonely\(…\), and name it"),
        ("Lonely.__call__", "found .*Lonely.__call__ of the class Lonely"),
        ("block.backward", "has no function 'block.backward'; it has: takes"),
    ],
)
def test_what_is_no_function_is_refused_with_what_to_name(
    model: Path, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_subjects(f"{model}:{name}", ["f32[8,16]"])


def test_a_method_of_a_class_means_that_of_its_only_object(model: Path) -> None:
    model.write_text(_MODEL.replace("blocks = [Block(16), Block(16)]", ""))
    (subject,) = load_subjects(f"{model}:Block.__call__", ["f32[8,16]"])
    assert subject.name == "block.__call__"


@pytest.mark.parametrize(
    ("inputs", "shapes", "keywords"),
    [
        (["f32[8,n]", "n=3"], [(8, 3)], {"n": 3}),
        (["f32[rows,16]", "rows=5", "n=3"], [(5, 16)], {"n": 3}),
        (["f32[rows,16]", "n=3"], [(128, 16)], {"n": 3}),
        (["f32[1..64,16]", "n=3"], [(64, 16), (1, 16)], {"n": 3}),
        (["f32[8,16]", "n=1.5"], [(8, 16)], {"n": 1.5}),
        (["f32[8,16]", "n=true"], [(8, 16)], {"n": True}),
        (["f32[8,16]", "n='sum'"], [(8, 16)], {"n": "sum"}),
    ],
)
def test_scalars_sizes_and_ranges_are_inputs(
    model: Path, inputs: list[str], shapes: list[tuple[int, ...]], keywords: dict[str, object]
) -> None:
    subjects = load_subjects(f"{model}:takes", inputs)
    arrays = [s.inputs[0] for s in subjects]
    assert [a.shape for a in arrays if isinstance(a, mx.array)] == shapes
    assert all(s.keywords == keywords for s in subjects)


@pytest.mark.parametrize("text", ["f16[4..1]", "f16[", "n=", "n=three"])
def test_what_is_no_input_is_said_in_a_sentence(model: Path, text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        load_subjects(f"{model}:takes", [text])


@pytest.mark.parametrize("make", ["mx.vmap(rows)", "mx.vmap(mx.vmap(rows))"])
def test_a_function_that_mx_vmap_returns_is_planned(tmp_path: Path, make: str) -> None:
    file = tmp_path / "mapped.py"
    file.write_text(
        "import mlx.core as mx\ndef rows(x):\n    for _ in range(2):\n"
        f"        x = mx.softmax(x * 2, axis=-1)\n    return x\nmapped = {make}\n"
    )
    (captured,) = capture_subjects(load_subjects(f"{file}:mapped", ["f32[2,8,16]"])).functions
    assert captured.subject.name == "mapped"
    assert sum(node.op == "softmax" for node in captured.graph.nodes) == 2


def test_what_a_trace_refuses_names_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "peeks.py"
    file.write_text("def peeks(x):\n    y = x + 1\n    return x if y.sum() > 0 else y\n")
    (subject,) = load_subjects(f"{file}:peeks", ["f32[4]"])
    with pytest.raises(InputError, match=r"peeks \(.*peeks\.py:3\) looks at the values"):
        capture(subject.function, *subject.inputs)


def test_a_method_is_exported_under_the_names_of_its_object_and_itself(
    model: Path, tmp_path: Path
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        (target,) = function_targets(f"{model}:block.forward", ["f32[8,16]"], store, print)
    assert (target.name, target.owner) == ("block_forward", "block")


def test_an_object_with_its_parameters_is_exported_and_nothing_is_overwritten(
    model: Path, tmp_path: Path
) -> None:
    store, folder = str(tmp_path / "kernels.db"), tmp_path / "vendored"
    folder.mkdir()
    (folder / "block.py").write_text("mine = 1\n")
    searched = ("search", f"{model}:block", "--store", store, "-i", "f32[8,16]")
    done = _run(*searched, "-q", "--candidates", "2")
    assert done.exit_code == 0, done.output
    # As the search's last lines say it: without the inputs, which the store knows.
    command = ("export", f"{model}:block", "--store", store, "-o", str(folder))
    exported = _run(*command)
    assert exported.exit_code == 0, exported.output
    assert (folder / "block.py").read_text() == "mine = 1\n"
    text = (folder / "block_2.py").read_text()
    assert "class Block(nn.Module):" in text
    verification = (folder / "VERIFICATION.md").read_text()
    assert "differs" not in verification
    assert "- [x] kernels on the" in verification


def test_inputs_that_were_typed_before_are_recalled_where_they_still_fit(model: Path) -> None:
    typed: list[tuple[str, ...]] = [
        ("f32[4,4]", "n=1"),
        ("f32[4,4]", "gone=1"),
        ("f32[1..8,4]", "2"),
    ]
    asked: list[str] = []

    def recall(origin: str) -> list[tuple[str, ...]]:
        asked.append(origin)
        return typed

    subjects = load_subjects(f"{model}:takes", recall=recall)
    assert asked == [f"{model}:takes"]
    shapes = [[getattr(value, "shape", value) for value in s.inputs] for s in subjects]
    assert shapes == [[(4, 4)], [(8, 4), 2], [(1, 4), 2]]
    assert subjects[0].keywords == {"n": 1}
    with pytest.raises(InputError, match="does not say what its inputs look like"):
        load_subjects(f"{model}:takes")


def test_a_searchs_functions_are_exported_by_the_first_digits_of_its_id(tmp_path: Path) -> None:
    file, store = tmp_path / "two.py", str(tmp_path / "kernels.db")
    file.write_text(
        "import mlx.core as mx\nimport kernelwright as kw\n"
        "@kw.example('f32[32,64]')\ndef one(x):\n    return mx.tanh(x) * x + 1\n"
        "@kw.example('f32[64,32]')\ndef two(x):\n    return mx.maximum(x * 2, 0.5) - 1\n"
    )
    done = _run("search", str(file), "--store", store, "-q", "--candidates", "2")
    assert done.exit_code == 0, done.output
    with KernelStore(store) as opened:
        (campaign,) = opened.campaigns()
    folder = tmp_path / "vendored"
    command = ("export", "--store", store, "-o", str(folder), "--force", "--campaign")
    exported = _run(*command, campaign.id[:8])
    assert exported.exit_code == 0, exported.output
    assert (folder / "one.py").exists()
    assert (folder / "two.py").exists()
    unknown = _run(*command, "0" * 12)
    assert isinstance(unknown.exception, InputError)
    assert "no campaign in the store has an id that begins with" in str(unknown.exception)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys\ndef f(x):\n    return x\nsys.exit(3)\n", r"sys\.exit\(3\) in line 4"),
        ("def f(x):\n    return x\nraise SystemExit('no')\n", r"sys\.exit\('no'\) in line 3"),
    ],
)
def test_a_file_that_ends_python_is_reported_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "script.py"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        load_subjects(f"{file}:f", ["f32[4]"])


def test_a_function_that_ends_python_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "quits.py"
    file.write_text("import sys\ndef quits(x):\n    y = x + 1\n    sys.exit(1)\n")
    (subject,) = load_subjects(f"{file}:quits", ["f32[4]"])
    with pytest.raises(InputError, match=r"quits \(.*quits\.py:4\) raised SystemExit"):
        capture(subject.function, *subject.inputs)


@pytest.mark.parametrize("width", ["80", "100", "120"])
@pytest.mark.parametrize("command", [("catalog",), ("plan", "catalog:softmax")])
@pytest.mark.sampled(3)
def test_every_column_is_there_at_every_width(command: tuple[str, ...], width: str) -> None:
    texts = [
        CliRunner().invoke(app, list(command), env={"COLUMNS": columns}).stdout
        for columns in (width, "160")
    ]
    heads = ("inputs (T:", "computes", "reads", "launches", "bytes", "speedup", "step", "task")
    assert [h in texts[0] for h in heads] == [h in texts[1] for h in heads]
    assert all(len(line) <= int(width) for line in texts[0].splitlines())
    if command == ("catalog",):
        assert "…" not in texts[0]


def test_no_complex_number_is_cut_short_in_silence() -> None:
    def turned(x: mx.array) -> mx.array:
        return mx.abs(mx.exp(x.astype(mx.complex64) * mx.array(2j)))

    graph = canonicalize(capture(turned, mx.ones((4, 8))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idioms(graph)


def test_a_kernel_that_mlx_beats_is_exported_only_when_asked(
    searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Evaluation, "beats_mlx", False)
    line = ("export", searched.champion_id, "-o", str(tmp_path / "out"), "--store", searched.url)
    refused = _run(*line)
    assert isinstance(refused.exception, InputError)
    assert "MLX is best here; keep the original, or add --slower" in str(refused.exception)
    assert _run(*line, "--slower").exit_code == 0


def test_a_call_is_written_as_it_is_read() -> None:
    call = Example(
        (TensorType((8, 64), Dtype.FLOAT16), 3, True, "sum", mx.zeros((2, 2), mx.int32)),
        (("scale", 0.5), ("mask", TensorType((8,), Dtype.BOOL)), ("mode", None)),
    )
    (read,) = read_inputs(written(call))
    assert read.inputs[:4] == call.inputs[:4]
    assert read.inputs[4] == TensorType((2, 2), Dtype.INT32)
    assert read.keywords == call.keywords
    assert written(Example(([1, object()],))) == ()
    made = subject_of("f", lambda x, n: x * n, "f.py", Example((mx.zeros((4,)), 2)))
    assert made.written == ("f32[4]", "2")


def test_the_inputs_of_a_search_are_typed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "kernels.db"))
    monkeypatch.chdir(tmp_path)
    Path("attention.py").write_text(
        "import mlx.core as mx\ndef masked_softmax(scores, mask):\n"
        "    scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)\n"
        "    return mx.softmax(scores, axis=-1)\n"
    )
    assert _run("plan", "attention.py").exit_code == 1
    typed = ("-i", "f16[4,16,32]", "-i", "bool[16,32]")
    done = _run("search", "attention.py", *typed, "--candidates", "1", "-q")
    assert done.exit_code == 0, done.output
    for line in (
        "plan attention.py",
        "search attention.py --candidates 1 -q",
        "bench attention.py --rounds 5 --seconds 0.1",
        "export attention.py:masked_softmax -o vendored",
    ):
        done = _run(*line.split())
        assert done.exit_code == 0, done.output
    assert kw.plan("attention.py").outlines[0].function == "masked_softmax"
    assert captured("attention.py", None, str(tmp_path / "kernels.db")).functions


def test_what_the_file_says_of_its_inputs_is_not_added_to_by_earlier_searches(
    tmp_path: Path,
) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        "import mlx.core as mx\nimport kernelwright as kw\n"
        "@kw.example('f32[8]')\ndef f(x):\n    return mx.exp(x)\n"
    )

    def recall(origin: str) -> list[tuple[str, ...]]:
        return [("f32[4]",)]

    own = load_subjects(str(file), recall=recall)
    assert [getattr(s.inputs[0], "shape", None) for s in own] == [(8,)]
    everything = load_subjects(str(file), recall=recall, recalls_all=True)
    assert [getattr(s.inputs[0], "shape", None) for s in everything] == [(8,), (4,)]
