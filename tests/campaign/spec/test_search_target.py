"""Functions and their inputs, read from files as people write them."""

import sys
import zlib
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest

from kernelwright import catalog, ir
from kernelwright.campaign import Subject, load_subjects
from kernelwright.campaign.spec.input_text import read_inputs
from kernelwright.errors import InputError
from kernelwright.ir import Dtype, TensorType

SOFTMAX = """
import mlx.core as mx
def softmax(x):
    return mx.softmax(x, axis=-1)
"""
TWO = """
import mlx.core as mx
def add(x, y):
    return x + y
def double(x):
    return x * 2
"""


@pytest.mark.parametrize(
    ("text", "name", "type_"),
    [
        ("bf16[2048,4096]", None, TensorType((2048, 4096), Dtype.BFLOAT16)),
        (" float16[ 3 , 4 ] ", None, TensorType((3, 4), Dtype.FLOAT16)),
        ("f32[]", None, TensorType((), Dtype.FLOAT32)),
        ("mask=bool[16,16]", "mask", TensorType((16, 16), Dtype.BOOL)),
    ],
)
def test_inputs_parse_as_written(text: str, name: str | None, type_: TensorType) -> None:
    (call,) = read_inputs([text])
    wanted = ((), ((name, type_),)) if name else ((type_,), ())
    assert (call.inputs, call.keywords) == wanted


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bf16", "expected an input such as 'bf16.2048,4096.'"),
        ("bf16(2,3)", "expected an input such as"),
        ("bf16[2,-1]", "expected an input such as"),
        ("bf15[2,3]", "expected a dtype, one of .*bf16.*found 'bf15'"),
    ],
)
def test_an_input_that_does_not_parse_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_inputs([text])


def test_inputs_come_from_the_command_line(tmp_path: Path) -> None:
    (subject,) = load_subjects(_file(tmp_path, SOFTMAX), ["bf16[4,8]"])
    assert (subject.name, _shapes(subject)) == ("softmax", [((4, 8), mx.bfloat16)])


def test_inputs_come_from_example_inputs(tmp_path: Path) -> None:
    made = "def example_inputs():\n    return mx.zeros((2, 3))\n"
    (subject,) = load_subjects(_file(tmp_path, SOFTMAX + made))
    assert _shapes(subject) == [((2, 3), mx.float32)]


def test_inputs_come_from_decorators_one_search_each(tmp_path: Path) -> None:
    text = SOFTMAX.replace(
        "def softmax",
        "import kernelwright\n@kernelwright.example('f16[2,3]')\n"
        "@kernelwright.example('f16[4,5]')\ndef softmax",
    )
    subjects = load_subjects(_file(tmp_path, text))
    assert [_shapes(s) for s in subjects] == [[((2, 3), mx.float16)], [((4, 5), mx.float16)]]


def test_keyword_inputs_keep_their_names(tmp_path: Path) -> None:
    (subject,) = load_subjects(_file(tmp_path, TWO) + ":add", ["f32[2]", "y=f32[2]"])
    assert list(subject.keywords) == ["y"]


def test_a_dict_of_inputs_serves_several_functions(tmp_path: Path) -> None:
    made = "def example_inputs():\n    return {'add': ('f32[2]', 'f32[2]'), 'double': 'f16[3]'}\n"
    subjects = load_subjects(_file(tmp_path, TWO + made))
    assert [(s.name, len(s.inputs)) for s in subjects] == [("add", 2), ("double", 1)]


MAKER = """
def scaled(factor):
    return lambda x: x * factor

pairs = [scaled(2.0), scaled(3.0)]
table = {"warm": scaled(0.5), "cold run": scaled(0.25), 4: scaled(4.0)}
"""


@pytest.mark.parametrize(
    ("written", "name", "made"),
    [
        ("pairs.1", "pairs.1", 3.0),
        ("pairs[1]", "pairs.1", 3.0),
        ("table['warm']", "table.warm", 0.5),
        ('table["cold run"]', "table.cold run", 0.25),
        ("table[4]", "table.4", 4.0),
    ],
)
def test_an_item_is_named_as_in_python_or_with_a_dot(
    tmp_path: Path, written: str, name: str, made: float
) -> None:
    (subject,) = load_subjects(f"{_file(tmp_path, MAKER)}:{written}", ["f32[2]"])
    assert subject.name == name
    assert subject.function(mx.array(1.0)).item() == made  # type: ignore[attr-defined]


def test_command_line_wins_over_the_file(tmp_path: Path) -> None:
    made = "def example_inputs():\n    return mx.zeros((2, 3))\n"
    (subject,) = load_subjects(_file(tmp_path, SOFTMAX + made), ["f32[7]"])
    assert _shapes(subject) == [((7,), mx.float32)]


def test_a_file_finds_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_subject.py").write_text("SCALE = 3\n")
    text = "from neighbour_of_subject import SCALE\ndef scaled(x):\n    return x * SCALE\n"
    (subject,) = load_subjects(_file(tmp_path, text), ["f32[7]"])
    assert subject.name == "scaled"


@pytest.mark.parametrize(
    ("text", "suffix", "inputs", "sentence"),
    [
        (SOFTMAX, ":missing", ["f32[2]"], "no function 'missing'; it has: softmax"),
        (SOFTMAX, "", [], "does not say what its inputs look like; write one as -i"),
        (TWO, "", ["f32[2]"], r"several functions \(add, double\)"),
        ("x = 3", "", ["f32[2]"], "expected a function in .*, found none"),
        ("x = 3", ":x", ["f32[2]"], "to be a function of MLX arrays, found int"),
        (MAKER, ":pairs", ["f32[2]"], "found list; name an item, such as pairs.0"),
        (MAKER, ":table", ["f32[2]"], "found dict; name an item, such as table.warm"),
        ("import nowhere_to_be_found", "", [], "needs the package 'nowhere_to_be_found'"),
        ("def f(:", "", [], "cannot be imported: SyntaxError"),
        ("1 / 0", "", [], "cannot be imported: ZeroDivisionError: division by zero"),
        (
            SOFTMAX + "def example_inputs():\n    raise ValueError('no')",
            "",
            [],
            "raised ValueError: no",
        ),
        (
            SOFTMAX + "def example_inputs():\n    return {'other': 1}",
            "",
            [],
            "hold inputs for softmax",
        ),
        (
            TWO + "def example_inputs():\n    return mx.zeros(2)",
            "",
            [],
            "one set of inputs; name one",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, text: str, suffix: str, inputs: list[str], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        load_subjects(_file(tmp_path, text) + suffix, inputs)
    assert "\n" not in str(caught.value)


def test_a_catalog_task_comes_with_its_inputs_at_any_dtype() -> None:
    name = catalog.entries()[0].name
    (half,) = load_subjects(f"catalog:{name}")
    (single,) = load_subjects(f"catalog:{name}:f32")
    assert half.name == single.name == name
    assert {d for _, d in _shapes(half)} != {d for _, d in _shapes(single)}


def test_an_unknown_catalog_task_is_one_sentence() -> None:
    with pytest.raises(InputError, match="expected a catalog task, found 'nothing'"):
        load_subjects("catalog:nothing")


@pytest.mark.parametrize("target", ["nowhere.py", "nowhere.py:softmax", "/tmp", ""])
def test_a_path_to_nothing_is_one_sentence(target: str) -> None:
    with pytest.raises(InputError, match="expected a Python file"):
        load_subjects(target, ["f32[2]"])


def _file(folder: Path, text: str) -> str:
    path = folder / "functions.py"
    path.write_text(text)
    return str(path)


def _shapes(subject: Subject) -> list[tuple[tuple[int, ...], mx.Dtype]]:
    return [(tuple(a.shape), a.dtype) for a in subject.inputs if isinstance(a, mx.array)]


@pytest.mark.parametrize("target", ["functions.py", "functions.py:softmax", "./functions.py"])
def test_a_file_is_found_by_its_bare_name(tmp_path: Path, target: str) -> None:
    _file(tmp_path, SOFTMAX)
    (subject,) = load_subjects(target, ["f16[2,4]"], folder=tmp_path)
    assert subject.name == "softmax"


@pytest.mark.parametrize("target", ["blocks.activation", "blocks.activation:softmax"])
def test_a_module_is_found_by_its_dotted_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.delitem(sys.modules, "blocks", raising=False)
    monkeypatch.delitem(sys.modules, "blocks.activation", raising=False)
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "__init__.py").touch()
    (tmp_path / "blocks" / "activation.py").write_text(SOFTMAX)
    (subject,) = load_subjects(target, ["f16[2,4]"], folder=tmp_path)
    assert subject.place == "blocks.activation:softmax"
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("blocks_not_there:f", r"found no 'blocks_not_there' from .*; check the name"),
        ("mlx.nothing", r"found no 'mlx\.nothing'"),
        ("mlx.nn:nothing", r"mlx\.nn has no function 'nothing'"),
    ],
)
def test_a_module_that_is_not_there_is_one_sentence(target: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_subjects(target, ["f32[2]"])


@pytest.mark.parametrize(
    "statement", ["from .util import K", "from ..const import K", "from pack.layers.util import K"]
)
@pytest.mark.parametrize("has_init", [False, True])
def test_a_file_of_a_package_is_read_as_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, *, has_init: bool
) -> None:
    # Python keeps modules for good: each case needs a package of its own name.
    pack = f"pack{has_init:d}{zlib.crc32(statement.encode())}"
    layers = tmp_path / pack / "layers"
    layers.mkdir(parents=True)
    own = statement.replace("pack.", f"{pack}.")
    (layers / "pool.py").write_text(f"{own}\ndef pool(x):\n    return x * K\n")
    (layers / "util.py").write_text("K = 2\n")
    (tmp_path / pack / "const.py").write_text("K = 2\n")
    if has_init:
        (tmp_path / pack / "__init__.py").touch()
        (layers / "__init__.py").touch()
    monkeypatch.chdir(tmp_path if not has_init else layers)
    target = "pool.py" if has_init else f"{pack}/layers/pool.py"
    (subject,) = load_subjects(f"{target}:pool", ["f32[4]"])
    assert subject.place == f"{pack}.layers.pool:pool"
    made = cast("mx.array", subject.function(mx.ones(4)))
    assert mx.array_equal(made, mx.full((4,), 2.0))


def test_what_a_file_of_a_package_lacks_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "pack_without").mkdir()
    (tmp_path / "pack_without" / "__init__.py").touch()
    file = tmp_path / "pack_without" / "pool.py"
    file.write_text("from .nothing import K\ndef pool(x):\n    return x * K\n")
    with pytest.raises(InputError, match=r"needs the package 'pack_without.nothing'"):
        load_subjects(f"{file}:pool", ["f32[4]"])


def test_examples_above_a_compiled_function_are_found(tmp_path: Path) -> None:
    text = (
        "import kernelwright as kw\nimport mlx.core as mx\n"
        "@kw.example('f32[4]')\n@kw.example('f32[8]')\n@mx.compile\n"
        "def doubled(x):\n    return x * 2\n"
    )
    subjects = load_subjects(_file(tmp_path, text))
    assert [(s.name, _shapes(s)) for s in subjects] == [
        ("doubled", [((4,), mx.float32)]),
        ("doubled", [((8,), mx.float32)]),
    ]


def test_what_is_optimized_is_searched_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "optimized.py"
    file.write_text(
        "import mlx.core as mx\nimport kernelwright as kw\n"
        "@kw.optimize\n@kw.example('f32[8,16]')\n"
        "def gate(x):\n    return mx.sigmoid(x) * x\n"
        "class Layer:\n"
        "    @kw.optimize\n    def step(self, x):\n        return mx.tanh(x) + 1\n"
        "layer = Layer()\n"
    )
    (subject,) = load_subjects(str(file))
    assert (subject.name, type(subject.function).__name__) == ("gate", "function")
    for name in ("layer.step", "Layer.step"):
        (subject,) = load_subjects(f"{file}:{name}", ["f32[8,16]"])
        assert (subject.name, type(subject.function).__name__) == ("layer.step", "method")
        assert ir.capture(subject.function, *subject.inputs).input_names() == ("x",)


def test_a_record_is_typed_by_the_name_of_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from typing import NamedTuple\nimport mlx.core as mx\n"
        "class Step(NamedTuple):\n    x: mx.array\n    count: int\n"
        "def taken(step):\n    return step.x * step.count\n"
    )
    (tmp_path / "steps_of_tests.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    inputs = ["steps_of_tests.Step(x=f32[n], count=2)", "n=3"]
    (subject,) = load_subjects("steps_of_tests:taken", inputs)
    made = cast("mx.array", subject.function(*subject.inputs))
    assert mx.array_equal(made, mx.zeros(3))


EXAMPLES = """
import kernelwright as kw
@kw.example("{'x': f32[8,64], 'more': [i32[8], 2.0]}")
def nest(d):
    return d["x"] * d["more"][1]
@kw.example("f32[n,4]", "mode='sum'", n=3)
@kw.example("f16[2..8,4]", "sum")
def modes(x, mode):
    return x
@kw.example("f32[8]", "(2, 'a')")
def pair(x, both):
    return x
"""
BAD_EXAMPLES = """
import kernelwright as kw
@kw.example("f32[8,")
def first(x):
    return x
@kw.example("f32[8]")
def fine(x):
    return x
@kw.example("f32[8]")
@kw.example("{'a': f15[8]}")
def second(x):
    return x
"""


def test_an_example_takes_what_the_command_line_takes(tmp_path: Path) -> None:
    path = _file(tmp_path, EXAMPLES)
    nest, sized, large, small, pair = load_subjects(path)
    assert nest.written == ("{'x': f32[8,64], 'more': [i32[8], 2.0]}",)
    assert sized.written == ("f32[3,4]", "mode='sum'")
    assert [large.written, small.written] == [("f16[8,4]", "'sum'"), ("f16[2,4]", "'sum'")]
    assert pair.inputs[1] == (2, "a")


def test_every_example_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    path = _file(tmp_path, BAD_EXAMPLES)
    with pytest.raises(InputError) as caught:
        load_subjects(path)
    said = str(caught.value)
    assert f"the example of first in {path}, line 3 cannot be read: expected an input" in said
    assert f"the example of second in {path}, line 10 cannot be read: expected a dtype" in said
    assert "fine" not in said


OBJECTS = """
import mlx.nn as nn
import kernelwright as kw
class Mixer:
    @kw.example("f32[8]")
    def mix(self, x):
        return x * 2
    @kw.example("f32[8]")
    def __call__(self, x):
        return x
    def other(self, x):
        return x
left, right = Mixer(), Mixer()
linear = nn.Linear(4, 4)
"""


def test_methods_are_named_where_a_file_has_no_function(tmp_path: Path) -> None:
    path = _file(tmp_path, OBJECTS)
    said = rf"found none; name a method of an object, such as {path}:left; it has: (.*)\."
    with pytest.raises(InputError, match=said) as caught:
        load_subjects(path)
    assert str(caught.value).endswith("it has: left, left.mix, right, right.mix.")
    with pytest.raises(InputError, match=r"no function 'mix'; it has: left, left\.mix, right"):
        load_subjects(f"{path}:mix")


def test_objects_that_are_called_are_named_where_none_has_examples(tmp_path: Path) -> None:
    imports = "from typing import Optional\nfrom mlx.core import exp\nimport mlx.nn as nn\n"
    path = _file(tmp_path, f"{imports}linear = nn.Linear(4, 4)\nsize = 4\n")
    with pytest.raises(InputError, match=r":linear; it has: linear\.$"):
        load_subjects(path)
