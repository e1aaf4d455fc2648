"""Searches that ended in the middle of a call, and what the next one knows of them."""

from collections import Counter
from collections.abc import Callable

import pytest

from kernelwright.agents.roles.reply.reply_schema import ProgramDraft
from kernelwright.errors import ModelError
from kernelwright.evaluator import Status
from kernelwright.store import KernelStore
from tests.agents.loopback.loop import Shared, calls_of, search, statuses
from tests.agents.loopback.model import SCENARIOS, moment_of, role_of, whole
from tests.agents.loopback.partner import NAMES
from tests.agents.loopback.scene import BODY, DONE, TYPO, correction, draft, submitted
from tests.agents.loopback.server import LoopbackServer, Refused, Response, Script
from tests.agents.loopback.wire import Heard, Said

SUSPENDED = Refused(403, "the account was suspended for a minute")


def paid(store: KernelStore) -> Counter[str]:
    """How often each request was answered, and so has to be paid for."""
    answered = (c for c in calls_of(store) if c.outcome is not None and not c.outcome.failure)
    return Counter(c.call.request_hash for c in answered)


class Dying:
    """Refuses the key from the first call that it is told to die at, until it is revived.

    A busy machine may lose a refusal and ask again, so one refusal would not do.
    """

    def __init__(self, dies_at: Callable[[Heard], bool], script: Script) -> None:
        self._dies_at = dies_at
        self._script = script
        self._is_dead = False
        self._was_revived = False

    def __call__(self, request: Heard) -> Response:
        if not self._was_revived:
            self._is_dead = self._is_dead or self._dies_at(request)
        return SUSPENDED if self._is_dead else self._script(request)

    def revive(self) -> None:
        self._is_dead, self._was_revived = False, True


@pytest.mark.parametrize("moment", ["planner", "coder", "verdict"])
@pytest.mark.sampled(3)
def test_an_interrupted_search_goes_on_without_paying_twice(
    store: KernelStore, judge: Shared, provider: str, moment: str
) -> None:
    name = f"{provider}:{NAMES[provider]}"
    model = Dying(lambda request: moment_of(request) == moment, SCENARIOS["race, then fixed"]())
    with LoopbackServer(model) as server:
        url = server.base_url(provider)
        with pytest.raises(ModelError, match="suspended"):
            search(store, judge, name, url)
        model.revive()
        search(store, judge, name, url)
    assert statuses(store, name)[-1] == ("Through a tile.", Status.CORRECT)
    assert set(paid(store).values()) == {1}


def slip(number: int) -> ProgramDraft:
    return draft(BODY.replace("2.0f", f"{number}.0g"), f"Slip {number}.")


class Slips:
    """Writes two programs with the same slip, mends neither, then writes a right one."""

    def __init__(self) -> None:
        self.ideas = 0
        self.repairs = 0
        self.told: list[str] = []

    def __call__(self, request: Heard) -> Response:
        if role_of(request) == "planner":
            return whole(request)
        if role_of(request) == "repairer":
            self.repairs += 1
            return Said(correction("A slip.", slip(10 + self.repairs)))
        if moment_of(request) == "verdict":
            return DONE
        self.ideas += 1
        self.told.append(request.text)
        if self.ideas == 1:
            return submitted(slip(3), slip(4))
        return DONE if self.ideas < 4 else submitted(draft(BODY))


LESSON = "4 programs failed because the compiler said: invalid suffix"


def test_lessons_wait_for_the_next_search_and_are_credited_there(
    store: KernelStore, judge: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The task is so small that its templates are at the floor, where nobody would be asked again.
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)
    model = Slips()
    # A model without a price is asked as readily as schedules are tried.
    dying = Dying(lambda request: moment_of(request) == "coder" and model.ideas == 1, model)
    with LoopbackServer(dying) as server:
        url = server.base_url("openai")
        with pytest.raises(ModelError, match="suspended"):
            search(store, judge, "openai:free", url, candidates=10)
        assert len(statuses(store, "openai:free")) >= 2
        dying.revive()
        search(store, judge, "openai:free", url, candidates=10)
        assert set(paid(store).values()) == {1}
        assert not [text for text in model.told if LESSON in text]
        assert not store.dialogue.lessons()
        model.ideas = 3
        search(store, judge, "openai:free", url, candidates=12)
    assert LESSON in model.told[-1]
    (lesson,) = store.dialogue.lessons()
    assert (lesson.helped, lesson.hurt) == (1, 0)
    assert len(lesson.evidence) == 4


class Stubborn:
    """Answers one error with another for ever."""

    def __init__(self) -> None:
        self.repairs = 0
        self.ideas = 0

    def __call__(self, request: Heard) -> Response:
        if role_of(request) == "planner":
            return whole(request)
        if role_of(request) == "repairer":
            self.repairs += 1
            wrong = BODY.replace("2.0f", f"2.0{'svy'[self.repairs - 1]}")
            return Said(correction("Another suffix.", draft(wrong, "A slip.")))
        if moment_of(request) == "verdict":
            return DONE
        self.ideas += 1
        return submitted(draft(TYPO, "A slip.")) if self.ideas == 1 else DONE


def test_a_line_of_corrections_is_as_long_with_a_death_in_it(
    store: KernelStore, judge: Shared
) -> None:
    model = Stubborn()
    dying = Dying(lambda heard: model.repairs == 1 and role_of(heard) == "repairer", model)
    with LoopbackServer(dying) as server:
        url = server.base_url("openai")
        with pytest.raises(ModelError, match="suspended"):
            search(store, judge, "openai:gpt-5", url, candidates=16)
        dying.revive()
        search(store, judge, "openai:gpt-5", url, candidates=16)
    # Two rounds, as `repairs` allows by default.
    assert model.repairs == 2
