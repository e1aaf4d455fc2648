"""One frame of `campaign watch`: how a run stands, at any width of the terminal."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kernelwright.agents.cap_text import in_dollars
from kernelwright.campaign.report.live_status import LiveStatus, LiveTask, UnderWay
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.evaluator.gain import Gain
from kernelwright.plural import counted
from kernelwright.service.view.figure import MLX_IS_BEST, ranked, short

_NARROW = 76
"""Columns below which bars and champions are left out."""
_BAR = 14
_LONGEST_NAME = 30
_FRAME_LINES = 12
"""What a frame shows besides its tasks and lists."""
_TALL = 28
"""Lines from which several candidates are listed rather than one."""
_STATES = {"running": "good", "paused": "warn", "finished": "good", "dead": "bad", "failed": "bad"}


def frame(status: LiveStatus, *, width: int, height: int) -> RenderableType:
    """Draw a run so that nothing wraps."""
    listed = 3 if height >= _TALL else 1
    foot = [*_failed(status), *_work(status, listed), *_spent(status)]
    room = max(3, height - _FRAME_LINES - 2 * listed - bool(status.used.unbilled_calls))
    return Group(
        _cut(_head(status), width),
        _cut(_progress(status, width), width),
        Text(),
        _tasks(status, width, room),
        Text(),
        *(_cut(line, width) for line in foot),
    )


def _head(status: LiveStatus) -> Text:
    runs = f", run {status.runs}" if status.runs > 1 else ""
    head = Text.assemble(
        (f"{status.name} ", "title"),
        (short(status.id), "id"),
        " ",
        (status.state, _STATES.get(status.state, "warn")),
        (f" on {status.device} ({status.chip}){runs}", "quiet"),
    )
    if status.reason:
        head.append(f": {status.reason}", style="quiet")
    return head


def _progress(status: LiveStatus, width: int) -> Text:
    tried = sum(task.tried for task in status.tasks)
    right = sum(task.right for task in status.tasks)
    most = sum(task.tried if task.reason else max(task.limit, task.tried) for task in status.tasks)
    open_ = sum(not task.reason for task in status.tasks)
    words = Text.assemble((f"  {tried} of at most {counted(most, 'candidate')}", "figure"))
    if width >= _NARROW:
        words.append(f"  {open_} of {counted(len(status.tasks), 'task')} open", style="quiet")
    return Text.assemble(_bar(right, tried, most, max(8, min(40, width - words.cell_len))), words)


def _bar(right: int, tried: int, most: int, cells: int) -> Text:
    """Draw right ones as a line, failed ones as dashes, what is left thinly."""
    full = cells * right // most if most else 0
    failed = cells * tried // most - full if most else 0
    return Text.assemble(
        ("━" * full, "good"), ("╍" * failed, "bad"), ("─" * (cells - full - failed), "quiet")
    )


def _tasks(status: LiveStatus, width: int, room: int) -> Table:
    """Give every column its width, so that no terminal squeezes the figures out."""
    narrow = width < _NARROW
    gap = 1 if narrow else 2
    fixed = (1, 5, 5, 9) if narrow else (1, _BAR, 5, 5, 9, 8)
    left = width - sum(fixed) - gap * len(fixed)
    labels = _labels(status.tasks)
    names = min(_LONGEST_NAME, max(map(len, labels.values()), default=4))
    gains = _gains(status.tasks, left - names - gap)
    told = max((len(text) for text in gains.values()), default=4)
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="label")
    heads = {"": 1, "task": min(names, left - told - gap), " ": _BAR, "tried": 5, "right": 5,
             "best": 9, "champion": 8, "gain": told}  # fmt: skip
    for head, columns in heads.items():
        if not (narrow and head in (" ", "champion")):
            _column(table, head, columns)
    shown = _shown(status.tasks, room)
    for task in shown:
        mark = _mark(task, is_over=status.is_over)
        name = Text(labels[task.task.id], style="task")
        table.add_row(mark, name, *_cells(task, gains[task.task.id], narrow=narrow))
    if hidden := len(status.tasks) - len(shown):
        table.add_row("", Text(f"and {counted(hidden, 'more task')}", style="quiet"))
    return table


def _labels(tasks: Sequence[LiveTask]) -> dict[str, str]:
    """Name each task, with its inputs first where another task has the same name."""
    uses = Counter(t.task.name for t in tasks)
    return {
        t.task.id: t.task.name if uses[t.task.name] == 1 else f"{t.task.shapes} {t.task.name}"
        for t in tasks
    }


def _cells(task: LiveTask, gain: Text, *, narrow: bool) -> list[Text]:
    most = task.tried if task.reason else task.limit
    champion = Text(short(task.champion.candidate_id) if task.champion else "", style="id")
    return [
        *([] if narrow else [_bar(task.right, task.tried, most, _BAR)]),
        Text(str(task.tried)),
        Text(str(task.right), style="good" if task.right else "quiet"),
        Text(ranked(task.best) if task.best else "", style="figure"),
        *([] if narrow else [champion]),
        gain,
    ]


def _shown(tasks: Sequence[LiveTask], room: int) -> list[LiveTask]:
    """Keep what moves, then what won, in the order of the plan."""
    if len(tasks) <= room:
        return list(tasks)
    moving = sorted(tasks, key=lambda t: (bool(t.reason), t.champion is None))
    kept = {task.task.id for task in moving[: room - 1]}
    return [task for task in tasks if task.task.id in kept]


def _mark(task: LiveTask, *, is_over: bool) -> Text:
    if task.under_way and not is_over:
        return Text("▶", style="title")
    if task.reason:
        return Text("✓", style="good") if task.champion else Text("–", style="quiet")
    return Text("·", style="quiet")


def _gains(tasks: Sequence[LiveTask], room: int) -> dict[str, Text]:
    """Tell every gain in full, with its interval or as a ratio, whatever fits for all."""
    forms = (lambda g: g.words, lambda g: g.with_interval, lambda g: g.times)
    for form in forms:
        told = {t.task.id: _told(t.gain, form) for t in tasks}
        if max(map(len, told.values()), default=0) <= room:
            break
    return told


def _told(gain: Gain | None, form: Callable[[Gain], str]) -> Text:
    if gain is None:
        return Text()
    if not gain.beats_mlx:
        return Text(MLX_IS_BEST, style="quiet")
    return Text(form(gain), style="good")


def _column(table: Table, head: str, width: int) -> None:
    width = max(width, len(head.strip()), 1)
    table.add_column(
        head,
        width=width,
        min_width=width,
        no_wrap=True,
        overflow="ellipsis",
        justify="right" if head in ("tried", "right", "best") else "left",
    )


def _failed(status: LiveStatus) -> Iterator[Text]:
    kinds = status.failures.most_common()
    words = ", ".join(f"{count} {kind.value.replace('_', ' ')}" for kind, count in kinds)
    yield _line("failed", words or "nothing", "bad" if words else "quiet")


def _work(status: LiveStatus, listed: int) -> Iterator[Text]:
    """Say what runs, which candidates wait, and which tasks have not begun."""
    if status.state == "finished":
        yield _advice(status)
        return
    now = [*map(_words, status.now), *(Text(f"asking {model}") for model in status.asked)]
    if not now and status.state == "paused":
        now = [Text("holds still; it goes on with: kernelwright campaign resume")]
    label = "cut off" if status.is_over and now else "now"
    yield from _list(label, now or [Text("nothing", style="quiet")], listed)
    if status.is_over:
        yield _advice(status)
        return
    following = [_words(work) for work in status.next]
    unbegun = [t.task.name for t in status.tasks if not (t.tried or t.under_way or t.waiting)]
    if unbegun:
        following = [*following[: listed - 1], Text(f"then {', '.join(unbegun)}")]
    idle = Text("what its team proposes", style="quiet")
    yield from _list("next", following or [idle], listed)


def _advice(status: LiveStatus) -> Text:
    command = f"kernelwright campaign resume {short(status.id)}"
    if status.state == "finished":
        command = f"kernelwright report {short(status.id)} --html report.html"
    return _line("next", command, "command")


def _spent(status: LiveStatus) -> Iterator[Text]:
    used, limits = status.used, status.limits
    time = in_seconds(used.seconds) + _of(limits.seconds and in_seconds(limits.seconds))
    if not status.is_over and status.left_s is not None:
        time += f"; at most {in_seconds(status.left_s)} left at this pace"
    yield _line("time", time)
    yield _line("judged", _counted(used.evaluations, limits.evaluations, "evaluation"))
    if not used.calls:
        yield _line("spent", "$0.00, no model was asked", "quiet")
        return
    dollars = limits.dollars is not None and in_dollars(limits.dollars)
    paid = f"{in_dollars(used.known_dollars)}{_of(dollars)}"
    yield _line(
        "spent",
        f"{paid}, {_counted(used.calls, limits.calls, 'call')}, "
        f"{used.known_tokens:,}{_of(limits.tokens and f'{limits.tokens:,}')} tokens",
    )
    if used.unbilled_calls:
        # On a line of its own: with the figures above it is too long for most terminals.
        yield _line(
            "",
            f"at most {in_dollars(used.dollars - used.known_dollars)} and "
            f"{used.tokens - used.known_tokens:,} tokens more, for "
            f"{counted(used.unbilled_calls, 'call')} cut off",
            "quiet",
        )


def _words(work: UnderWay) -> Text:
    verb = "confirming " if work.state == "confirming" else ""
    return Text.assemble(
        (short(work.candidate_id), "id"), f" {verb}{work.task}  ", (work.idea, "quiet")
    )


def _counted(count: int, limit: int | None, word: str) -> str:
    """Say how many of so many at the most, as `1 evaluation` and `1 of 9 evaluations`."""
    return counted(count, word) if limit is None else f"{count} of {counted(limit, word)}"


def _of(limit: object) -> str:
    return f" of {limit}" if limit else ""


def _list(label: str, lines: Sequence[Text], most: int) -> Iterator[Text]:
    for line in lines[:most]:
        yield Text.assemble((f"{label:<8}", "label"), line)
        label = ""
    if (rest := len(lines) - most) > 0:
        yield _line("", f"and {rest} more", "quiet")


def _line(label: str, words: str, style: str = "") -> Text:
    return Text.assemble((f"{label:<8}", "label"), (words, style))


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line
