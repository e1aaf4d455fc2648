"""Where the seconds of a search go."""

import threading
from pathlib import Path

import pytest

from kernelwright.timeline import VARIABLE, Span, mark_start, read_spans, span, timeline_text


def test_nothing_is_written_where_nobody_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with span("work"):
        pass
    mark_start()
    assert not list(tmp_path.iterdir())


def test_spans_of_all_threads_are_read_back_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spans"
    monkeypatch.setenv(VARIABLE, str(path))

    def work() -> None:
        with span("beside"):
            pass

    with span("outer"), span("inner"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    with pytest.raises(ValueError, match="broken"), span("failed"):
        raise ValueError("broken")
    spans = read_spans(path)
    assert [(one.name, one.depth) for one in spans] == [
        *(("outer", 0), ("inner", 1), ("beside", 0), ("failed", 0))
    ]
    assert len({one.thread for one in spans}) == 2


def test_a_text_has_spans_from_the_first_ones_beginning_and_sums_by_name() -> None:
    spans = [
        Span("judge", 100.0, 104.0, 1, "a", 0),
        Span("run", 101.0, 102.5, 1, "a", 1),
        Span("run", 103.0, 103.1, 1, "a", 1),
        Span("draw", 101.0, 103.0, 2, "a", 0),
    ]
    lines = timeline_text(spans).splitlines()
    assert lines[1:4] == [
        "   0.0     4.0      4.0      1  judge",
        "   1.0     2.5      1.5      1    run",
        "   1.0     3.0      2.0      2  draw",
    ]
    assert "    1.6      2  run" in lines
    assert timeline_text([]) == "nothing was written down"
