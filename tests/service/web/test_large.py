"""A store of 100,000 evaluations: every page of its tables is one quick answer."""

import os
import time
from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from kernelwright.service.api.app import create_app
from kernelwright.store import KernelStore
from tests.service.web import seeding
from tests.service.web.conftest import BASE, Filled

pytestmark = pytest.mark.slow
EVALUATIONS = int(os.environ.get("KERNELWRIGHT_MANY", "100000"))
TASKS = 400


@pytest.fixture(scope="module")
def large(filled: Filled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelStore]:
    with KernelStore(filled.url, must_exist=True) as known:
        detail = known.show(filled.champion_id)
    path = tmp_path_factory.mktemp("large") / "kernels.db"
    with KernelStore(str(path)) as store:
        evaluation = detail.evaluations[0].evaluation
        seeding.seed(store, evaluation, detail.program, evaluations=EVALUATIONS, among=TASKS)
        yield store


@pytest.mark.parametrize("order", ["at", "rank", "status", "author", "idea", "task"])
@pytest.mark.parametrize("place", [0, 0.5, 0.999])
def test_any_page_of_any_order_holds_what_it_should(
    large: KernelStore, order: str, place: float, record_property: Callable[[str, object], None]
) -> None:
    client = TestClient(create_app(large), base_url=BASE)
    offset = int(EVALUATIONS * place)
    began = time.perf_counter()
    response = client.get(
        "/api/v1/candidates", params={"order": order, "offset": offset, "limit": 100}
    )
    record_property("milliseconds", round(1000 * (time.perf_counter() - began)))
    page = response.json()
    assert page["total"] == EVALUATIONS
    assert len(page["items"]) == min(100, EVALUATIONS - offset)


def test_the_task_table_adds_up_to_all_that_was_tried(large: KernelStore) -> None:
    client = TestClient(create_app(large), base_url=BASE)
    table = client.get("/api/v1/tasks", params={"limit": 1000}).json()
    assert table["total"] == TASKS
    assert sum(row["tried"] for row in table["items"]) == EVALUATIONS
    assert sum(row["right"] for row in table["items"]) == EVALUATIONS - (EVALUATIONS + 3) // 4
