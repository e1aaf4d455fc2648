"""Values that no command takes: one sentence, the documented exit code, and nothing lost."""

from pathlib import Path

import pytest

from kernelwright.campaign.spec.input_text import assumed_sizes, read_inputs
from kernelwright.errors import InputError, StoreError, UsageError
from kernelwright.runtime.export.selection import check_name
from kernelwright.service import cli
from kernelwright.service.console import error_console
from kernelwright.service.exporting import ExportRequest
from kernelwright.service.output_file import write_output
from kernelwright.store.location import url_of


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["f16[99999999999,64]"], "fit a machine's memory"),
        (["f16[n,64]", "n=99999999999"], "fit a machine's memory"),
        (["f16[2147483647,2147483647]"], "fit a machine's memory"),
        (["f99[8]"], "expected a dtype"),
        (["f16[8,64"], "expected an input such as"),
        (["f16[n,64]", "N=3"], "found N=3, which is no size"),
        (["f16[1e3]"], "expected an input such as"),
        (["{'x': [f16[1..]]}"], "expected an input such as"),
        (["{[1]: f16[2]}"], "expected an input such as"),
        (["[" * 500 + "1" + "]" * 500], "expected an input such as"),
        (["x=" + "(" * 9000], "expected an input such as"),
    ],
)
def test_inputs_that_cannot_be_are_misuse(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_inputs(texts, ["x"])


@pytest.mark.parametrize("name", ["class", "my-name", "3d", "os", "mlx"])
def test_an_export_has_a_name_that_can_be_imported(name: str) -> None:
    with pytest.raises(UsageError, match="expected a"):
        check_name(name)
    with pytest.raises(UsageError, match="expected a"):
        ExportRequest(folder=Path(), name=name, format_name="module", force=False, slower=False)


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="found the folder"):
        url_of(str(tmp_path))
    with pytest.raises(StoreError, match="found the folder"):
        url_of("/")


def test_a_page_replaces_pages_and_nothing_else(tmp_path: Path) -> None:
    mine, page = tmp_path / "attention.py", tmp_path / "night.html"
    mine.write_text("import mlx")
    with pytest.raises(InputError, match=r"attention\.py exists and was not written"):
        write_output(mine, "# a report")
    assert mine.read_text() == "import mlx"
    write_output(page, "<!doctype html>first")
    write_output(page, "<!doctype html>second")
    assert page.read_text().endswith("second")


def test_an_error_that_nobody_expected_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(obj: object) -> None:
        raise ZeroDivisionError("[bold]by zero\nand more")

    monkeypatch.setattr("kernelwright.service.commands.app", fail)
    monkeypatch.delenv(cli.TRACEBACK, raising=False)
    error_console.cache_clear()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ZeroDivisionError: [bold]by zero" in said
    monkeypatch.setenv(cli.TRACEBACK, "1")
    with pytest.raises(ZeroDivisionError):
        cli.main()
    error_console.cache_clear()


def test_a_size_that_nothing_sets_is_said() -> None:
    assert assumed_sizes(["f16[n,64]", "f16[m]", "m=3"]) == (
        "the size n is 128, for nothing sets it; add -i n=… for another.",
    )
    assert assumed_sizes(["f16[1..64,8]", "3"]) == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["best", "--device", "gpu"], "'gpu' is not one of 'simulator'"),
        (["best", "--limit", "two"], "expected a whole number, found 'two'"),
        (["best", "--limit", "0"], "expected greater than or equal to 1, found"),
        (["campaign", "resume", "--hours", "long"], "expected a number, found 'long'"),
        (["best", "--dtype", "f99"], "expected a dtype"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_told_in_our_words(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["kernelwright", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in told
    assert "Input should" not in told
    assert "Value error" not in told


def said_of(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str]:
    monkeypatch.setattr("sys.argv", ["kernelwright", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    error_console.cache_clear()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("model", [[], ["--model", "none"]])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("search none.py", "--base-url http://127.0.0.1:1/v1"),
        ("search none.py", "--budget 2"),
        ("search none.py", "--task-calls 2"),
        ("search none.py", "--tool-evaluations 2"),
        ("tune none", "--base-url http://127.0.0.1:1/v1"),
        ("redteam none.py", "--tokens 5"),
        ("doctor", "--base-url http://127.0.0.1:1/v1"),
        ("bench-agents", "--task-budget 2"),
        ("mcp", "--budget 2"),
    ],
)
def test_an_option_for_models_without_a_model_is_misuse(
    command: str,
    option: str,
    model: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*command.split(), *option.split(), *model]
    code, told = said_of(arguments, monkeypatch, capsys)
    assert code == 2
    name = option.split()[0]
    assert f"{name} is for models, and no model is asked; name one with --model." in told


def test_a_setting_for_models_without_a_model_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernelwright.toml").write_text('base_url = "http://127.0.0.1:1/v1"\nbudget = 2.0\n')
    _, told = said_of(["search", "none.py"], monkeypatch, capsys)
    assert "none.py" in told
    assert "no model is asked" not in told
