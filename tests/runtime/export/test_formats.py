"""Every format carries the kernel whole, and says so when nobody verified it."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator import Status
from kernelwright.metal.render import render
from kernelwright.runtime.export import FORMATS, ExportedModule, FormatName, export_as
from kernelwright.store import CandidateDetail, Champion, Rank

Recorder = Callable[..., CandidateDetail]
X = mx.zeros((8, 64), mx.float16)


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_unverified_kernel_is_refused(recorded: Recorder, format_name: FormatName) -> None:
    with pytest.raises(InputError, match="expected a verified kernel, found one that is wrong"):
        export_as(format_name, [recorded(X, Status.WRONG)])


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_revoked_kernel_is_refused(recorded: Recorder, format_name: FormatName) -> None:
    with pytest.raises(InputError, match="found one that is revoked"):
        export_as(format_name, [_revoked(recorded(X))])


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_source_that_reads_as_another_is_refused_even_by_force(
    recorded: Recorder, format_name: FormatName
) -> None:
    detail = recorded(X)
    first, *others = detail.program.kernels
    turned = first.model_copy(update={"source": f"/* \u202e */{first.source}"})
    program = detail.program.model_copy(update={"kernels": (turned, *others)})
    with pytest.raises(InputError, match=r"found '\\u202e' in it, which leaves no mark"):
        export_as(format_name, [detail.model_copy(update={"program": program})], force=True)


def test_nothing_hides_in_an_exported_idea(recorded: Recorder) -> None:
    detail = recorded(X)
    hiding = detail.candidate.model_copy(update={"idea": "rows\u202e\u200b"})
    export = export_as("module", [detail.model_copy(update={"candidate": hiding})])
    assert "\u202e" not in "".join(file.text for file in export.files)


@pytest.mark.parametrize("format_name", FORMATS)
def test_by_force_the_files_say_so(recorded: Recorder, format_name: FormatName) -> None:
    export = export_as(format_name, [_revoked(recorded(X))], force=True)
    assert not export.is_verified
    assert "This kernel was revoked" in _text(export, "VERIFICATION.md")
    code = [f for f in export.files if f.name.endswith((".metal", ".mlxfn", ".swift", ".cpp"))]
    modules = [f for f in export.files if f.name.endswith("scaled_softmax.py")]
    for file in code or modules[:1]:
        assert b"NOT VERIFIED" in (file.data or file.text.encode()), file.name


@pytest.mark.parametrize("format_name", [n for n in FORMATS if not FORMATS[n].takes_several])
def test_a_format_for_one_kernel_refuses_two(recorded: Recorder, format_name: FormatName) -> None:
    detail = recorded(X)
    with pytest.raises(InputError, match="takes one kernel, found 2"):
        export_as(format_name, [detail, detail])


def test_metal_is_the_text_that_mlx_generates_with_its_launch(recorded: Recorder) -> None:
    detail = recorded(X)
    export = export_as("metal", [detail])
    bound = detail.program.bind(detail.graph.input_types)
    (launch,) = json.loads(_text(export, "launch.json"))["launches"]
    text = _text(export, "scaled_softmax.metal")
    assert text == render(bound.launches[0], bound).text
    assert f"{launch['function']}(" in text
    assert launch["grid_threads"] == list(bound.launches[0].grid)
    assert launch["threadgroup"] == list(bound.launches[0].threadgroup)
    assert launch["math_mode"] == detail.program.kernels[0].math_mode
    assert [b["index"] for b in launch["buffers"]] == list(range(len(launch["buffers"])))
    assert (launch["buffers"][0]["shape"], launch["buffers"][0]["dtype"]) == ([8, 64], "float16")
    assert [b["is_output"] for b in launch["buffers"]][-1]
    assert json.loads(_text(export, "program.json"))["format"] == "kernelwright.program/1"


def test_mlxfn_carries_the_text_and_the_launch(recorded: Recorder) -> None:
    detail = recorded(X)
    bound = detail.program.bind(detail.graph.input_types)
    export = export_as("mlxfn", [detail])
    data = next(f.data for f in export.files if f.name == "scaled_softmax.mlxfn")
    assert data is not None
    assert render(bound.launches[0], bound).text.encode() in data
    sizes = struct.pack("<6i", *bound.launches[0].grid, *bound.launches[0].threadgroup)
    assert sizes in data


def test_mlxfn_imports_where_mlx_has_a_gpu_and_says_so_elsewhere(
    recorded: Recorder, tmp_path: Path
) -> None:
    export_as("mlxfn", [recorded(X)]).write(tmp_path)
    path = str(tmp_path / "scaled_softmax.mlxfn")
    if not mx.is_available(mx.gpu):
        with pytest.raises(ValueError, match="without gpu backend"):
            mx.import_function(path)
        assert "MLX without a GPU refuses" in (tmp_path / "VERIFICATION.md").read_text()
        return
    # MLX's stubs do not tell the two results apart.
    _, metadata = cast("tuple[object, str]", mx.import_function(path, return_metadata=True))
    assert json.loads(metadata)["is_verified"]


def _text(export: ExportedModule, name: str) -> str:
    return next(file.text for file in export.files if file.name == name)


def _revoked(detail: CandidateDetail) -> CandidateDetail:
    champion = Champion(
        task=detail.candidate.task,
        candidate_id=detail.candidate.id,
        evaluation_id=detail.evaluations[0].id,
        device="simulator",
        chip="x86_64",
        freshness="revoked",
        rank=Rank(kind="predicted", value=1.0),
        status=Status.CORRECT,
        author="offline",
        idea="rows",
        crowned_at=detail.candidate.created_at,
    )
    return detail.model_copy(update={"champion_on": (champion,)})
