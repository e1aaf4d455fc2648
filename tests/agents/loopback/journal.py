"""A ledger in a file, one JSON line an event, for processes that are killed."""

import json
from pathlib import Path

from kernelwright.agents.message import ToolResult
from kernelwright.agents.session import Call, MemoryLedger, Outcome


class Journal(MemoryLedger):
    """Appends before it returns; reading it back gives what a killed process knew."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        for line in path.read_text().splitlines() if path.exists() else ():
            event = json.loads(line)
            if "call" in event:
                super().begin(Call.model_validate_json(event["call"]))
            elif "place" in event:
                super().keep_place(event["id"], event["place"])
            elif "answer" in event:
                answer = ToolResult.model_validate_json(event["answer"])
                super().keep_answer(event["id"], int(event["at"]), answer)
            else:
                super().finish(event["id"], Outcome.model_validate_json(event["outcome"]))

    def begin(self, call: Call) -> None:
        self._append({"call": call.model_dump_json()})
        super().begin(call)

    def keep_place(self, call_id: str, place: str) -> None:
        self._append({"id": call_id, "place": place})
        super().keep_place(call_id, place)

    def keep_answer(self, call_id: str, place: int, answer: ToolResult) -> None:
        self._append({"id": call_id, "at": str(place), "answer": answer.model_dump_json()})
        super().keep_answer(call_id, place, answer)

    def finish(self, call_id: str, outcome: Outcome) -> None:
        self._append({"id": call_id, "outcome": outcome.model_dump_json()})
        super().finish(call_id, outcome)

    def _append(self, event: dict[str, str]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(event) + "\n")
