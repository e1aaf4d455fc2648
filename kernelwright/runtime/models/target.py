"""The model that a user names: a repository, a folder, a configuration, or a file's own module."""

import importlib.util
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize

from kernelwright.errors import InputError, KernelwrightError
from kernelwright.validation import json_of, shown

REPOSITORY = "mlx-lm:"
_HOW = "expected mlx-lm:REPO, a folder with weights, a config.json, or file.py:model"


@dataclass(frozen=True)
class Target:
    """A model and how it is called."""

    name: str
    model: Module
    example_inputs: tuple[object, ...] | None = None
    """For a module that is no language model."""

    @property
    def generates(self) -> bool:
        """Say whether it is a language model, with caches of mlx-lm."""
        return self.example_inputs is None


def load_target(text: str, *, seed: int = 0) -> Target:
    """Build the model that a user names.

    Raises:
        InputError: there is no such model; one sentence says what was expected.
    """
    if text.startswith(REPOSITORY):
        return _repository(text.removeprefix(REPOSITORY))
    path, _, name = text.partition(":")
    place = Path(path).expanduser()
    if place.suffix == ".py":
        return _own(place, name)
    if place.is_dir():
        return Target(place.name, _loaded(place))
    if place.suffix == ".json":
        return _from_config(place, seed)
    raise InputError(f"{_HOW}; found {text!r}.")


def _repository(repository: str) -> Target:
    _need_mlx_lm()
    from mlx_lm.utils import _download

    try:
        path = _download(repository)
    except Exception as e:
        raise InputError(f"{repository} cannot be had: {e}") from e
    return Target(repository, _loaded(Path(path)))


def _loaded(folder: Path) -> Module:
    _need_mlx_lm()
    from mlx_lm.utils import load_model

    try:
        return cast("Module", load_model(folder)[0])
    except (FileNotFoundError, ValueError, KeyError, RecursionError) as e:
        raise InputError(f"{folder} holds no model that mlx-lm can load: {e}") from e


def _from_config(path: Path, seed: int) -> Target:
    try:
        config = json_of(path.read_text())
    except (OSError, ValueError) as e:
        raise InputError(f"{path} cannot be read as a configuration: {e}") from e
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"expected model_type in {path}, the name of an mlx-lm architecture.")
    name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
    model = build_model(config, seed=seed)
    _check_call(model, path)
    return Target(name, model)


def _check_call(model: Module, path: Path) -> None:
    """Refuse a configuration whose sizes do not fit each other, without computing a value.

    What MLX cannot run on this machine it refuses when it computes.
    """
    from mlx_lm.models.cache import make_prompt_cache

    def call() -> None:
        token = mx.zeros((1, 1), dtype=mx.uint32)
        with suppress(RuntimeError):
            model(token, cache=make_prompt_cache(model))

    _asked(call, f"mlx-lm builds a model of {path} that cannot be called")


def build_model(config: dict[str, object], *, seed: int = 0) -> Module:
    """Build a model of a configuration with random weights, quantized where it says so.

    Raises:
        InputError: mlx-lm has no such architecture, or it refuses the configuration.
    """
    _need_mlx_lm()
    from mlx_lm.utils import _get_classes

    mx.random.seed(seed)
    try:
        kind, arguments = _get_classes(config)
        model = cast("Module", kind(arguments.from_dict(config)))
        model.set_dtype(_dtype(config))
        found = config.get("quantization")
        if isinstance(found, dict):
            quantize(model, group_size=found.get("group_size", 64), bits=found.get("bits", 4))
        mx.eval(model.parameters())  # type: ignore[no-untyped-call]
    except KernelwrightError:
        raise
    except Exception as e:
        # What a number of a configuration breaks is told by the code of an architecture alone.
        raise InputError(
            f"mlx-lm cannot build {shown(config.get('model_type'))}: {type(e).__name__}: "
            f"{_first_line(e)}"
        ) from e
    model.eval()
    return model


def _dtype(config: dict[str, object]) -> mx.Dtype:
    named = config.get("torch_dtype") or config.get("dtype") or "auto"
    known = {"auto": mx.bfloat16, "bfloat16": mx.bfloat16}
    known |= {"float16": mx.float16, "float32": mx.float32}
    if not isinstance(named, str) or named.removeprefix("torch.") not in known:
        raise InputError(
            f"expected torch_dtype to be one of {', '.join(known)}, found {shown(named)}."
        )
    return known[named.removeprefix("torch.")]


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _own(path: Path, name: str) -> Target:
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    name = name or "model"
    _asked(lambda: spec.loader.exec_module(module), f"{path} cannot be imported")  # type: ignore[union-attr]
    model = getattr(module, name, None)
    if callable(model) and not isinstance(model, Module):
        model = _asked(model, f"{name}() of {path} makes no mlx.nn.Module")
    if not isinstance(model, Module):
        raise InputError(f"expected an mlx.nn.Module {name!r} in {path}, found {model!r}.")
    make: Callable[[], object] | None = getattr(module, "example_inputs", None)
    if make is None:
        raise InputError(
            f"{path} does not say what {name} is called with; define example_inputs()."
        )
    made = _asked(make, f"example_inputs() of {path} fails")
    inputs = _inputs(made.get(name, made) if isinstance(made, dict) else made)
    _asked(lambda: model(*inputs), f"{name} of {path} cannot be called with its example_inputs()")
    return Target(path.stem, model, inputs)


def _inputs(made: object) -> tuple[object, ...]:
    """Return a model's arguments in order, as `kernelwright search` takes them, too."""
    if isinstance(made, dict):
        raise InputError(
            "expected example_inputs() to return a tuple of arguments, or a dict of such tuples by "
            f"name, found a dict with {', '.join(map(str, made)) or 'nothing'}."
        )
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def _asked(question: Callable[[], object], what: str) -> object:
    """Run code of the user's, whose errors are the user's."""
    try:
        return question()
    except (Exception, SystemExit) as e:
        raise InputError(f"{what}: {type(e).__name__}: {_first_line(e)}") from e


def _need_mlx_lm() -> None:
    if importlib.util.find_spec("mlx_lm") is None:
        raise InputError(
            "mlx-lm is not installed; install it with: pip install 'kernelwright[models]'."
        )
