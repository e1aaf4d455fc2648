"""Runs the tools that a model calls, under caps of their own; a bad call is answered in words."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from pydantic import BaseModel, ValidationError

from kernelwright.agents.cap_text import cap_reached
from kernelwright.agents.message import ToolCall, ToolResult
from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.reply.dedup import mark_of, marks
from kernelwright.agents.roles.reply.reply_schema import ProgramDraft, drafted
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.floor import floor_of
from kernelwright.agents.roles.text.program_text import ID_DIGITS
from kernelwright.agents.session.parse import InvalidReplyError, parse
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.agents.session.tools.draft_book import (
    DraftBook,
    NamedDraft,
    edited,
    program_lines,
)
from kernelwright.agents.session.tools.report import (
    LONGEST,
    check_report,
    measure_report,
    tells_right,
)
from kernelwright.agents.session.tools.schema import (
    ARGUMENTS,
    Check,
    Done,
    Edit,
    Measure,
    Reference,
    Show,
    Submit,
)
from kernelwright.agents.session.workbench import Workbench, expected_outputs
from kernelwright.errors import (
    BudgetError,
    DeviceError,
    InputError,
    KernelwrightError,
    OutdatedError,
)
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.inputs.stated_case import InputRecipe, Recipe
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from kernelwright.plural import counted

_MOST_SHOWN_LINES = 150
_MOST_VALUES = 64
_MOST_REFERENCE_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Ran:
    """What became of one call; a submission is answered when its verdict is there."""

    result: ToolResult
    submitted: NamedDraft | None = None
    done: str | None = None
    """Why the model ends the conversation."""
    is_useful: bool = True


EVALUATING = frozenset({"check", "edit", "measure"})
"""Tools whose answers take an evaluation."""
Action = Callable[[], str]
Slowness = tuple[float, float]


@dataclass
class Toolbox:
    """The tools of one conversation about one task."""

    task: Task
    workbench: Workbench
    caps: ToolCaps
    names: Sequence[str] = ()
    """The tools that there are; all where none is named."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """Texts that `show` gives by name, such as what MLX launches."""
    history: Sequence[Attempt] = ()
    calls: int = 0
    evaluations: int = 0
    _verdicts: dict[str, Evaluation] = field(default_factory=dict)
    _counted: set[str] = field(default_factory=set)
    """Ids of the programs whose evaluation counts for this conversation."""
    _right: dict[str, NamedDraft] = field(default_factory=dict)
    """Drafts that were checked and are right, by program."""
    _wrong: set[str] = field(default_factory=set)
    """Programs whose check failed in a process that was killed since."""

    def __post_init__(self) -> None:
        self.interface = Interface(self.task)
        self.drafts = DraftBook(self.interface)

    def run(self, call: ToolCall, recorded: ToolResult | None = None) -> Ran:
        """Carry a call out, or take the answer that is on record for it.

        What a call changes in the conversation, such as a new draft, it changes either way.
        """
        self.calls += 1
        try:
            arguments = _arguments(call, self.names)
            if isinstance(arguments, Done):
                return Ran(_said(call, "Ended."), done=arguments.because)
            if isinstance(arguments, Submit):
                is_refused = recorded is not None and recorded.is_error
                if recorded is None or is_refused:
                    _check_choice(arguments)
                draft = self._chosen(arguments)
                if recorded is None:
                    self._check_is_worth_it(draft)
                elif is_refused:
                    # Why may be known from answers that are not computed again.
                    return Ran(recorded, is_useful=False)
                self.submit(draft)
                return Ran(_said(call, ""), submitted=draft)
            action = self._action(arguments, recorded)
            if recorded is not None:
                return Ran(recorded, is_useful=not recorded.is_error)
            self._check_calls()
            return Ran(_said(call, action()))
        except OutdatedError:
            raise
        except (InputError, BudgetError, DeviceError) as e:
            return self._refused(call, str(e), recorded)
        except KernelwrightError:
            raise
        except Exception as e:
            # A fault of a tool costs the model this call, not the conversation and what it wrote.
            return self._refused(call, f"{call.name} failed: {type(e).__name__}: {e}", recorded)

    @staticmethod
    def _refused(call: ToolCall, reason: str, recorded: ToolResult | None) -> Ran:
        said = ToolResult(call_id=call.id, text=reason[:LONGEST], is_error=True)
        return Ran(recorded or said, is_useful=False)

    def unsubmitted(self, *, judges: bool) -> NamedDraft | None:
        """Return the fastest right draft if it was not submitted and is faster than all before.

        Args:
            judges: whether drafts that an earlier process checked are judged again.
        """
        found: list[tuple[Slowness, NamedDraft]] = []
        for draft in tuple(self._right.values()):
            # It was tried before, or a cap or the device keeps it from being judged.
            with suppress(InputError, BudgetError, DeviceError):
                self._check_is_worth_it(draft)
                known = self._verdicts.get(draft.program.id)
                if known is not None or judges:
                    evaluation = known or self._evaluated(draft.program)
                    found.append((_slowness(evaluation), draft))
        before = [_slowness(a.evaluation) for a in self.history if a.evaluation.is_correct]
        slowness, fastest = min(found, key=lambda pair: pair[0], default=(None, None))
        return fastest if slowness is not None and all(slowness < b for b in before) else None

    def submit(self, draft: NamedDraft) -> None:
        """Note that a draft is proposed, whoever does it."""
        self._right.pop(draft.program.id, None)

    def _check_calls(self) -> None:
        if self.calls > self.caps.calls:
            reached = cap_reached(counted(self.caps.calls, "tool call"), of="conversation")
            raise InputError(f"{reached}: submit or be done.")

    def _action(self, arguments: BaseModel, recorded: ToolResult | None) -> Action:
        """Do what costs nothing, and return what is left to do."""
        if isinstance(arguments, Check | Edit):
            if isinstance(arguments, Edit):
                program = edited(self._draft_named(arguments.draft).draft, arguments.edits)
            else:
                program = arguments.program
            draft = self.drafts.add(program)
            if recorded is not None and not recorded.is_error:
                self._count(draft.program)
                if tells_right(recorded.text.removeprefix(f"{draft.name}: ")):
                    self._right[draft.program.id] = draft
                else:
                    self._wrong.add(draft.program.id)
            return lambda: self._checked(draft)
        if isinstance(arguments, Measure):
            if recorded is not None and not recorded.is_error:
                self._count(self._measurable(arguments))
            return lambda: self._measured(self._measurable(arguments))
        if isinstance(arguments, Reference):
            return lambda: self._reference(arguments)
        assert isinstance(arguments, Show)
        return lambda: self._shown(arguments)

    def _evaluated(self, program: Program) -> Evaluation:
        known = self._verdicts.get(program.id) or next(
            (a.evaluation for a in self.history if a.proposal.program.id == program.id), None
        )
        if known is not None:
            return known
        is_counted = program.id in self._counted
        if not is_counted and self.evaluations >= self.caps.evaluations:
            most = counted(self.caps.evaluations, "evaluation")
            reached = cap_reached(most, of="conversation")
            raise BudgetError(f"{reached}: submit the best draft, or be done.")
        self._count(program)
        evaluation = self.workbench.evaluate(self.task, program)
        self._verdicts[program.id] = evaluation
        return evaluation

    def _count(self, program: Program) -> None:
        """Count an evaluation once, whether this process ran it or one that was killed."""
        is_known = any(a.proposal.program.id == program.id for a in self.history)
        if not is_known and program.id not in self._counted:
            self._counted.add(program.id)
            self.evaluations += 1

    def _checked(self, draft: NamedDraft) -> str:
        evaluation = self._evaluated(draft.program)
        if evaluation.is_correct:
            self._right[draft.program.id] = draft
        report = check_report(evaluation, draft.program) + self._above_floor(evaluation)
        lines = (f"{draft.name}: {report}", draft.note, self._left)
        return "\n".join(filter(None, lines))

    @property
    def _left(self) -> str:
        return f"({counted(self.caps.evaluations - self.evaluations, 'evaluation')} left)"

    def _above_floor(self, evaluation: Evaluation) -> str:
        """Say how far a right program is from the least time that its task can take."""
        floor = floor_of(self.task.graph, self.workbench.info)
        taken_us = evaluation.taken_us
        if not evaluation.is_correct or floor is None or taken_us is None:
            return ""
        return f" It takes {taken_us / floor.time_us:.2f} times the floor."

    def _measurable(self, arguments: Measure) -> Program:
        draft = self._draft_named(arguments.draft)
        program = draft.program
        verdict = self._verdicts.get(program.id)
        if verdict is not None and not verdict.is_correct:
            raise InputError(
                f"{draft.name} is not right, so its time tells nothing; mend it first."
            )
        if arguments.tunables:
            values = {t.name: t.value for t in program.tunables}
            given = {t.name: t.value for t in arguments.tunables}
            if unknown := sorted(set(given) - set(values)):
                known = ", ".join(values) or "none"
                raise InputError(f"{draft.name} leaves {known} open, not {', '.join(unknown)}.")
            try:
                program = program.tuned(values | given)
            except ValidationError as e:
                raise InputError(_said_by(e)) from e
        return program

    def _measured(self, program: Program) -> str:
        evaluation = self._evaluated(program)
        report = measure_report(evaluation, program, self.workbench.info)
        first, *rest = report.split("\n")
        return "\n".join((first + self._above_floor(evaluation), *rest, self._left))

    def _reference(self, arguments: Reference) -> str:
        if (size := self.task.graph.element_count) > _MOST_REFERENCE_ELEMENTS:
            raise InputError(
                f"the task's inputs and outputs have {size} elements, and the reference is shown "
                f"of at most {_MOST_REFERENCE_ELEMENTS}."
            )
        outputs = self.interface.output_names
        if not 0 <= arguments.output < len(outputs):
            raise InputError(f"outputs are numbered 0 to {len(outputs) - 1}.")
        inputs = [{"fill": i.fill, "value": i.value} for i in arguments.inputs]
        try:
            recipe = Recipe(
                seed=arguments.draw, inputs=tuple(InputRecipe.model_validate(i) for i in inputs)
            )
        except ValidationError as e:
            raise InputError(f"the inputs are not right: {_said_by(e)}") from e
        given, expected = expected_outputs(self.task, recipe)
        start, stop = max(arguments.start, 0), max(arguments.start, 0) + arguments.count
        lines = [
            f"{name}: {_values(array, start, stop)}"
            for name, array in zip(self.interface.input_names, given, strict=True)
        ]
        wanted = _values(expected[arguments.output], start, stop)
        return "\n".join((*lines, f"{outputs[arguments.output]} should be: {wanted}"))

    def _shown(self, arguments: Show) -> str:
        if arguments.what in self.pages:
            lines = self.pages[arguments.what].splitlines()
        else:
            lines = list(program_lines(self._program_named(arguments.what)))
        if arguments.from_line > max(len(lines), 1):
            raise InputError(
                f"{arguments.what} has {counted(len(lines), 'line')}, found from_line "
                f"{arguments.from_line}."
            )
        first = max(arguments.from_line - 1, 0)
        shown = lines[first : first + _MOST_SHOWN_LINES]
        text = "\n".join(shown)[:LONGEST]
        rest = len(lines) - first - len(shown)
        return text + (
            f"\n… {rest} more lines; ask from line {first + len(shown) + 1}." if rest else ""
        )

    def _program_named(self, what: str) -> ProgramDraft:
        """Return a draft, an earlier program of the task, or a champion of another task."""
        if (found := self._named(what, self._known_programs() | self._sibling_programs())) is None:
            raise self._unknown("program", what, (*self._sibling_programs(), *self.pages))
        return found.draft

    def _draft_named(self, name: str) -> NamedDraft:
        """Return a draft, or an earlier program of the task."""
        if (found := self._named(name, self._known_programs())) is None:
            raise self._unknown("draft", name, ())
        return found

    def _named(self, name: str, programs: Mapping[str, tuple[Program, str]]) -> NamedDraft | None:
        if (draft := self.drafts.find(name)) is not None:
            return draft
        ids = [key for key in programs if len(name) >= 4 and key.startswith(name)]
        key = name if name in programs else next(iter(ids), None)
        if key is None:
            return None
        program, idea = programs[key]
        return NamedDraft(name, drafted(program, idea, self.interface), program)

    def _unknown(self, kind: str, name: str, more: Sequence[str]) -> InputError:
        if name in ("best", "template"):
            wanted = "right program" if name == "best" else name
            return InputError(
                f"you know of no {wanted} yet; what the search has found is told with the verdict "
                "on what you submit."
            )
        told = dict.fromkeys(key[:ID_DIGITS] for key in (*self._known_programs(), *more))
        known = ", ".join((*self.drafts.names, *told)) or "none yet: check a program first"
        return InputError(f"there is no {kind} {name!r}; known are {known}.")

    def _known_programs(self) -> dict[str, tuple[Program, str]]:
        known = {
            self.task.candidate_id(a.proposal.program.id): (a.proposal.program, a.proposal.idea)
            for a in self.history
        }
        correct = [a for a in self.history if a.evaluation.is_correct]
        if correct:
            best = min(correct, key=lambda a: _slowness(a.evaluation)).proposal
            known = {"best": (best.program, best.idea), **known}
        templates = [a for a in correct if a.proposal.author == "offline"]
        if templates:
            best = min(templates, key=lambda a: _slowness(a.evaluation)).proposal
            known = {"template": (best.program, best.idea), **known}
        return known

    def _sibling_programs(self) -> dict[str, tuple[Program, str]]:
        return {s.name: (s.program, s.idea) for s in self.workbench.siblings(self.task)}

    def _chosen(self, arguments: Submit) -> NamedDraft:
        if arguments.program is not None:
            return self.drafts.add(arguments.program)
        return self._draft_named(arguments.draft)

    def _check_is_worth_it(self, draft: NamedDraft) -> None:
        """Refuse what is known to be wrong, and what was tried before."""
        evaluation = self._verdicts.get(draft.program.id)
        if evaluation is not None and not evaluation.is_correct:
            raise InputError(
                f"{draft.name} is {evaluation.status.value}: mend it before it is submitted."
            )
        if evaluation is None and draft.program.id in self._wrong:
            raise InputError(f"{draft.name} failed its check: mend it before it is submitted.")
        if not marks(draft.program).isdisjoint(map(mark_of, self.history)):
            raise InputError(f"{draft.name} differs in nothing that matters from one tried before.")


def _said_by(error: ValidationError) -> str:
    return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")


def _check_choice(arguments: Submit) -> None:
    if bool(arguments.draft) is (arguments.program is not None):
        found = "both" if arguments.draft else "neither"
        raise InputError(
            f"expected draft or program, found {found}; send the name of a draft such as d1, or a "
            "whole new program and no draft."
        )


def _said(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, text=text)


def _slowness(evaluation: Evaluation) -> Slowness:
    speedups = [s.ratio for s in evaluation.speedups if s.kind == "measured"]
    predicted = evaluation.predicted_us
    return -min(speedups, default=0.0), float("inf") if predicted is None else predicted


def _arguments(call: ToolCall, names: Sequence[str]) -> BaseModel:
    known = names or tuple(ARGUMENTS)
    shape = ARGUMENTS.get(call.name)
    if shape is None or call.name not in known:
        raise InputError(f"there is no tool {call.name!r}; the tools are {', '.join(known)}.")
    try:
        return parse(call.arguments, shape)
    except InvalidReplyError as e:
        raise InputError(f"the arguments of {call.name} cannot be used: {e}.") from e


def _values(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], start: int, stop: int) -> str:
    flat = array.reshape(-1)[start : min(stop, start + _MOST_VALUES)]
    is_whole = array.dtype.kind in "biu"
    texts = (str(int(v)) if is_whole else f"{float(v):.6g}" for v in flat)
    return ", ".join(texts) or "nothing there"
