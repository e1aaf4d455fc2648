"""Commands that ask the store begin quickly: they import what they need and nothing else."""

import subprocess
import sys
from pathlib import Path

from kernelwright.store import KernelStore

_LOOK = """
import sys
from kernelwright.service.cli import main
sys.argv = ["kernelwright", "best", "--store", sys.argv[1]]
try:
    main()
except SystemExit:
    pass
print("LOADED", *sys.modules)
"""


def test_best_reads_neither_planning_nor_models_nor_another_database(tmp_path: Path) -> None:
    path = str(tmp_path / "kernels.db")
    KernelStore(path).close()
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, path], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.partition("LOADED ")[2].split()
    assert "kernelwright.store.store" in loaded
    slow = ("kernelwright.campaign.planning", "kernelwright.agents", "sqlalchemy.dialects.postgres",
            "mlx", "rich.syntax", "alembic", "tenacity", "procrastinate")  # fmt: skip
    assert [name for name in loaded if name.startswith(slow)] == []
