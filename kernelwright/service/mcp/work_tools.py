"""The tools that trace, compile, run or write: plan, evaluate, search and export."""

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import Field

from kernelwright.evaluator.submission import LaunchText
from kernelwright.runtime.export import FormatName
from kernelwright.service.export_function import export as export_function
from kernelwright.service.mcp.argument import (
    ADDS,
    ASKS_MODELS,
    READS,
    DeviceChoice,
    InputTypes,
    Session,
    Target,
)
from kernelwright.service.mcp.pages import (
    kernel_verdict,
    planned_function,
    search_outcome,
    verdict_of,
)
from kernelwright.service.mcp.progress import ProgressToClient
from kernelwright.service.mcp.records import (
    ExportedFiles,
    FunctionPlans,
    KernelVerdict,
    SearchOutcome,
)
from kernelwright.service.mcp.submission import briefs_of, judge
from kernelwright.service.mcp.turn import in_turn
from kernelwright.service.mcp.work import Handle, Workshop
from kernelwright.service.python.plan import plan as plan_function
from kernelwright.service.python.request import device_of, search_spec
from kernelwright.service.python.search import remark, run_search, with_jobs
from kernelwright.service.python.target import captured
from kernelwright.store import KernelStore


def add_work_tools(server: MCPServer[None], session: Session, workshop: Workshop) -> None:
    """Add the tools that trace, compile, run or write."""
    for add in (_add_plan, _add_evaluate, _add_search, _add_export):
        add(server, session, workshop)


def _add_plan(server: MCPServer[None], session: Session, workshop: Workshop) -> None:
    @server.tool(title="Plan a function", annotations=READS)
    async def plan(
        context: Context, target: Target, inputs: InputTypes = (), device: DeviceChoice = "auto"
    ) -> FunctionPlans:
        """Show how a function would be cut into kernels, and what that would gain at most."""

        def work(handle: Handle) -> FunctionPlans:
            made = plan_function(
                target, inputs=list(inputs) or None, device=device, store=session.store
            )
            briefs = briefs_of(target, inputs, device_of(device), session.store)
            refused = tuple(f"{r.function}: {r.reason}" for r in made.refused)
            pairs = zip(made.outlines, briefs, strict=True)
            return FunctionPlans(
                functions=tuple(planned_function(*pair) for pair in pairs), refused=refused
            )

        return await workshop.make(context, work)


def _add_evaluate(server: MCPServer[None], session: Session, workshop: Workshop) -> None:
    @server.tool(title="Judge a kernel", annotations=ADDS)
    async def evaluate(
        context: Context,
        target: Target,
        source: Annotated[
            str, Field(description="The Metal body, as mx.fast.metal_kernel takes it.")
        ],
        grid: Annotated[
            str, Field(description="Threads along one to three axes: 4096 or x_shape[0],64.")
        ],
        threadgroup: Annotated[str, Field(description="Threads of a threadgroup.")] = "256",
        inputs: InputTypes = (),
        input_names: Annotated[
            tuple[str, ...],
            Field(description="Names in the body; else the function's parameters."),
        ] = (),
        output_names: Annotated[
            tuple[str, ...], Field(description="Names in the body; out, or out0, out1, by default.")
        ] = (),
        template: Annotated[str, Field(description="Template arguments: T=f16,N=4.")] = "",
        header: Annotated[str, Field(description="What stands before the body.")] = "",
        idea: Annotated[str, Field(description="What the kernel does, in a sentence.")] = "",
        device: DeviceChoice = "auto",
    ) -> KernelVerdict:
        """Judge one kernel for a whole function and keep it in the store.

        It is compiled, sanitized, compared with a float64 oracle on many inputs, run again, timed
        or predicted, and tried at sizes that are not told.
        """
        launch = LaunchText(
            grid=grid,
            threadgroup=threadgroup,
            inputs=input_names,
            outputs=output_names,
            template=template,
            header=header,
        )

        def work(handle: Handle) -> KernelVerdict:
            view = ProgressToClient(handle, 1)
            with KernelStore(session.store) as store:
                detail = judge(
                    store,
                    target,
                    inputs,
                    source,
                    launch,
                    device=device_of(device),
                    idea=idea,
                    listen=view.show,
                    on_start=handle.ends_by,
                    ended=handle.ended,
                )
            evaluation = verdict_of(detail)
            assert evaluation is not None
            return kernel_verdict(detail, evaluation)

        return await workshop.make(context, work)


def _add_search(server: MCPServer[None], session: Session, workshop: Workshop) -> None:
    @server.tool(title="Search for kernels", annotations=ASKS_MODELS)
    async def search(
        context: Context,
        target: Target,
        inputs: InputTypes = (),
        device: DeviceChoice = "auto",
        candidates: Annotated[int, Field(ge=1, description="The most for each task.")] = 6,
        seconds: Annotated[float | None, Field(gt=0, description="Stop after so long.")] = None,
    ) -> SearchOutcome:
        """Let Kernelwright write, judge and keep kernels for a function; the search resumes."""

        def work(handle: Handle) -> SearchOutcome:
            spec = search_spec(
                device=device,
                model=session.model or None,
                base_url=session.base_url,
                budget=session.budget,
                candidates=candidates,
                seconds=seconds,
                tokens=None,
                calls=None,
                repairs=None,
                evaluations=None,
                jobs=None,
            )
            functions = captured(target, list(inputs) or None, session.store)
            view = ProgressToClient(handle, spec.candidates_per_task)
            with KernelStore(session.store) as store:
                spec = with_jobs(spec, functions, view, None)
                remark(functions, spec, view)
                found = in_turn(
                    lambda: run_search(store, functions, spec, view, on_start=handle.ends_by),
                    handle.ended,
                    lambda sentence: handle.tell(0, None, sentence),
                )
            return search_outcome(found.report)

        return await workshop.make(context, work)


def _add_export(server: MCPServer[None], session: Session, workshop: Workshop) -> None:
    @server.tool(title="Export kernels", annotations=ADDS)
    async def export(
        context: Context,
        target: Annotated[str, Field(description="FILE.py:function, or a candidate's id.")],
        folder: Annotated[str, Field(description="Where to write; made where it is missing.")],
        inputs: InputTypes = (),
        format_name: Annotated[FormatName, Field(description="What to write.")] = "module",
        slower: Annotated[
            bool, Field(description="Take a kernel by id that MLX is faster than.")
        ] = False,
    ) -> ExportedFiles:
        """Write a function with its kernels, or one kernel, as code that needs no Kernelwright.

        Nothing that Kernelwright did not write is overwritten.
        """

        def work(handle: Handle) -> ExportedFiles:
            done = export_function(
                target,
                folder,
                inputs=inputs,
                format_name=format_name,
                slower=slower,
                store=session.store,
            )
            return ExportedFiles(
                files=tuple(file for each in done.written for file in each.files),
                use=tuple(each.use for each in done.written),
                is_verified=done.is_verified,
                left_out=done.left_out,
            )

        return await workshop.make(context, work)
