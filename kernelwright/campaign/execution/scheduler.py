"""Keeps every evaluator busy: begins what may begin, collects verdicts, holds and winds up."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import timedelta

from kernelwright.agents.cap_text import cap_reached
from kernelwright.campaign.execution.candidate_queue import Queue, Work
from kernelwright.campaign.execution.crash_quarantine import (
    CrashQuarantine,
    failed_evaluation,
    given_up,
)
from kernelwright.campaign.execution.executor import Executor, Job, JobVerdict
from kernelwright.campaign.execution.retry_policy import DeviceParkedError
from kernelwright.campaign.execution.run_control import RunControl
from kernelwright.campaign.execution.trial_log import TrialLog
from kernelwright.errors import DeviceError, KernelwrightError, OutdatedError
from kernelwright.plural import counted
from kernelwright.search.search import Search, Suggestion
from kernelwright.search.spec import SearchSpec

_POLL_S = 0.1


class Scheduler:
    """Runs one search on one executor, until nothing is left or nothing more is allowed."""

    def __init__(
        self,
        search: Search,
        executor: Executor,
        trials: TrialLog,
        control: RunControl,
        quarantine: CrashQuarantine,
        spec: SearchSpec,
        *,
        used: int = 0,
    ) -> None:
        """Prepare; `used` evaluations of those that are allowed were run before."""
        self._search = search
        self._executor = executor
        self._trials = trials
        self._control = control
        self._quarantine = quarantine
        self._spec = spec
        self._used = used
        self._queue = Queue(quarantine.holds)
        self._running: dict[Future[JobVerdict], Work] = {}
        self._halting_cap = ""
        self._lost_some = False
        self.evaluated = 0
        """Candidates that were evaluated, each counted once."""

    @property
    def is_capped(self) -> bool:
        """True when a cap ended it, or a task of it, with work left."""
        return self._was_halted or self._search.is_capped

    @property
    def cap(self) -> str:
        """Which cap ended it, or kept models from going on, in a sentence; else nothing."""
        return self._halting_cap if self._was_halted else self._search.cap

    def run(self) -> str:
        """Search to the end; return why it ended.

        Raises:
            DeviceError: an evaluation was cut off, and nobody had asked for that.
            StoreError: the store failed; what it acknowledged is kept.
        """
        while True:
            reason = self._halted()
            if reason is not None:
                self._wind_up(reason)
            elif not self._control.is_held:
                self._look_elsewhere()
                self._refill()
            self._begin_what_may()
            if reason is None:
                self._confirm_early()
            if not self._running:
                if self._is_to_wait(reason):
                    self._control.wait(_POLL_S)
                    continue
                if self._queue.is_empty:
                    if reason is None and self._search.may_go_on:
                        # Another campaign had judged all that was about to begin.
                        continue
                    if self._control.parked:
                        self._think_ahead()
                    return self._why_it_ended(reason)
                if not len(self._queue):
                    self._begin_suspect()
            if self._control.is_out_of_patience:
                # Whoever still runs is cut off; nothing of theirs is recorded.
                self._executor.close()
                self._lost_some = True
                return reason or "interrupted"
            self._collect_what_ended()

    @property
    def _was_halted(self) -> bool:
        """True when a cap halted it with work left: else it had come to its end."""
        return bool(self._halting_cap) and (self._search.is_cut_off or self._lost_some)

    def _why_it_ended(self, halted: str | None) -> str:
        is_done = halted == self._halting_cap and not self._was_halted
        return self._ending if halted is None or is_done else halted

    @property
    def _ending(self) -> str:
        """Say why it ends where nothing halted it; a cap that models met is named."""
        cap = self._search.cap
        if self._search.is_capped:
            return cap
        done = "every task is done"
        return f"{done}, and models were asked no more: {cap}" if cap else done

    def _is_to_wait(self, reason: str | None) -> bool:
        return self._control.is_held or (reason is None and self._search.is_pending)

    def _halted(self) -> str | None:
        """Say why nothing new may begin, None while it may."""
        if (reason := self._control.reason) is not None:
            if self._control.is_out_of_time:
                self._halting_cap = reason
            return reason
        used = self._used + self.evaluated + self._executor.tool_evaluations
        if self._spec.evaluations is not None and used >= self._spec.evaluations:
            self._halting_cap = cap_reached(counted(self._spec.evaluations, "evaluation"))
            return self._halting_cap
        return None

    def _refill(self) -> None:
        """Ask until every evaluator has something to do, or every task waits."""
        while asked := self._search.ask(self._executor.jobs - len(self._queue)):
            self._take_in(asked)
        self._trials.say_what_ended()

    def _confirm_early(self) -> None:
        """Give evaluators that would be idle the leaders of tasks that go on."""
        idle = self._executor.jobs - len(self._running) - len(self._queue)
        if idle > 0 and not self._control.is_held:
            self._take_in(self._search.confirm_early(idle))
            self._begin_what_may()

    def _wind_up(self, reason: str) -> None:
        """Begin nothing new; unless cut short, what was found is still judged and confirmed."""
        is_cut_short = self._control.is_cut_short

        def is_dropped(work: Work) -> bool:
            return is_cut_short or not (work.confirms or work.suggestion.was_judged)

        for work in self._queue.drop(is_dropped):
            self._search.abandon(work.suggestion)
        if is_cut_short:
            return
        # Where time is measured a candidate is judged once more, which a cap on that forbids.
        is_free = self._control.is_out_of_time or not self._executor.info.measures_time
        self._search.stop(reason, takes_what_was_judged=is_free)
        while asked := self._search.ask(0):
            self._take_in(asked)
        self._trials.say_what_ended()

    def _take_in(self, asked: Sequence[Suggestion]) -> None:
        """Write down what is to be done; what the store knows is done."""
        intended = iter(self._trials.add([one for one in asked if not one.confirms]))
        works = [
            self._trials.confirmation(one) if one.confirms else next(intended) for one in asked
        ]
        for work in self._trials.left_of(works):
            self._queue.add(work)
        self._trials.say_what_ended()

    def _look_elsewhere(self) -> None:
        """Ask for the verdicts of other campaigns, or whether their candidates are free."""
        for work in self._trials.left_of(list(self._queue.due_elsewhere())):
            self._queue.add(work)

    def _begin_what_may(self) -> None:
        while not self._control.is_held:
            work = self._queue.next(self._running.values(), self._executor.jobs)
            if work is None:
                return
            self._begin(work)
            if self._halted() is not None:
                return

    def _begin_suspect(self) -> None:
        work = self._queue.next_alone()
        if work is None:
            return
        deaths = self._quarantine.deaths(work.candidate_id)
        if not deaths:
            self._begin(work)
            return
        task, program, info = work.search.task, work.proposal.program, self._executor.info
        verdict = given_up(task, program, info, deaths)
        self._take(work, JobVerdict(verdict, self._executor.environment))

    def _begin(self, work: Work) -> None:
        if not self._trials.begin(work, timedelta(seconds=self._spec.lease_s)):
            self._queue.leave(work)
            return
        # Another campaign may have recorded its verdict since this one was looked for.
        if not work.confirms and self._trials.reuse(work):
            return
        # A candidate counts once, however many workers die under it.
        self.evaluated += not work.confirms and not self._quarantine.has_lost(work.candidate_id)
        job = Job(
            work.search.task,
            work.proposal.program,
            confirms=work.confirms,
            alone=self._quarantine.holds(work.candidate_id),
        )
        self._running[self._executor.submit(job)] = work

    def _collect_what_ended(self) -> None:
        done, _ = wait(self._running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        for future in done:
            self._collect(self._running.pop(future), future)
        if not self._running:
            self._control.wait(0 if done else _POLL_S)

    def _collect(self, work: Work, future: Future[JobVerdict]) -> None:
        """Take a verdict, or what came instead of one."""
        try:
            verdict = future.result()
        except DeviceParkedError as e:
            self._control.park(str(e))
        except OutdatedError as e:
            self._control.stop(str(e).rstrip("."))
        except DeviceError:
            if not self._control.is_cut_short and self._halted() is None:
                raise
        except KernelwrightError:
            raise
        except Exception as e:
            task, program, info = work.search.task, work.proposal.program, self._executor.info
            failed = failed_evaluation(task, program, info, e)
            self._take(work, JobVerdict(failed, self._executor.environment))
            return
        else:
            if self._quarantine.is_to_be_tried_again(work.candidate_id, verdict.evaluation):
                self._queue.add(work)
            else:
                self._take(work, verdict)
            return
        self._search.abandon(work.suggestion)

    def _take(self, work: Work, verdict: JobVerdict) -> None:
        self._trials.record(work, verdict)
        self._trials.say_what_ended()

    def _think_ahead(self) -> None:
        """Ask for what can be asked for without a device; the store keeps it for later."""
        waiting = [s for s in self._search.tasks if not s.ended and not s.in_flight]
        while waiting and not self._control.is_stopping:
            for search in tuple(waiting):
                batch = self._search.ask_ahead(search)
                if batch is None:
                    continue
                waiting.remove(search)
                self._trials.add([Suggestion(search, proposal) for proposal in batch])
            self._control.wait(_POLL_S if waiting else 0)
