"""What works on this machine, found out by trying it, and how to get what does not."""

import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from kernelwright.agents.providers.key import find_key, variable_of
from kernelwright.campaign.execution.device_finding import DeviceFinding, find_devices
from kernelwright.errors import KernelwrightError
from kernelwright.extra import (
    UPGRADE,
    install_command,
    missing_by_extra,
    missing_extra,
    missing_modules,
)
from kernelwright.metal.diagnostic import Record
from kernelwright.plural import counted
from kernelwright.settings import DEFAULT, origins
from kernelwright.store import KernelStore
from kernelwright.store.location import label_of, url_of

Kind = Literal["device", "compiler", "key", "package", "store", "setting"]
_PROVIDERS = ("anthropic", "openai")
_EXTRAS = {
    "search": "finds and judges kernels",
    "models": "tunes models of mlx-lm",
    "serve": "shows the store in a browser",
    "mcp": "serves a coding agent",
    "fleet": "shares work among machines",
    "report": "draws plots",
}


class Finding(Record):
    """One thing that may be there, and what to do where it is not."""

    kind: Kind
    name: str
    works: bool
    detail: str
    remedy: str = ""
    is_needed: bool = False
    """False for what Kernelwright does without."""


def examine(store_url: str | None = None) -> Iterator[Finding]:
    """Yield what works here, thing by thing; opening devices takes a few seconds."""
    for found in find_devices():
        yield _device(found)
    yield from _compilers()
    yield from map(_key, _PROVIDERS)
    yield from _packages()
    yield _store(store_url)
    yield from _settings()


def _settings() -> Iterator[Finding]:
    """Yield each setting that somebody chose, with where."""
    for origin in origins():
        value = label_of(url_of(str(origin.value))) if origin.name == "store" else origin.value
        if origin.source != DEFAULT:
            words = ", ".join(value) if isinstance(value, tuple) else str(value)
            detail = f"{words}, from {origin.source}"
            yield Finding(kind="setting", name=origin.name, works=True, detail=detail)


def _device(found: DeviceFinding) -> Finding:
    info = found.info
    detail = found.reason
    if info is not None:
        how = "measures time" if info.measures_time else "counts work and predicts time"
        detail = f"{info.chip}, {info.runtime}; {how}"
    return Finding(
        kind="device",
        name=found.name,
        works=info is not None,
        detail=detail,
        remedy=found.remedy,
        is_needed=found.name == "simulator",
    )


def _compilers() -> Iterator[Finding]:
    yield _package("ziglang", "compiler")
    found = next((name for name in ("c++", "clang++", "g++") if shutil.which(name)), None)
    yield Finding(
        kind="compiler",
        name="C++",
        works=found is not None,
        detail=_first_line([found, "--version"]) if found else "none on PATH",
        remedy="" if found else "install a C++ compiler; mx.compile on Linux needs one",
    )
    if platform.system() == "Darwin":
        metal = _first_line(["xcrun", "-sdk", "macosx", "metal", "--version"])
        yield Finding(
            kind="compiler",
            name="Metal",
            works=bool(metal),
            detail=metal or "not installed",
            remedy="" if metal else "xcode-select --install; MLX compiles kernels without it",
        )


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def _key(provider: str) -> Finding:
    # The keyring comes with the extra that asks models.
    try:
        works = _answers(lambda: find_key(provider))
    except ImportError as e:
        if (missing := missing_extra(e)) is None:
            raise
        detail = "none; the offline agents need no key"
        return Finding(kind="key", name=provider, works=False, detail=detail, remedy=str(missing))
    return Finding(
        kind="key",
        name=provider,
        works=works,
        detail="present" if works else "none; the offline agents need no key",
        remedy="" if works else f"set {variable_of(provider)}",
    )


def _packages() -> Iterator[Finding]:
    yield Finding(
        kind="package",
        name="python",
        works=True,
        detail=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    )
    for name in ("kernelwright", "mlx", "numpy"):
        yield _package(name)
    for name in missing_modules():
        yield Finding(
            kind="package",
            name=name,
            works=False,
            detail="not installed",
            remedy=UPGRADE,
            is_needed=True,
        )
    lacking = missing_by_extra()
    for extra, purpose in _EXTRAS.items():
        modules = lacking.get(extra, ())
        yield Finding(
            kind="package",
            name=f"[{extra}]",
            works=not modules,
            detail=f"{purpose}; not installed: {', '.join(modules)}" if modules else purpose,
            remedy=f"pip install 'kernelwright[{extra}]'" if modules else "",
        )


def _package(name: str, kind: Kind = "package") -> Finding:
    try:
        detail, works = version(name), True
    except PackageNotFoundError:
        detail, works = "not installed", False
    return Finding(
        kind=kind,
        name=name,
        works=works,
        detail=detail,
        remedy="" if works else install_command(name),
        is_needed=True,
    )


def _store(url: str | None) -> Finding:
    try:
        with KernelStore(url, must_exist=True) as store:
            rows = store.statistics().rows
            counts = [counted(rows[table], table) for table in ("champion", "evaluation")]
            detail = f"{store.label}: {', '.join(counts)}"
        return Finding(kind="store", name="store", works=True, detail=detail)
    except KernelwrightError as e:
        missing = "no store at" in str(e)
        return Finding(
            kind="store", name="store", works=missing, detail=str(e), is_needed=not missing
        )


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except KernelwrightError:
        return False
    return True
