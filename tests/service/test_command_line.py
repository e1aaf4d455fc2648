"""What holds for every command: exit codes, JSON, placeholders and settings as defaults."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.core import TyperOption
from typer.testing import CliRunner

from kernelwright.service.cli import main
from kernelwright.service.commands import COMMANDS, app
from kernelwright.service.lazy_group import CommandEntry, GroupEntry
from kernelwright.service.setting_default import TAKEN, defaults_of
from kernelwright.settings import Settings
from kernelwright.store import KernelStore

_WITHOUT_JSON = {"run", "mcp"}
"""Their standard output is the program's that they run, and the protocol's that they speak."""


def all_commands() -> list[tuple[str, CommandEntry]]:
    found = []
    for name, entry in COMMANDS.items():
        inner = entry.commands if isinstance(entry, GroupEntry) else {"": entry}
        found += [(f"{name} {sub}".strip(), command) for sub, command in inner.items()]
    return found


@pytest.mark.parametrize(("name", "entry"), all_commands())
def test_every_command_prints_json_when_asked(name: str, entry: CommandEntry) -> None:
    options = {option for p in entry.load(name).params for option in p.opts}
    assert ("--json" in options) is (name not in _WITHOUT_JSON)


@pytest.mark.parametrize(("name", "entry"), all_commands())
def test_every_placeholder_is_written(name: str, entry: CommandEntry) -> None:
    for option in entry.load(name).params:
        if isinstance(option, TyperOption):
            assert option.metavar == "" if option.is_flag else option.metavar


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
@pytest.mark.sampled(8)
def test_every_placeholder_says_what_to_write(name: str) -> None:
    page = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"}).output
    assert not [
        word for word in ("<str>", "<bool>", "list[", "<int", "<float", "<path") if word in page
    ]


@pytest.mark.parametrize(("name", "entry"), all_commands())
def test_a_placeholder_tells_more_than_the_options_name(name: str, entry: CommandEntry) -> None:
    # A name that is a noun of the field is what to write; one of its parts is not.
    nouns = {"CHIP", "TOKEN", "OP", "DTYPE", "NAME", "GROUP", "CASE", "STATUS", "KERNEL"}
    nouns |= {"CAMPAIGN", "PORT", "FOLDER", "SECONDS", "DAYS", "HOURS", "DOLLARS"}
    for option in entry.load(name).params:
        if isinstance(option, TyperOption) and option.metavar not in nouns:
            assert option.metavar != str(option.name).upper().replace("_", "-"), option.name


@pytest.mark.parametrize(
    "group", ["", *(n for n, e in COMMANDS.items() if isinstance(e, GroupEntry))]
)
def test_flags_of_groups_take_nothing(group: str) -> None:
    assert "<" not in CliRunner().invoke(app, [*group.split(), "--help"]).output


@pytest.mark.parametrize(("name", "entry"), all_commands())
def test_a_placeholder_agrees_with_what_is_said_of_the_option(
    name: str, entry: CommandEntry
) -> None:
    for option in entry.load(name).params:
        if isinstance(option, TyperOption) and option.metavar == "FILE":
            assert "folder" not in f"{option.name} {option.help}".lower()
        elif isinstance(option, TyperOption) and option.metavar == "FINGERPRINT":
            assert "fingerprint" in str(option.help)


@pytest.mark.parametrize(("command", "names"), TAKEN.items())
def test_settings_name_parameters_of_their_commands(command: str, names: tuple[str, ...]) -> None:
    entry = COMMANDS[command]
    assert isinstance(entry, CommandEntry)
    parameters = {p.name for p in entry.load(command).params}
    assert set(names) <= parameters & set(Settings.model_fields)


def test_defaults_are_those_settings_that_were_chosen() -> None:
    settings = Settings(device="cuda", model=("anthropic:a",))
    assert defaults_of("tune", settings) == {"device": "cuda", "model": ["anthropic:a"]}
    assert defaults_of("best", settings) == {}


@dataclass(frozen=True)
class _Done:
    code: int
    out: str
    err: str


class _CommandLine:
    """Calls the program as its console script does, in a folder with an empty store."""

    def __init__(
        self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], folder: Path
    ) -> None:
        patch.chdir(folder)
        patch.setenv("KERNELWRIGHT_STORE", "kernels.db")
        with KernelStore("kernels.db"):
            pass
        self._patch, self._capture = patch, capture

    def __call__(self, *arguments: str) -> _Done:
        self._patch.setattr(sys, "argv", ["kernelwright", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self._capture.readouterr()
        code = ended.value.code
        return _Done(code if isinstance(code, int) else 0, printed.out, printed.err)


@pytest.fixture
def command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> _CommandLine:
    return _CommandLine(monkeypatch, capsys, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("catalog",), 0),
        (("store", "stats"), 0),
        (("best",), 1),
        (("history", "--json"), 1),
        (("campaign", "status"), 1),
        (("show", "ffff"), 1),
        (("best", "--store", "nowhere.db"), 1),
        (("plan", "nowhere.py"), 1),
        (("best", "--limit", "none"), 2),
        (("best", "--chip", "z80"), 2),
        (("export",), 2),
        (("campaign", "check"), 2),
        (("nothing",), 2),
        (("verify", "kernel.json"), 2),
    ],
)
def test_exit_codes_tell_nothing_found_from_misuse(
    command_line: _CommandLine, arguments: tuple[str, ...], code: int
) -> None:
    Path("kernel.json").write_text("{}")
    done = command_line(*arguments)
    assert done.code == code, done.err
    assert "Traceback" not in done.err


def test_a_wrong_settings_file_is_one_sentence(command_line: _CommandLine) -> None:
    Path("kernelwright.toml").write_text("bugdet = 2\n")
    done = command_line("plan", "catalog:softmax")
    assert (done.code, done.out) == (1, "")
    assert "did you mean 'budget'?" in " ".join(done.err.split())
    assert command_line("--help").code == 0


def test_an_option_wins_over_the_settings(command_line: _CommandLine) -> None:
    Path("kernelwright.toml").write_text('chip = "m1"\n')
    assert command_line("best").code == 1
    assert command_line("best", "--chip", "z80").code == 2


def test_a_campaign_prints_only_json_on_standard_output(command_line: _CommandLine) -> None:
    Path("night.toml").write_text('[[functions]]\ntarget = "catalog:softmax:f32"\n')
    done = command_line("campaign", "check", "night.toml", "--json")
    assert done.code == 0, done.err
    (checked,) = json.loads(done.out)
    assert checked["tasks"] == 1


def _status(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["kernelwright", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_a_parent_may_close_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert _status(monkeypatch, "catalog") == 0
    sys.stdout.close()


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_what_an_ascii_terminal_lacks_is_replaced(
    monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", errors=errors))
    assert _status(monkeypatch, "show", "--help") == 0
    sys.stdout.write("5 µs\n")
    sys.stdout.flush()
    assert written.getvalue().endswith(b"5 ?s\n")
