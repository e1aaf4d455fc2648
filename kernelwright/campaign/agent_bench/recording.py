"""Recorded conversations of the yardstick in a file: a run can be held again without a key."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelwright.agents.message import Prompt
from kernelwright.agents.session import RecordedCall
from kernelwright.campaign.agent_bench.variant import Variant
from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.metal.diagnostic import Record


class RecordedTurn(Record):
    """One call of one task, without the opening that a replay renders anew."""

    variant: Variant
    task: str
    recorded: RecordedCall


class Recording:
    """The calls of a run by variant and task, in their order."""

    def __init__(self, turns: Iterable[RecordedTurn] = ()) -> None:
        self._turns = list(turns)

    @classmethod
    def read(cls, path: Path) -> "Recording":
        """Read a file of one call a line.

        Raises:
            InputError: it is no such file.
        """
        try:
            lines = path.read_text().splitlines()
            return cls(RecordedTurn.model_validate_json(line) for line in lines if line)
        except (OSError, ValueError) as e:
            raise InputError(
                f"expected recorded conversations in {str(path)!r}, found "
                f"{str(e).splitlines()[0][:120]!r}; write them with: "
                "kernelwright bench-agents --record FILE"
            ) from e

    def add(self, variant: Variant, task: str, calls: Sequence[RecordedCall]) -> None:
        """Keep the calls of one task."""
        for recorded in calls:
            prompt = recorded.call.prompt
            opening = Prompt(system="", context="", request="", template=prompt.template)
            call = recorded.call.model_copy(
                update={"prompt": opening.model_copy(update={"turns": prompt.turns})}
            )
            slim = recorded.model_copy(update={"call": call})
            self._turns.append(RecordedTurn(variant=variant, task=task, recorded=slim))

    def calls(self, variant: Variant, task: str) -> tuple[RecordedCall, ...]:
        """Return the calls of one task; those of the whole team where a variant has none."""
        for wanted in (variant, Variant.FULL):
            found = [t.recorded for t in self._turns if (t.variant, t.task) == (wanted, task)]
            if found:
                return tuple(found)
        return ()

    def write(self, path: Path) -> None:
        """Write the file."""
        write_file(path, "".join(f"{turn.model_dump_json()}\n" for turn in self._turns))
