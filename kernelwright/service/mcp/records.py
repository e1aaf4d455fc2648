"""What the tools return, as records whose JSON schemas a client reads."""

from pydantic import Field

from kernelwright.campaign.history.run_state import RunState
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.diagnostic import Record


class PlannedKernel(Record):
    """A part of a function that one kernel would compute."""

    label: str
    name: str = Field(description="By the user's own line or variable.")
    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    limit: str = Field(description="What a perfect kernel would gain over MLX's best; predicted.")
    champion: str = Field(description="What the store's best kernel gains; empty without one.")


class PlannedFunction(Record):
    """How one function would be cut into kernels."""

    function: str
    inputs: str
    kernels: tuple[PlannedKernel, ...]
    left_to_mlx: tuple[str, ...] = Field(description="Ops that MLX keeps, and why.")
    limit: str = Field(description="What the function would gain with perfect kernels; predicted.")
    brief: str = Field(
        description="What a kernel of the whole function must compute: its nodes in order, inputs, "
        "outputs, tolerances and the device's limits."
    )


class FunctionPlans(Record):
    """How functions would be cut into kernels."""

    functions: tuple[PlannedFunction, ...]
    refused: tuple[str, ...] = Field(description="A sentence for each function left out.")


class KernelVerdict(Record):
    """What the evaluator found about one kernel; it is in the store under `candidate_id`."""

    candidate_id: str = Field(description="For show, explain and export.")
    is_correct: bool
    is_champion: bool = Field(description="The best of its task on this device, and confirmed.")
    status: Status
    summary: str = Field(description="One sentence.")
    diagnosis: str = Field(
        description="What is wrong, where and how, or what bounds a correct kernel."
    )
    speed: str = Field(description="Against MLX's best; ~ marks a prediction. Empty when unknown.")
    stages: tuple[str, ...] = Field(description="The stages that were run, in order.")
    device: str


class FoundKernel(Record):
    """What a search left for one task."""

    task: str
    tried: int
    champion_id: str | None = Field(description="None where MLX is best or nothing was correct.")
    speed: str = Field(description="Against MLX's best; ~ marks a prediction. Empty when unknown.")
    reason: str = Field(description="Why the search of this task ended.")


class SearchOutcome(Record):
    """A search that has ended."""

    campaign_id: str
    device: str
    tasks: tuple[FoundKernel, ...]
    refused: tuple[str, ...]
    evaluated: int
    seconds: float
    ended: str


class ListedChampion(Record):
    """The best kernel of a task on a device."""

    candidate_id: str
    task: str
    inputs: str
    device: str
    chip: str
    speed: str = Field(description="Against MLX's best; says whether measured or predicted.")
    beats_mlx: bool
    freshness: str = Field(description="fresh, or stale where the machine has changed since.")
    author: str


class Champions(Record):
    """The best kernels in the store."""

    champions: tuple[ListedChampion, ...]


class Explanation(Record):
    """Why a candidate is what it is."""

    candidate_id: str
    task: str
    author: str
    status: Status | None = Field(description="None while it was not judged.")
    explanation: str
    case: str = Field(description="For `kernelwright verify --case`; empty when none is named.")


class ExportedFiles(Record):
    """What was written."""

    files: tuple[str, ...]
    use: tuple[str, ...] = Field(description="The line that imports each export.")
    is_verified: bool
    left_out: tuple[str, ...] = Field(description="A sentence for each function left out.")


class KernelText(Record):
    """One kernel as `mx.fast.metal_kernel` takes it."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    source: str
    header: str
    grid: tuple[str, str, str]
    threadgroup: tuple[str, str, str]


class KernelPage(Record):
    """One candidate: what it computes, its text, its ancestors and what is known of it."""

    candidate_id: str
    task: str
    signature: str
    author: str
    idea: str
    kernels: tuple[KernelText, ...]
    ancestors: tuple[str, ...] = Field(description="Ids, its parent first.")
    champion_on: tuple[str, ...] = Field(description="The devices on which it is the best.")
    status: Status | None
    explanation: str


class Runs(Record):
    """Searches and campaigns, newest first."""

    runs: tuple[RunState, ...]
