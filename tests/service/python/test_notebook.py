"""Notebooks: a search shows its progress below the cell, and the example runs as it stands."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

_EXAMPLE = Path(__file__).parents[3] / "examples" / "python.ipynb"
_TIMEOUT_S = 600
_SEARCH = """\
import asyncio, mlx.core as mx, kernelwright as kw
assert asyncio.get_running_loop().is_running()
def typed_here(x):
    return mx.softmax(x, axis=-1) * 2
kw.search(typed_here, inputs=["f32[4,32]"], candidates=1, device="simulator")
"""
_CELL: dict[str, object] = {
    "cell_type": "code",
    "id": "search",
    "metadata": {},
    "source": _SEARCH,
    "outputs": [],
    "execution_count": None,
}


def _read(content: dict[str, object]) -> nbformat.NotebookNode:
    made: nbformat.NotebookNode = nbformat.from_dict(content)  # type: ignore[no-untyped-call]
    return made


def _run(
    notebook: nbformat.NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, str]]:
    """Execute a notebook; return what each output shows, by kind."""
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(folder / "kernels.db"))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=_TIMEOUT_S, kernel_name="python3", resources=resources
    )
    client.execute()
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [dict(output.get("data", {"text": output.get("text", "")})) for output in outputs]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_search_in_a_cell_shows_its_progress_and_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = _read({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [_CELL]})
    progress, result = _run(notebook, tmp_path, monkeypatch)
    assert "search typed_here on simulator" in progress["text/html"]
    assert "1 candidate" in progress["text/html"]
    assert "✓" in progress["text/html"]
    assert "for 1 function, from 1 candidate" in result["text/html"]
    assert "search finished" in result["text/plain"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_example_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = _read(json.loads(_EXAMPLE.read_text()))
    for cell in notebook.cells:
        cell.outputs = [] if cell.cell_type == "code" else cell.get("outputs")
    shown = _run(notebook, tmp_path, monkeypatch)
    assert any("~" in output.get("text/html", "") for output in shown)
    assert any("image/svg+xml" in output for output in shown)


def test_the_example_notebook_stands_executed() -> None:
    notebook = _read(json.loads(_EXAMPLE.read_text()))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
