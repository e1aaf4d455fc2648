"""A night's file is read strictly, and means the searches that it says."""

import re
from pathlib import Path

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.session import Price
from kernelwright.campaign.spec.campaign_file import read_campaign_file, template
from kernelwright.campaign.spec.campaign_functions import load_functions
from kernelwright.campaign.spec.campaign_spec import CampaignSpec
from kernelwright.errors import InputError

_SOFTMAX = '[[functions]]\ntarget = "catalog:softmax"\n'


def test_the_template_is_called_as_its_file_is(tmp_path: Path) -> None:
    text = template(Path("weekend.toml"))
    (spec,) = _read(tmp_path, text)
    assert spec.name == "weekend"
    assert "nightly" not in text


def test_the_template_is_a_night_by_itself(tmp_path: Path) -> None:
    (spec,) = _read(tmp_path, template())
    assert (spec.name, spec.device, spec.seconds) == ("nightly", "simulator", 8 * 3600)
    assert [s.name for found in load_functions(spec).values() for s in found] == ["softmax"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            _SOFTMAX + '[caps]\nhours = "x"',
            r"nightly\.toml, line 4: \[caps\] hours should be a number, found 'x'",
        ),
        (_SOFTMAX + "[caps]\ndollars = -1", r"\[caps\] dollars should be greater than.*found -1"),
        (
            _SOFTMAX + "[task_caps]\ncalls = 0",
            r"\[task_caps\] calls should be greater than.*found 0",
        ),
        (_SOFTMAX + '[prices]\n"openai:x" = 3', r"\[prices\]: openai:x = 3 is no price"),
        (_SOFTMAX + "[cap]\nhours = 1", r"line 3: \[cap\] is no key"),
        (_SOFTMAX + "[[functions]]\npriority = 2", r"line 3: .*number 2 target is missing"),
        (_SOFTMAX + "prio = 1", r"line 3: \[\[functions\]\] number 1 prio is no key"),
        (
            _SOFTMAX + '[campaign]\ndevices = ["gpu"]',
            r"\[campaign\] devices should be .*found 'gpu'",
        ),
        (
            _SOFTMAX + '[campaign]\ndevices = ["metal", "cuda"]\nthreadgroup_memory = "96K"',
            r"line 5: \[campaign\] threadgroup_memory: expected 32 KB .* metal.*found 96 KB; leave",
        ),
        (
            _SOFTMAX + '[campaign]\nthreadgroup_memory = "much"',
            r"line 4: \[campaign\] threadgroup_memory: .*expected a size such as 96K.*found 'much'",
        ),
        (
            _SOFTMAX + '[campaign]\ndevices = ["metal", "cuda"]\nchips = ["Apple M2"]',
            r"\[campaign\] chips: .*chips belong to one device, and there are 2.*",
        ),
        (
            _SOFTMAX + "[caps]\nhours = inf",
            r"line 4: \[caps\] hours should be a number up to 1e\+12, found inf\.",
        ),
        (_SOFTMAX + "[caps]\nhours = 1e300", r"\[caps\] hours should be .*found 1e\+300"),
        (_SOFTMAX + "[caps]\ndollars = nan", r"\[caps\] dollars should be .*found nan"),
        (_SOFTMAX + "[tools]\nturns = 1" + "0" * 40, r"\[tools\] turns should be a number up to"),
        (_SOFTMAX + "priority = inf", r"line 3: \[\[functions\]\] number 1 priority should be"),
        (
            _SOFTMAX + "[campaign]\ncandidates = '4'",
            r"\[campaign\] candidates should be a whole number, found '4'\.",
        ),
        (_SOFTMAX + "[campaign]\ncandidates = true", r"should be a whole number, found True\."),
        (_SOFTMAX + "[caps]\nhours = true", r"\[caps\] hours should be a number, found True\."),
        (
            _SOFTMAX + "[campaign]\njobs = 1000000",
            r"\[campaign\] jobs should be less than or equal to",
        ),
        (
            _SOFTMAX + f'[campaign]\nname = "{"x" * 5000}"',
            r"of at most 200 characters, found 'x{39}…x{39}'\.$",
        ),
        (_SOFTMAX + f"x = {'[' * 3000}{']' * 3000}", "are nested too deeply"),
        ("[campaign]", r"\[\[functions\]\] is missing, and so is \[wanted\]"),
        ("\n[campaign\n", r"is no TOML: .*at line 2, column 10"),
    ],
)
def test_a_bad_field_gets_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        _read(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("found") <= 1


def test_a_size_may_be_a_number_and_a_file_may_begin_with_a_mark(tmp_path: Path) -> None:
    (spec,) = _read(tmp_path, "\ufeff" + _SOFTMAX + "[campaign]\nthreadgroup_memory = 65536")
    assert spec.threadgroup_bytes == 65536


@pytest.mark.parametrize("target", ["absent.py:f", "here.py:g"])
def test_a_wrong_target_is_named_with_its_line(tmp_path: Path, target: str) -> None:
    (tmp_path / "here.py").write_text("def f(x):\n    return x\n")
    path = tmp_path / "night.toml"
    listed = ("catalog:softmax", target)
    path.write_text("".join(f'[[functions]]\ntarget = "{t}"\n\n' for t in listed))
    (spec,) = read_campaign_file(path)
    with pytest.raises(InputError, match=rf"^{re.escape(str(path))}, line 5: .*{target[-4:-2]}"):
        load_functions(spec)


@pytest.mark.parametrize("line", ['ask = ["anthropic:"]', 'ask = ["gpt"]', 'base_url = "here"'])
def test_a_wrong_model_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "night.toml"
    path.write_text(f'[[functions]]\ntarget = "catalog:softmax"\n\n[models]\n{line}\n')
    with pytest.raises(InputError, match=r"night\.toml, line 5: \[models\] .*expected a .*found"):
        read_campaign_file(path)


def test_each_chip_gets_a_search_and_its_share_of_the_caps(tmp_path: Path) -> None:
    text = 'devices = ["metal"]\nchips = ["Apple M4 Pro", "Apple M2"]\n[caps]\nevaluations = 10'
    first, second = _read(tmp_path, f"{_SOFTMAX}[campaign]\n{text}")
    assert [(s.device, s.chip, s.evaluations) for s in (first, second)] == [
        ("metal", "Apple M4 Pro", 5),
        ("metal", "Apple M2", 5),
    ]
    assert second.to_the_end() == (second,)


def test_devices_share_the_caps(tmp_path: Path) -> None:
    text = '[campaign]\ndevices = ["metal", "simulator"]\n[caps]\ndollars = 3.0\nhours = 2.0\n'
    specs = _read(tmp_path, text + "evaluations = 9\n" + _SOFTMAX)
    assert [s.device for s in specs] == ["metal", "simulator"]
    assert specs[1].to_the_end() == specs[1:]
    assert {(s.caps.dollars, s.seconds, s.evaluations) for s in specs} == {(1.5, 3600.0, 4)}


def test_devices_share_what_a_task_may_take_and_know_the_same_prices(tmp_path: Path) -> None:
    text = '[campaign]\ndevices = ["metal", "simulator"]\n[task_caps]\ndollars = 0.5\ncalls = 7\n'
    text += 'minutes = 4\n[prices]\n"openai:new" = { input = 1.0, output = 2.0 }\n'
    for spec in _read(tmp_path, text + _SOFTMAX):
        assert spec.task_caps == Caps(dollars=0.25, calls=3, seconds=120.0)
        assert spec.prices == {"openai:new": Price(input=1.0, output=2.0)}


def test_a_night_survives_the_store(tmp_path: Path) -> None:
    (spec,) = _read(tmp_path, template())
    assert CampaignSpec.model_validate_json(spec.model_dump_json()) == spec


def _read(folder: Path, text: str) -> tuple[CampaignSpec, ...]:
    path = folder / "nightly.toml"
    path.write_text(text)
    return read_campaign_file(path)


def test_a_night_lifts_the_limit_of_threadgroup_memory_on_all_its_devices(tmp_path: Path) -> None:
    text = '[campaign]\ndevices = ["cuda", "simulator"]\nthreadgroup_memory = "96K"\n'
    assert [s.threadgroup_bytes for s in _read(tmp_path, text + _SOFTMAX)] == [98304, 98304]
    assert {s.threadgroup_bytes for s in _read(tmp_path, _SOFTMAX)} == {32768}
