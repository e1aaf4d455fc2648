"""How each kind of build is made: by one call of clang, or by way of a rewritten listing."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.metal.device.simulator.branches.watch import Site, watch
from kernelwright.metal.device.simulator.copy_alignment import (
    may_copy_misaligned,
    with_copy_questions,
)
from kernelwright.metal.device.simulator.fold import is_spoilt, may_be_spoilt
from kernelwright.metal.device.simulator.instance import (
    may_wait,
    with_instances,
    with_own_instances,
)
from kernelwright.metal.device.simulator.joined import with_joined_parts
from kernelwright.metal.device.simulator.metered import metered
from kernelwright.metal.device.simulator.path import may_part, with_inline_paths, with_paths
from kernelwright.metal.device.simulator.sound_arithmetic import (
    may_lack_value,
    with_sound_arithmetic,
)
from kernelwright.metal.device.simulator.toolchain import (
    COUNTING_FLAGS,
    INSTRUMENTING_FLAGS,
    JOINED_FLAGS,
    METERED_FLAGS,
    NARROW_FLAGS,
    OPTIMISING_FLAGS,
    PLACED_FLAGS,
    SCALAR_FLAGS,
    SETTLED_FLAGS,
    WATCHED_WHOLE_FLAGS,
    WIDENED_FLAGS,
    Variant,
    run,
    target_flags,
)
from kernelwright.metal.device.simulator.unit import Unit
from kernelwright.metal.device.simulator.unmarked import may_lack_marks, with_missing_marks
from kernelwright.metal.device.simulator.wide.marked import (
    prepare,
    without_own_marks,
    without_promises,
)
from kernelwright.metal.device.simulator.wide.widen import has_narrow_regions, widen

Command = Callable[[Sequence[str], Path, Path], tuple[int, str]]
"""Compiles a source to an object by a call of clang; returns its status and what it said."""
SECOND_TIMEOUT_S = 20.0
"""Of processor time, for a text that has been compiled once."""
WATCHED_FLAGS = ("-O1", "-fno-vectorize", "-fno-slp-vectorize", "-fPIC", "-ffunction-sections")
"""Of the second half of a watching build."""
SEEN_FLAGS = (*WATCHED_FLAGS, "-fno-unroll-loops", *WATCHED_WHOLE_FLAGS, "-ffp-contract=on")
"""Of the part of its first half that starts from a listing."""
_MOST_TURNS = 4
_ARRAY = " = alloca ["
_NOT_READ = "; not widened: all kernels: clang did not compile the widened text in time\n"
FINISHED_FLAGS = (
    *("-Xclang", "-disable-llvm-passes", "-fPIC", "-ffunction-sections"),
    *("-mllvm", "-trap-unreachable", "-Wno-pass-failed", *PLACED_FLAGS),
)
"""Of the second half of a build whose listing is optimised already."""
_TRAPS = ("-mllvm", "-trap-unreachable")
_PACKED = re.compile(r"\bpacked\b|#\s*pragma\s+pack\b")
_UNASKED = ("-fno-sanitize=alignment",)
"""Of texts with packed structs: their members may lie anywhere, and vectors are classes here, whose
functions know of no struct around them."""
_DESCRIPTION = re.compile(r".+_(?:shape|strides|ndim)")


def command_of(variant: Variant) -> Command:
    """Return how a kind of build is made, but for those that watch branches."""
    return _COMMANDS.get(variant, _compile)


def _listed(command: Sequence[str], source: Path, listing: Path) -> list[str]:
    """Return the call that writes a source's listing."""
    return [*command, "-S", "-emit-llvm", str(source), "-o", str(listing)]


def _with_all_paths(raw: str) -> str:
    return with_paths(raw, barriers=True)


def _questioned(
    command: Sequence[str],
    source: Path,
    listing: Path,
    told: Callable[[str], str] = _with_all_paths,
) -> tuple[int, str]:
    """Write the listing of a sanitizing or vetting build, as `_raw` does and instrumented."""
    text = source.read_text()
    if not (_asks(text) or may_wait(text) or may_lack_value(text)):
        return run(_listed((*command, *_unasked(text)), source, listing))
    return _then(_raw(command, source, listing, told), _relisted(listing, INSTRUMENTING_FLAGS))


def _raw(
    command: Sequence[str], source: Path, listing: Path, told: Callable[[str], str]
) -> tuple[int, str]:
    """Write a listing that is not optimised, whose waits tell how threads have come to them.

    Copies of aggregates are asked in it whether they are aligned.
    """
    text = source.read_text()
    front = (*command, *_unasked(text))
    asked = with_copy_questions if _asks(text) else str
    return _front(front, source, listing, lambda raw: told(asked(raw)))


def _front(
    command: Sequence[str], source: Path, listing: Path, rewritten: Callable[[str], str]
) -> tuple[int, str]:
    """Write a listing that is not optimised, rewritten, whose arithmetic all has a value."""
    front = (*command, "-Xclang", "-disable-llvm-passes")
    status, said = run(_listed(front, source, listing))
    if status == 0:
        raw = listing.read_text()
        sound = with_sound_arithmetic(raw) if may_lack_value(source.read_text()) else raw
        listing.write_text(rewritten(sound))
    return status, said


def _then(front: tuple[int, str], command: Sequence[str]) -> tuple[int, str]:
    """Run what works on a listing, if its front end wrote it."""
    status, said = front
    if status != 0:
        return status, said
    status, failure = run(command)
    return status, said + failure


def _parting(
    command: Sequence[str],
    source: Path,
    listing: Path,
    told: Callable[[str], str],
    flags: Sequence[str],
) -> tuple[int, str]:
    """Write a listing that tells how threads have come to operations, where they may part."""
    if not _is_told(source):
        return run(_listed(command, source, listing))
    return _then(_front(command, source, listing, told), _relisted(listing, flags))


def _is_told(source: Path) -> bool:
    """Say whether a plain or counting build goes by way of the front end's listing."""
    text = source.read_text()
    return may_part(text) or may_lack_value(text)


def _with_operation_paths(raw: str) -> str:
    return with_paths(raw, barriers=False)


def _with_inline_paths(raw: str) -> str:
    return with_inline_paths(with_paths(raw, barriers=False), is_linux=sys.platform == "linux")


def _optimised(command: Sequence[str], source: Path, listing: Path) -> tuple[int, str]:
    """Write the listing of a plain build."""
    return _parting(command, source, listing, _with_inline_paths, OPTIMISING_FLAGS)


def _asks(text: str) -> bool:
    return may_copy_misaligned(text) and not _PACKED.search(text)


def _unasked(text: str) -> tuple[str, ...]:
    return _UNASKED if _PACKED.search(text) else ()


def _relisted(listing: Path, options: Sequence[str]) -> list[str]:
    """Return the call that optimises a listing in its place."""
    command = ["clang", "-x", "ir", *target_flags(), *options]
    return _listed(command, listing, listing)


def _from_listing(listing: Path, options: Sequence[str], built: Path) -> list[str]:
    """Return the call that compiles a listing."""
    return ["clang", "-x", "ir", *target_flags(), *options, "-c", str(listing), "-o", str(built)]


def _without_entries(listing: Path, built: Path) -> tuple[int, str]:
    """Make an object without kernels, and leave the reason in the listing's place."""
    listing.write_text("")
    status, said = run(_from_listing(listing, WIDENED_FLAGS, built))
    listing.write_text(_NOT_READ)
    return status, said


def _compile(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    return run([*command, "-c", str(source), "-o", str(built)])


def _plain(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    """Compile, and again without vectors where clang has made wrong ones."""
    status, said = _compile_paths(command, source, built)
    if status == 0 and may_be_spoilt(built.read_bytes()):
        listing = source.with_suffix(".ll")
        _optimised(command, source, listing)
        if is_spoilt(listing.read_text()):
            return _compile_paths(command, source, built, SCALAR_FLAGS)
    return status, said


def _compile_paths(
    command: Sequence[str], source: Path, built: Path, options: Sequence[str] = ()
) -> tuple[int, str]:
    """Compile; where lanes may part, by way of a listing that tells how they have come there."""
    if not _is_told(source):
        return _compile([*command, *options], source, built)
    listing = source.with_suffix(".ll")
    front = _front(command, source, listing, _with_inline_paths)
    return _then(front, _from_listing(listing, (*OPTIMISING_FLAGS, *options), built))


def _sanitized(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    """Compile; by way of the listing where that shows what clang itself does not tell."""
    text = source.read_text()
    is_told = may_copy_misaligned(text) or may_wait(text) or may_lack_value(text)
    if not (may_lack_marks(text) or is_told):
        return _compile(command, source, built)
    if may_lack_marks(text):
        return _instrumented(command, source, built, lists=_questioned)
    listing = source.with_suffix(".ll")
    front = _raw(command, source, listing, _with_all_paths)
    return _then(front, _from_listing(listing, (*INSTRUMENTING_FLAGS, *_TRAPS), built))


def _instrumented(
    command: Sequence[str],
    source: Path,
    built: Path,
    lists: Command = lambda command, source, listing: run(_listed(command, source, listing)),
    marks: Callable[[str], str] = with_missing_marks,
) -> tuple[int, str]:
    """Compile by way of the listing, which stays beside the source as clang made it."""
    listing, marked = source.with_suffix(".ll"), source.with_suffix(".marked.ll")
    status, said = lists(command, source, listing)
    if status != 0:
        return status, said
    marked.write_text(marks(listing.read_text()))
    level = next(f for f in command if f in ("-O1", "-O2"))
    status, failure = run(_from_listing(marked, (level, *FINISHED_FLAGS), built))
    return status, said + failure


def _counted(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    def marks(listing: str) -> str:
        return with_joined_parts(with_missing_marks(listing))

    return _instrumented(command, source, built, lists=_counting, marks=marks)


def _counting(command: Sequence[str], source: Path, listing: Path) -> tuple[int, str]:
    """Write the listing of a counting build."""
    return _parting(command, source, listing, _with_operation_paths, COUNTING_FLAGS)


def _whole(
    command: Sequence[str], source: Path, listing: Path, flags: Sequence[str]
) -> tuple[int, str]:
    """Write the listing of a build for which all that a kernel calls becomes part of it."""
    if not may_lack_value(source.read_text()):
        return run(_listed(command, source, listing), timeout_s=SECOND_TIMEOUT_S)
    return _then(_front(command, source, listing, str), _relisted(listing, flags))


def _wide(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    """Compile by way of the listing, cut where threads wait.

    What fails here has been compiled before in the plain way, which then goes on to serve.
    """
    listing = source.with_suffix(".ll")
    if _whole(command, source, listing, SETTLED_FLAGS)[0] == 0:
        if _ARRAY in listing.read_text():
            run(_relisted(listing, SETTLED_FLAGS), timeout_s=SECOND_TIMEOUT_S)
        widened = widen(listing.read_text())
        listing.write_text(widened)
        flags = NARROW_FLAGS if has_narrow_regions(widened) else WIDENED_FLAGS
        if run(_from_listing(listing, flags, built), timeout_s=SECOND_TIMEOUT_S)[0] == 0:
            return 0, ""
    return _without_entries(listing, built)


def compile_vetting(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    """Compile the sanitizing build's listing with what each access is asked in its place.

    The listing is optimised a second time, once all that a kernel calls is part of it, and again
    while that shows more accesses to be a thread's own business.
    """
    listing = source.with_suffix(".ll")
    middle = _relisted(listing, JOINED_FLAGS)
    if _questioned(command, source, listing, with_instances)[0] == 0:
        text, before = without_own_marks(prepare(listing.read_text())), ""
        for _ in range(_MOST_TURNS):
            listing.write_text(text)
            if text == before or run(middle, timeout_s=SECOND_TIMEOUT_S)[0] != 0:
                break
            before = listing.read_text()
            text = with_own_instances(without_own_marks(before))
        listing.write_text(widen(without_promises(text), vets=True))
        if run(_from_listing(listing, WIDENED_FLAGS, built), timeout_s=SECOND_TIMEOUT_S)[0] == 0:
            return 0, ""
    return _without_entries(listing, built)


def _metered(command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
    """Compile by way of the optimised listing, with its back edges counted."""
    listing = source.with_suffix(".ll")
    status, said = _optimised(command, source, listing)
    if status != 0:
        return status, said
    listing.write_text(metered(listing.read_text(), is_linux=sys.platform == "linux"))
    return run(_from_listing(listing, METERED_FLAGS, built))


@dataclass
class Watching:
    """Compiles by way of a listing whose conditions are watched."""

    unit: Unit
    conditions: tuple[Site, ...] = ()

    def compile(self, command: Sequence[str], source: Path, built: Path) -> tuple[int, str]:
        """Compile; what fails here has been compiled before in the plain way."""
        listing = source.with_suffix(".ll")
        if may_part(source.read_text()):
            front = _front(command, source, listing, _with_operation_paths)
            status, said = _then(front, _relisted(listing, SEEN_FLAGS))
        else:
            status, said = _whole(command, source, listing, SEEN_FLAGS)
        if status != 0:
            return status, said
        watched = watch(listing.read_text(), _descriptions(self.unit))
        self.conditions = watched.sites
        listing.write_text(watched.text)
        return run(_from_listing(listing, (*WATCHED_FLAGS, "-Wno-pass-failed"), built))


def _descriptions(unit: Unit) -> dict[str, list[int]]:
    """Return by kernel which of its buffers hold shapes and strides alone."""
    return {
        kernel: [p.slot for p in parameters if p.slot >= 0 and _DESCRIPTION.fullmatch(p.name)]
        for kernel, parameters in unit.kernels.items()
    }


_COMMANDS: dict[Variant, Command] = {
    "plain": _plain,
    "sanitize": _sanitized,
    "count": _counted,
    "wide": _wide,
    "vet": compile_vetting,
    "metered": _metered,
}
"""How the builds that are more than one call of clang are made."""
