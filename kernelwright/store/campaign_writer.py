"""Runs of campaigns and their tasks, as the store writes them down."""

from collections.abc import Callable
from datetime import timedelta

from kernelwright.evaluator.task import Task
from kernelwright.store.commands import campaign as campaign_commands
from kernelwright.store.commands import leasing
from kernelwright.store.commands import task as task_commands
from kernelwright.store.commands.leasing import Beat
from kernelwright.store.owner import begin_here, end_here
from kernelwright.store.queries import campaign as campaign_queries
from kernelwright.store.record import Campaign, CampaignState, Environment
from kernelwright.store.retry import retry_when_blocked
from kernelwright.store.schema import EnvironmentRow
from kernelwright.store.upsert import exclusive
from kernelwright.store.writer import LEASE, StoreWriter


class CampaignWriter(StoreWriter):
    """Begins and ends runs, keeps them this process's, and takes notes of them."""

    @retry_when_blocked
    def begin_campaign(
        self,
        *,
        name: str,
        spec: str,
        environment: Environment,
        continues: Callable[[Campaign], bool] = lambda run: False,
        root_id: str | None = None,
    ) -> Campaign:
        """Open a run owned by this process; `spec` is its settings as JSON.

        It belongs to the campaign `root_id`, else to that of the newest run which it `continues`
        unless that one finished, else it is the first of a campaign. Dead runs of the campaign
        end here; of another machine's, those are dead whose last sign of life is old.

        Raises:
            InputError: another process, or another thread of this one, runs the same campaign.
        """
        owner = self._owner
        with self._write() as session:
            exclusive(session, "campaigns")
            root = root_id or campaign_queries.root_to_continue(session, name, continues)
            if root is not None:
                leasing.take_over(session, root_id=root, owner=owner)
            row = campaign_commands.add_campaign(
                session, name=name, spec=spec, environment=environment, owner=owner, root_id=root
            )
            begin_here(row.id)
            return campaign_queries.campaign_of(
                row, session.get_one(EnvironmentRow, environment.id)
            )

    @retry_when_blocked
    def end_campaign(
        self, campaign_id: str, state: CampaignState, *, elapsed_s: float | None = None
    ) -> None:
        """Close a campaign, unless another process has taken it up."""
        try:
            with self._write() as session:
                campaign_commands.end_campaign(session, campaign_id, state, elapsed_s)
        finally:
            end_here(campaign_id)

    def beat(self, campaign_id: str, *, elapsed_s: float, lease: timedelta = LEASE) -> bool:
        """Give a sign of life, renew leases; False when another process has taken the run up."""
        with self._write() as session:
            return leasing.beat(session, campaign_id, self._owner, Beat(elapsed_s, lease))

    @retry_when_blocked
    def keep_task(
        self, task: Task, *, signature: str = "", campaign_id: str = "", function: str = ""
    ) -> None:
        """Write a task down before anything is tried for it; the same task is kept once.

        With a campaign, note for which of its functions the task is searched.
        """
        with self._write() as session:
            task_commands.add_task(session, task, signature)
            if campaign_id:
                campaign_commands.link_task(session, campaign_id, task.fingerprint, function)

    @retry_when_blocked
    def log(self, campaign_id: str, kind: str, body: str) -> None:
        """Append a line to a campaign's log."""
        with self._write() as session:
            campaign_commands.log_event(session, campaign_id, kind, body, self._owner)
