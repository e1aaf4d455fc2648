"""The programs of one conversation by name, and edits that make one from another."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from kernelwright.agents.roles.reply.reply_schema import KernelDraft, ProgramDraft
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.session.tools.schema import TextEdit
from kernelwright.errors import InputError
from kernelwright.metal.kernel import Program
from kernelwright.plural import counted

LONGEST_PROGRAM = 100_000
"""Bytes of a program's texts; what people write has a few thousand."""
_PLACEHOLDER = "(below)"


@dataclass(frozen=True)
class NamedDraft:
    """A program that the model wrote, as it wrote it and as it is judged."""

    name: str
    draft: ProgramDraft
    program: Program
    note: str = ""
    """What it claims and is not judged by."""


class DraftBook:
    """Names drafts d1, d2, … in the order in which they are written; the same text has one name."""

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._drafts: dict[str, NamedDraft] = {}
        self._names: dict[str, str] = {}

    def add(self, draft: ProgramDraft) -> NamedDraft:
        """Keep a draft.

        Raises:
            InputError: it is no program for the task.
        """
        size = sum(len(k.source.encode()) + len(k.header.encode()) for k in draft.kernels)
        if size > LONGEST_PROGRAM:
            raise InputError(
                f"expected at most {LONGEST_PROGRAM} bytes of Metal, found {size}; use loops."
            )
        program = draft.program(self._interface)
        name = self._names.setdefault(program.id, f"d{len(self._names) + 1}")
        note = draft.unserved_sizes(self._interface)
        return self._drafts.setdefault(name, NamedDraft(name, draft, program, note))

    def find(self, name: str) -> NamedDraft | None:
        """Return a draft, None where there is none of that name."""
        return self._drafts.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names so far, in order."""
        return tuple(self._drafts)


def edited(draft: ProgramDraft, edits: Sequence[TextEdit]) -> ProgramDraft:
    """Return a draft's text after replacements, one after another.

    Raises:
        InputError: a piece does not occur exactly once, or what results is no program.
    """
    if not edits:
        raise InputError("expected at least one edit, found none.")
    for edit in edits:
        is_launch = edit.part == "launch"
        draft = _launch_edited(draft, edit) if is_launch else _text_edited(draft, edit)
    return draft


def launch_text(draft: ProgramDraft) -> str:
    """Return a draft's JSON, its texts apart, as `show` prints it and `edit` changes it."""
    return json.dumps(_launch_data(draft), indent=1)


def _launch_data(draft: ProgramDraft) -> dict[str, object]:
    """Return a draft's data with marks where its texts stand."""
    data = draft.model_dump()
    for kernel in data["kernels"]:
        kernel["source"] = _PLACEHOLDER
        kernel["header"] = _PLACEHOLDER if kernel["header"] else ""
    return data


def program_lines(draft: ProgramDraft) -> Iterator[str]:
    """Yield a draft as a reader wants it: its launch, then each text."""
    yield from launch_text(draft).splitlines()
    for kernel in draft.kernels:
        for part, text in (("header", kernel.header), ("source", kernel.source)):
            if text.strip():
                yield f"--- {part} of {kernel.name}"
                yield from text.splitlines()


def _launch_edited(draft: ProgramDraft, edit: TextEdit) -> ProgramDraft:
    # Prompts print it in one line, `show` by the line: a piece may be of either.
    printed = launch_text(draft), json.dumps(_launch_data(draft))
    found = next((text for text in printed if edit.search in text), printed[0])
    text = _replaced(found, edit, "the launch")
    texts = {k.name: k for k in draft.kernels}
    try:
        data = json.loads(text)
        for place, kernel in enumerate(data["kernels"]):
            old = texts.get(kernel["name"]) or draft.kernels[place]
            kernel["source"] = old.source if kernel["source"] == _PLACEHOLDER else kernel["source"]
            kernel["header"] = old.header if kernel["header"] == _PLACEHOLDER else kernel["header"]
        return ProgramDraft.model_validate(data)
    except (ValueError, KeyError, TypeError, IndexError, ValidationError) as e:
        raise InputError(f"after that edit the launch is no program: {str(e)[:300]}") from e


def _text_edited(draft: ProgramDraft, edit: TextEdit) -> ProgramDraft:
    kernel = _kernel(draft, edit.kernel)
    is_source = edit.part == "source"
    text = _replaced(
        kernel.source if is_source else kernel.header, edit, f"the {edit.part} of {kernel.name}"
    )
    changed = kernel.model_copy(update={edit.part: text})
    kernels = [changed if k is kernel else k for k in draft.kernels]
    return draft.model_copy(update={"kernels": kernels})


def _kernel(draft: ProgramDraft, name: str) -> KernelDraft:
    if not name and len(draft.kernels) == 1:
        return draft.kernels[0]
    for kernel in draft.kernels:
        if kernel.name == name:
            return kernel
    known = ", ".join(k.name for k in draft.kernels)
    raise InputError(f"there is no kernel {name!r} in that draft; its kernels are {known}.")


def _replaced(text: str, edit: TextEdit, where: str) -> str:
    if not edit.search and not text:
        return edit.replace
    if not edit.search:
        size = counted(len(text), "character")
        raise InputError(
            f"the search text is empty, and {where} has {size}; search for a piece of it."
        )
    count = text.count(edit.search)
    if count != 1:
        raise InputError(
            f"expected {edit.search[:120]!r} exactly once in {where}, found it {count} times; "
            "show the draft and copy more of its text."
        )
    return text.replace(edit.search, edit.replace)
