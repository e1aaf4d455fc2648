"""A process that holds conversations one after another, to be killed in the middle of one."""

import sys
from pathlib import Path

from kernelwright.agents.session import AsyncBridge
from tests.agents.loopback.journal import Journal
from tests.agents.loopback.partner import PURPOSE, Partner, Verse, prompt
from tests.agents.loopback.server import LoopbackServer


class _Elsewhere(LoopbackServer):
    """Stands for the server of the parent process."""

    def __post_init__(self) -> None:
        """Nothing listens here."""

    def base_url(self, provider: str) -> str:
        return sys.argv[3]


def main() -> None:
    partner = Partner(_Elsewhere(lambda _: None), sys.argv[1], ledger=Journal(Path(sys.argv[2])))  # type: ignore[arg-type, return-value]
    with AsyncBridge(partner.open()) as board:
        for number in range(6):
            answer = board.ask(prompt(str(number)), Verse, PURPOSE)
            print(answer.record.times, flush=True)
    print(partner.budget.spent().calls)


if __name__ == "__main__":
    main()
