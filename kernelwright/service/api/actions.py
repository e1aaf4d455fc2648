"""What the page may do: ask a campaign to pause, go on or stop, and take a kernel out."""

import io
import zipfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.responses import Response

from kernelwright.campaign.history.pausing import GO_ON, PAUSE, is_paused
from kernelwright.campaign.history.resuming import ask_to_go_on, ask_to_pause, ask_to_stop, shown_id
from kernelwright.errors import InputError
from kernelwright.runtime.export import KernelFormatName
from kernelwright.scratch import ScratchFolder
from kernelwright.service.api.campaigns import require_alive
from kernelwright.service.api.guard import CSRF_HEADER
from kernelwright.service.api.record import Asked
from kernelwright.service.api.routes import Store
from kernelwright.service.exporting import ExportRequest, export_targets
from kernelwright.store import Campaign, KernelStore


def own_page(
    _sent: Annotated[
        str,
        Header(alias=CSRF_HEADER, description="1; not needed with `Authorization: Bearer TOKEN`."),
    ] = "",
) -> None:
    """Describe the header that the guard asks for."""


actions = APIRouter(prefix="/api/v1", tags=["actions"], dependencies=[Depends(own_page)])


@actions.post("/campaigns/{id}/pause")
def pause(store: Store, id: str) -> Asked:  # noqa: A002
    """Let a campaign hold still: what runs ends, nothing new begins."""
    run = require_alive(store, id)
    if _is_paused(store, run):
        raise InputError(f"campaign {_called(run)} holds still already; let it go on with Resume.")
    ask_to_pause(store, run.id)
    return Asked(sentence=f"asked {_called(run)} to hold still; what runs ends, nothing new begins")


@actions.post("/campaigns/{id}/resume")
def resume(store: Store, id: str) -> Asked:  # noqa: A002
    """Let a campaign that holds still go on."""
    run = require_alive(store, id)
    if not _is_paused(store, run):
        raise InputError(f"campaign {_called(run)} runs already; Pause lets it hold still.")
    ask_to_go_on(store, run.id)
    return Asked(sentence=f"asked {_called(run)} to go on")


@actions.post("/campaigns/{id}/stop")
def stop(store: Store, id: str) -> Asked:  # noqa: A002
    """Ask a campaign to end in order."""
    run = require_alive(store, id)
    ask_to_stop(store, run.id)
    return Asked(sentence=f"asked {_called(run)} to stop; it ends within seconds")


@actions.post(
    "/candidates/{id}/export",
    response_class=Response,
    responses={200: {"content": {"application/zip": {}}}},
)
def export(
    store: Store,
    id: str,  # noqa: A002
    format_name: KernelFormatName = "module",
    slower: bool = False,
) -> Response:
    """Export a candidate as `kernelwright export` does; the reply is a zip file."""
    with ScratchFolder() as folder:
        request = ExportRequest(
            folder=folder, name=None, format_name=format_name, force=False, slower=slower
        )
        written = export_targets(store, [id], [], request, lambda words: None)
        name = written[0].name
        packed = _packed(folder)
    return Response(
        packed,
        media_type="application/zip",
        headers={"content-disposition": f'attachment; filename="{name}.zip"'},
    )


def _packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


def _is_paused(store: KernelStore, run: Campaign) -> bool:
    return is_paused(store.events(run.id, kinds=(PAUSE, GO_ON)))


def _called(run: Campaign) -> str:
    return f"{shown_id(run)[:8]} ({run.name})"
