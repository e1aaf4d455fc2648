"""Settings: which source wins, where each came from, and what a wrong file is told."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.metal.device.registry import default_device
from kernelwright.settings import DEFAULT, Settings, current_settings, origins
from kernelwright.store.location import default_url
from kernelwright.variable import SETTINGS, are_kernels_off, variable_of


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"KERNELWRIGHT_{name.upper()}", raising=False)
    folder = tmp_path / "project" / "part"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder.parent


def test_without_a_file_every_setting_is_its_default() -> None:
    assert all(o.source == DEFAULT and o.value is None for o in origins())


def test_the_nearest_folder_upwards_counts(project: Path) -> None:
    (project / "kernelwright.toml").write_text('device = "metal"\nmodel = "anthropic:a"\n')
    assert current_settings().device == "metal"
    assert current_settings().model == ("anthropic:a",)
    (project / "part" / "pyproject.toml").write_text('[tool.kernelwright]\ndevice = "cuda"\n')
    assert current_settings().device == "cuda"
    assert current_settings().model is None


def test_a_project_file_without_the_table_is_passed_over(project: Path) -> None:
    (project / "kernelwright.toml").write_text("budget = 2.5\n")
    (project / "part" / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert current_settings().budget == 2.5


def test_a_file_that_cannot_hold_settings_is_an_error(project: Path) -> None:
    (project / "part" / "pyproject.toml").write_text("[tool]\nkernelwright = 3\n")
    with pytest.raises(InputError, match=r"\[tool.kernelwright\] in .* to be a table, found 3"):
        current_settings()
    (project / "part" / "kernelwright.toml").mkdir()
    with pytest.raises(InputError, match=r"kernelwright.toml cannot be read: Is a directory"):
        current_settings()


def test_the_environment_wins_over_the_file_and_an_empty_variable_says_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "kernelwright.toml").write_text('device = "metal"\njobs = 3\n')
    monkeypatch.setenv("KERNELWRIGHT_DEVICE", "simulator")
    monkeypatch.setenv("KERNELWRIGHT_JOBS", "")
    monkeypatch.setenv("KERNELWRIGHT_MODEL", "anthropic:a, openai:b")
    found = {o.name: (o.value, o.source) for o in origins()}
    assert found["device"] == ("simulator", "KERNELWRIGHT_DEVICE")
    assert found["jobs"] == (3, str(project / "kernelwright.toml"))
    assert found["model"] == (("anthropic:a", "openai:b"), "KERNELWRIGHT_MODEL")
    assert found["budget"] == (None, DEFAULT)


def test_a_store_of_the_file_lies_beside_it_and_serves_whoever_opens_one(project: Path) -> None:
    (project / "kernelwright.toml").write_text('store = "kernels/mine.db"\n')
    assert default_url() == f"sqlite:///{project}/kernels/mine.db"


def test_the_device_of_the_file_is_the_default_one(project: Path) -> None:
    (project / "kernelwright.toml").write_text('device = "metal"\n')
    assert default_device() == "metal"


def test_a_changed_file_is_read_again(project: Path) -> None:
    file = project / "kernelwright.toml"
    file.write_text("jobs = 1\n")
    assert current_settings().jobs == 1
    file.unlink()
    assert current_settings().jobs is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('devcie = "metal"\n', r"sets 'devcie', which is no setting; did you mean 'device'\?"),
        ('colour = "red"\n', r"sets 'colour', which is no setting; known are store, device"),
        ('device = "gpu"\n', r"expected device in .*kernelwright\.toml to be .*, found 'gpu'"),
        ("jobs = 0\n", r"expected jobs in .* greater than or equal to 1, found 0"),
        ("jobs = = 1\n", r"kernelwright\.toml is no TOML"),
        ('chip = "m99"\n', r"expected chip in .*kernelwright\.toml to be one of m1.*, found 'm99'"),
        ('threadgroup_memory = "lots"\n', r"expected threadgroup_memory in .* a size such as 96K"),
        ('model = "gpt"\n', r"expected model in .* to be a provider and a model.*'gpt'\.$"),
        ("model = 3\n", r"expected model in .* to be a text or a list of texts, found 3"),
        ('store = ""\n', r"expected store in .* to be of at least 1 character, found ''"),
    ],
)
def test_a_wrong_file_is_answered_in_one_sentence(project: Path, text: str, sentence: str) -> None:
    (project / "kernelwright.toml").write_text(text)
    with pytest.raises(InputError, match=sentence) as error:
        current_settings()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["kernelwright.toml", "pyproject.toml"])
def test_a_file_that_is_no_text_is_answered_in_one_sentence(project: Path, name: str) -> None:
    (project / name).write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=rf"{name} is no TOML: 'utf-8' codec"):
        current_settings()


def test_a_project_may_ask_no_model(project: Path) -> None:
    (project / "kernelwright.toml").write_text('model = "none"\n')
    assert current_settings().model == ("none",)


def test_a_wrong_variable_is_answered_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_BUDGET", "much")
    with pytest.raises(InputError, match=r"expected KERNELWRIGHT_BUDGET to be .*, found 'much'"):
        current_settings()


@pytest.mark.parametrize("name", ["chip", "threadgroup_memory", "model", "jobs", "device"])
def test_every_wrong_variable_is_answered_by_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable_of(name), "m99")
    with pytest.raises(InputError, match=rf"expected KERNELWRIGHT_{name.upper()} to be .*'m99'"):
        current_settings()


def test_a_misspelt_variable_is_named_with_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_STROE", "x.db")
    with pytest.raises(InputError, match=r"KERNELWRIGHT_STROE.*did you mean KERNELWRIGHT_STORE"):
        current_settings()
    monkeypatch.delenv("KERNELWRIGHT_STROE")
    monkeypatch.setenv("KERNELWRIGHT_OF_MY_OWN_SCRIPT", "x")
    assert current_settings().store is None


@pytest.mark.parametrize(
    ("value", "is_off"), [("off", True), ("0", True), ("False", True), ("on", False), ("", False)]
)
def test_one_variable_turns_kernels_off(
    monkeypatch: pytest.MonkeyPatch, value: str, is_off: bool
) -> None:
    monkeypatch.setenv("KERNELWRIGHT", value)
    assert are_kernels_off() == is_off


def test_a_switch_that_is_misspelt_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT", "of")
    with pytest.raises(InputError, match="expected KERNELWRIGHT to be off or on, found 'of'"):
        are_kernels_off()


def test_every_setting_has_a_variable() -> None:
    assert tuple(Settings.model_fields) == SETTINGS
