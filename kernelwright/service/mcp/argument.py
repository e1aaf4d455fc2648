"""What tools take, with the descriptions that a client's model reads, and hints on what they do."""

from typing import Annotated, Literal

from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from kernelwright.metal.device.base import DeviceName

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
ASKS_MODELS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)

Target = Annotated[
    str,
    Field(
        description="FILE.py:function, package.module:function or catalog:NAME; importing it runs "
        "its module."
    ),
]
InputTypes = Annotated[
    tuple[str, ...],
    Field(
        description='The inputs\' types in order, such as ["f16[8,512]", "n=3"]; empty takes those '
        "that the file gives."
    ),
]
DeviceChoice = Annotated[
    DeviceName | Literal["auto"], Field(description="auto is the best that this machine has.")
]
CandidateId = Annotated[str, Field(description="The first digits of a candidate's id.")]


class Session(BaseModel):
    """What the tools of a server share."""

    store: str | None = None
    """A path or SQLAlchemy URL; the default store otherwise."""
    model: tuple[str, ...] = ()
    """Models that a search asks; clients cannot choose others."""
    base_url: str | None = None
    """Where the models are served."""
    budget: float | None = None
    """The most dollars that one search may cost."""
