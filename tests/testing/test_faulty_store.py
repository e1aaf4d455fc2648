"""Writes that meet a full disk or a store that is away wait, and are written once."""

from pathlib import Path

import pytest

from kernelwright.errors import BlockedError
from kernelwright.testing.fault import Fault, Sabotage
from kernelwright.testing.fault.faulty_store import FaultyStore
from kernelwright.testing.fault.plan import FaultKind
from tests.store.conftest import ENVIRONMENT


@pytest.mark.parametrize(
    ("database", "kind", "words"),
    [
        ("sqlite", "disk_full", "is on a full disk"),
        ("sqlite", "store_away", "is locked by another program"),
        ("postgresql", "disk_full", "is out of room"),
        ("postgresql", "store_away", "is being stopped or restarted"),
    ],
)
def test_a_write_that_fails_for_a_while_is_held_and_done_once(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, kind: FaultKind, words: str
) -> None:
    url = str(tmp_path / "kernels.db")
    if database == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    held: list[str] = []
    with FaultyStore(url, Sabotage([Fault(kind=kind, at="write", number=2, lasts=2)])) as store:
        campaign = store.begin_campaign(name="night", spec="{}", environment=ENVIRONMENT)
        with store.waiting_when_blocked(lambda error: held.append(str(error))):
            store.log(campaign.id, "Said", "{}")
        assert [words in sentence for sentence in held] == [True, True]
        assert len(store.events(campaign.id)) == 1


def test_a_write_that_nobody_holds_fails_with_a_sentence(tmp_path: Path) -> None:
    sabotage = Sabotage([Fault(kind="store_away", at="write", number=1)])
    with (
        FaultyStore(str(tmp_path / "kernels.db"), sabotage) as store,
        pytest.raises(BlockedError, match="is locked by another program"),
    ):
        store.begin_campaign(name="night", spec="{}", environment=ENVIRONMENT)
