"""Each snippet of docs/python.md runs, in the order in which it stands there."""

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "python.md"
_SNIPPET = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def test_every_snippet_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "kernels.db"))
    monkeypatch.chdir(tmp_path)
    page = _PAGE.read_text()
    # One file with the page's line numbers: @kernelwright.kernel reads its function's source.
    lines = [""] * page.count("\n")
    for snippet in _SNIPPET.finditer(page):
        first = page.count("\n", 0, snippet.start(1))
        written = snippet[1].splitlines()
        lines[first : first + len(written)] = written
    file = tmp_path / "page.py"
    file.write_text("\n".join(lines))
    space: dict[str, object] = {"__name__": "page", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    printed = capsys.readouterr().out
    assert "('x: f32[16,256]', 'y: f32[16,256]') ('f32[16,256]',)" in printed
    assert "wrong False" in printed
    assert "rows(f32[16,256]): 1 of 1 regions run kernels" in printed
    assert (tmp_path / "times.svg").is_file()
    assert (tmp_path / "plan.svg").is_file()
    assert list((tmp_path / "vendored").glob("*.py"))
