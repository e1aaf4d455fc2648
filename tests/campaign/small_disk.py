"""A search on a disk of its own that is full until the search says so: run inside `unshare -rm`."""

import subprocess
import sys
from pathlib import Path

from kernelwright.campaign import Engine, SearchSpec, capture_subjects
from kernelwright.campaign.event import CampaignHeldUp, CandidateJudged, Event
from kernelwright.campaign.execution import run_control
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.store import KernelStore
from tests.campaign.scripted import ScriptedJudge, subjects, team


def main(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    run_control._FIRST_PAUSE_S = 0.01
    ballast = folder / "ballast"
    judged: list[str] = []
    waits: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, CandidateJudged):
            judged.append(event.candidate_id)
            if len(judged) == 3:
                fill(ballast)
        if isinstance(event, CampaignHeldUp):
            waits.append(event.reason)
            if len(waits) == 3:
                ballast.unlink()

    with KernelStore(str(folder / "kernels.db")) as store:
        search = Engine(
            store, SearchSpec(jobs=1), team(), ScriptedJudge, RunSettings(listen=listen)
        )
        report = search.run(capture_subjects(subjects()))
        evaluations = store.statistics().rows["evaluation"]
    print([task.champion_id for task in report.tasks])
    print(evaluations, len(waits))
    print(*sorted(set(waits)), sep="\n")


def fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
