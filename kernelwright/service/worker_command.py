"""`kernelwright worker`: lets this machine evaluate for the campaigns of a fleet."""

import os
from typing import Annotated

import typer

from kernelwright.campaign.judging.device_lock import sole_worker
from kernelwright.errors import InputError
from kernelwright.service.console import console
from kernelwright.service.option import DeviceOption, JsonOption, Said, print_json_line
from kernelwright.validation import MOST_JOBS


def worker(
    database: Annotated[
        str,
        typer.Option(
            "--database",
            envvar="KERNELWRIGHT_STORE",
            help="The fleet's PostgreSQL store, such as postgresql://user@host/kernels.",
        ),
    ],
    device: DeviceOption = None,
    gpu: Annotated[
        int | None,
        typer.Option(
            min=0, max=1023, help="Which NVIDIA GPU, by index; one worker each.", show_default=False
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_JOBS,
            help="Candidates at once; on a GPU one is timed, on a Mac one alone.",
        ),
    ] = 1,
    json: JsonOption = False,
) -> None:
    """Take jobs for this machine's chip from the queue until Ctrl-C; what runs then is finished."""
    from kernelwright.campaign.fleet.job_queue import queue_address
    from kernelwright.store import KernelStore, url_of

    # A store without a queue is refused before what judges is imported.
    queue_address(url_of(database))
    from kernelwright.campaign.fleet.absent_server import once_answered
    from kernelwright.campaign.fleet.worker import Worker
    from kernelwright.campaign.judging.judges import job_judges_on
    from kernelwright.metal.device.registry import default_device

    if gpu is not None:
        if device not in (None, "cuda"):
            raise InputError(f"expected --gpu with --device cuda, found --device {device}.")
        device = "cuda"
        # Before anything opens the device: this process and its workers see one GPU.
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
    chosen = device or default_device()

    def say(sentence: str) -> None:
        if json:
            print_json_line(Said(sentence=sentence))
        else:
            console().print(sentence, highlight=False, markup=False)

    with sole_worker(chosen), once_answered(lambda: KernelStore(database), say) as store:
        Worker(
            store,
            job_judges_on(chosen, jobs=jobs),
            jobs=jobs,
            say=say,
        ).run()
