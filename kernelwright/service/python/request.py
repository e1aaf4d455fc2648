"""What a call of the Python face asks for, checked before anything begins: one sentence each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeGuard, get_args

from pydantic import ValidationError

from kernelwright.agents.budget import Caps
from kernelwright.agents.session import ModelSpec
from kernelwright.errors import InputError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceName
from kernelwright.metal.device.registry import default_device
from kernelwright.metal.device.threadgroup_memory import read_size
from kernelwright.metal.perf import find_profile
from kernelwright.search.spec import SearchSpec
from kernelwright.settings import current_settings
from kernelwright.store import default_url, url_of
from kernelwright.validation import sentence_of

DeviceChoice = DeviceName | Literal["auto"]
"""`auto` is the best that this machine has: metal, else cuda, else the simulator."""
_NUMBERS = ("candidates_per_task", "repairs", "evaluations", "seconds", "jobs")
_ARGUMENTS = {
    "candidates_per_task": "candidates",
    "threadgroup_bytes": "threadgroup_memory",
    "models": "model",
    "caps.dollars": "budget",
    "caps.tokens": "tokens",
    "caps.calls": "calls",
}


def device_of(choice: DeviceChoice) -> DeviceName:
    """Return the device that is meant.

    Raises:
        InputError: there is no such device.
    """
    if choice == "auto":
        return default_device()
    if not _is_device(choice):
        known = ", ".join(map(repr, ("auto", *get_args(DeviceName))))
        raise InputError(f"expected device to be one of {known}, found {choice!r}.")
    return choice


def _is_device(choice: object) -> TypeGuard[DeviceName]:
    return choice in get_args(DeviceName)


def store_of(store: str | Path | None) -> str:
    """Return a store's URL, which means the same wherever the program goes on to work.

    Raises:
        InputError: it is neither a path nor a URL.
    """
    if store is None:
        return default_url()
    if not isinstance(store, str | Path) or not str(store):
        raise InputError(f"expected store to be a path or a database's URL, found {store!r}.")
    return url_of(str(store))


def chip_of(chip: str | None) -> str | None:
    """Return the name of the chip whose times are predicted; None for the default one.

    Raises:
        InputError: no such chip is known.
    """
    return None if chip is None else find_profile(chip).name


def threadgroup_bytes_of(size: int | str) -> int:
    """Return what a threadgroup may take, such as `96K`.

    Raises:
        InputError: it is no size.
    """
    return read_size(str(size))


def search_spec(
    *,
    device: DeviceChoice,
    model: str | Sequence[str] | None,
    budget: float | None,
    tokens: int | None,
    calls: int | None,
    candidates: int | None,
    repairs: int | None,
    evaluations: int | None,
    seconds: float | None,
    jobs: int | None,
    base_url: str | None,
    chip: str | None = None,
    threadgroup_memory: int | str = METAL_THREADGROUP_BYTES,
) -> SearchSpec:
    """Return the settings of a search.

    Raises:
        InputError: one of them is out of range; the sentence names the argument.
        DeviceError: the device cannot have so much threadgroup memory.
    """
    settings = current_settings()
    budget = settings.budget if budget is None else budget
    tokens = settings.tokens if tokens is None else tokens
    calls = settings.calls if calls is None else calls
    model = settings.model if model is None else model
    for name, value in (("budget", budget), ("tokens", tokens), ("calls", calls)):
        least = 0 if name == "budget" else 1
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and value >= least):
            raise InputError(
                f"expected {name} to be a number of at least {least}, found {value!r}."
            )
    base_url = settings.base_url if base_url is None else base_url
    models = _models(model, base_url)
    name = device_of(device)
    given: dict[str, object] = {
        "device": name,
        "chip": chip_of(chip) if name == "simulator" else None,
        "models": models,
        "candidates_per_task": settings.candidates if candidates is None else candidates,
        "repairs": settings.repairs if repairs is None else repairs,
        "evaluations": evaluations,
        "seconds": seconds,
        "jobs": settings.jobs if jobs is None else jobs,
        "base_url": base_url,
        "threadgroup_bytes": threadgroup_bytes_of(threadgroup_memory),
    }
    _refuse_texts(given)
    try:
        caps = Caps(dollars=budget, tokens=tokens, calls=calls)
        chosen = {name: value for name, value in given.items() if value is not None}
        return SearchSpec.model_validate({**chosen, "caps": caps})
    except ValidationError as e:
        raise InputError(sentence_of(e, names=_ARGUMENTS)) from e


def refuse_idle(model: str | Sequence[str] | None, **given: object) -> None:
    """Refuse arguments that nothing reads because no model is asked.

    What settings give is no mistake: it waits for a search that asks one.

    Raises:
        InputError: there is one.
    """
    asked = current_settings().model if model is None else model
    if asked not in (None, "none", (), []):
        return
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name} is for models, and no model is asked; name one with the argument model."
            )


def _refuse_texts(given: Mapping[str, object]) -> None:
    """Refuse what pydantic would read as a number: the text '3', and True as 1.

    Raises:
        InputError: a number is a text or a truth value.
    """
    for name in _NUMBERS:
        if isinstance(value := given[name], bool | str):
            kind = "a number" if name == "seconds" else "a whole number"
            place = _ARGUMENTS.get(name, name)
            raise InputError(f"expected {place} to be {kind}, found {value!r}.")


def _models(model: str | Sequence[str] | None, base_url: str | None) -> tuple[str, ...]:
    """Return the models' names, each of which is one.

    Raises:
        InputError: one is no model's name.
    """
    if model is None:
        return ()
    names = (model,) if isinstance(model, str) else model
    if not isinstance(names, tuple | list) or not all(isinstance(n, str) for n in names):
        raise InputError(
            "expected model as a name such as 'anthropic:NAME', or a list of them, found "
            f"{model!r}."
        )
    for name in names:
        ModelSpec.parse(name, base_url)
    return tuple(names)
