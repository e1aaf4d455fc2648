"""Edits of a text that never move a line, and the way back from each edited column."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `removed` characters at `offset`; neither text holds a line end."""

    offset: int
    removed: int
    inserted: str


@dataclass
class Editor:
    """Collects edits of one text; edits at one place apply in the order they were made."""

    text: str
    edits: list[Edit] = field(default_factory=list)

    def insert(self, offset: int, inserted: str) -> None:
        """Put text before the character at `offset`."""
        self.edits.append(Edit(offset, 0, inserted))

    def replace(self, offset: int, removed: str, inserted: str) -> None:
        """Put `inserted` where `removed` stands, keeping line ends inside `removed`."""
        head, *rest = removed.split("\n")
        self.edits.append(Edit(offset, len(head), inserted))
        place = offset + len(head)
        for part in rest:
            self.edits.append(Edit(place + 1, len(part), ""))
            place += 1 + len(part)

    def finish(self) -> "EditedText":
        """Apply everything."""
        edits = sorted(self.edits, key=lambda edit: edit.offset)
        parts, place = [], 0
        for edit in edits:
            parts += [self.text[place : edit.offset], edit.inserted]
            place = max(place, edit.offset + edit.removed)
        parts.append(self.text[place:])
        return EditedText(self.text, "".join(parts), tuple(edits))


@dataclass(frozen=True)
class EditedText:
    """A text before and after its edits, line by line the same."""

    original: str
    text: str
    edits: tuple[Edit, ...]

    def column(self, line: int, column: int) -> int:
        """Return where a column of an edited line came from; inserted text has its place.

        Lines and columns count from 1.
        """
        starts = _line_starts(self.original)
        if not 1 <= line <= len(starts):
            return column
        start = starts[line - 1]
        end = starts[line] if line < len(starts) else len(self.original) + 1
        place = column - 1
        shift = 0
        for edit in self.edits:
            if not start <= edit.offset < end:
                continue
            edited = edit.offset - start + shift
            if place < edited:
                break
            if place < edited + len(edit.inserted):
                return edit.offset - start + 1
            shift += len(edit.inserted) - edit.removed
        return place - shift + 1


def _line_starts(text: str) -> list[int]:
    starts = [0]
    while (place := text.find("\n", starts[-1])) >= 0:
        starts.append(place + 1)
    return starts
