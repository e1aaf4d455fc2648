"""Nests of inputs as text: dicts, lists, tuples and records such as `shop.Order(price=f32[8])`."""

import ast
import enum
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType

from kernelwright.errors import UsageError

INNER_TYPE = re.compile(r"\b(?!\d)\w+\[[\w\s.,]*\]")
"""A type inside a nest."""
INNER_RECORD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\(")
"""How the text of a dataclass or a named tuple begins: its module, its name, its values."""
INNER_MEMBER = re.compile(r"(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*(?![\w.(])")
"""The text of a member of an enumeration: its module, its class, its name."""
SUBJECT = "kernelwright_subject_"
"""How the name begins under which a user's file is imported, `shop.py` for one."""
_PLACE = "kernelwright_type_"


def values_in(nest: object) -> Iterator[object]:
    """Yield the leaves of a nest."""
    children = _children(nest)
    if children is None:
        yield nest
        return
    for child in children.values():
        yield from values_in(child)


def replaced(nest: object, leaf: Callable[[object], object]) -> object:
    """Return a nest with each of its leaves replaced; it is not the one that was given."""
    children = _children(nest)
    if children is None:
        return leaf(nest)
    return _like(nest, {key: replaced(child, leaf) for key, child in children.items()})


def written_nest(nest: object, leaf: Callable[[object], str]) -> str:
    """Write a nest as `read_nest` reads it.

    Raises:
        TypeError: it holds an object that has no text, or is of a class that no module holds.
    """
    children = _children(nest)
    if children is None:
        raise TypeError(f"expected an array or a plain value, found {type(nest).__name__}")
    if not isinstance(nest, dict) and not set(getattr(nest, "__dict__", ())) <= set(children):
        raise TypeError(f"expected fields alone, found more in {type(nest).__name__}")
    texts = {key: _inner_text(child, leaf) for key, child in children.items()}
    if isinstance(nest, dict):
        if not all(isinstance(key, str | int) for key in texts):
            raise TypeError("expected texts or whole numbers as keys")
        return "{" + ", ".join(f"{key!r}: {text}" for key, text in texts.items()) + "}"
    if type(nest) is list:
        return f"[{', '.join(texts.values())}]"
    if type(nest) is tuple:
        return f"({', '.join(texts.values())}{',' if len(texts) == 1 else ''})"
    path = f"{type(nest).__module__.removeprefix(SUBJECT)}.{type(nest).__qualname__}"
    home = type(nest).__module__
    if not INNER_RECORD.match(f"{path}(") or _class_at(path, home) is not type(nest):
        raise TypeError(f"expected a class that its module holds, found {path}")
    return f"{path}({', '.join(f'{key}={text}' for key, text in texts.items())})"


def written_member(member: enum.Enum) -> str:
    """Write a member of an enumeration as `read_nest` reads it.

    Raises:
        TypeError: no module holds its class, or it has no name of its own.
    """
    kind = type(member)
    path = f"{kind.__module__.removeprefix(SUBJECT)}.{kind.__qualname__}.{member.name}"
    is_found = _class_at(path.rpartition(".")[0], kind.__module__) is kind
    if not INNER_MEMBER.fullmatch(path) or not is_found or member.name not in kind.__members__:
        raise TypeError(f"expected a member that has a name, found {member!r}")
    return path


def read_nest(text: str, leaf: Callable[[str], object], home: str = "") -> object:
    """Read a nest; `leaf` reads each of the types in it.

    Nothing of it is executed but the defaults of fields that it leaves out; a class is one of a
    module that is imported already, of the module `home` before all others.

    Raises:
        ValueError: it is no nest of types and plain values.
        SyntaxError: likewise.
        UsageError: a record lacks a field or has no such field, or there is no such class.
    """
    types: list[str] = []

    def placed(found: re.Match[str]) -> str:
        types.append(found[0])
        return f"{_PLACE}{len(types) - 1}"

    parsed = ast.parse(INNER_TYPE.sub(placed, text), mode="eval").body
    return _value(parsed, lambda name: leaf(types[int(name.removeprefix(_PLACE))]), home)


def _inner_text(child: object, leaf: Callable[[object], str]) -> str:
    if isinstance(child, str) and INNER_TYPE.search(child) and INNER_TYPE.sub("", child).strip():
        raise TypeError(f"expected no type within a text, found {child!r}")
    return leaf(child)


def _value(node: ast.expr, leaf: Callable[[str], object], home: str) -> object:
    match node:
        case ast.Name(id=name) if name.startswith(_PLACE):
            return leaf(name)
        case ast.Dict(keys=keys, values=values):
            names = [ast.literal_eval(key) for key in keys if key is not None]
            return {n: _value(v, leaf, home) for n, v in zip(names, values, strict=True)}
        case ast.List(elts=items):
            return [_value(item, leaf, home) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item, leaf, home) for item in items)
        case ast.Attribute(value=owner, attr=name):
            members = _known_class(ast.unparse(owner), home)
            if not isinstance(members, enum.EnumMeta) or name not in members.__members__:
                raise ValueError(f"no member of an enumeration {ast.unparse(node)}")
            return members.__members__[name]
        case ast.Call(func=function, args=[], keywords=keywords):
            kind = _known_class(ast.unparse(function), home)
            if not _is_record_class(kind):
                raise ValueError(f"no dataclass or named tuple {ast.unparse(function)}")
            given = {str(k.arg): _value(k.value, leaf, home) for k in keywords}
            return _record(kind, _completed(kind, given))
    if any(isinstance(n, ast.Constant) and _PLACE in str(n.value) for n in ast.walk(node)):
        raise ValueError("a type within a text")
    return ast.literal_eval(node)


def _children(nest: object) -> Mapping[object, object] | None:
    """Return what a nest holds, by keys, places or names of fields; None for a leaf."""
    if type(nest) is dict:
        return nest
    if isinstance(nest, list | tuple) and type(nest) in (list, tuple):
        return dict(enumerate(nest))
    if not _is_record_class(type(nest)):
        return None
    if isinstance(nest, tuple):
        return dict(zip(_field_names(type(nest)), nest, strict=True))
    return {n: getattr(nest, n) for n in _field_names(type(nest)) if hasattr(nest, n)}


def _like(nest: object, children: Mapping[object, object]) -> object:
    if type(nest) is dict:
        return dict(children)
    if type(nest) is list:
        return list(children.values())
    if type(nest) is tuple:
        return tuple(children.values())
    return _record(type(nest), {str(name): child for name, child in children.items()})


def _completed(kind: type, values: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values of a record's fields, with the defaults of those that were left out."""
    names, made = _field_names(kind), dict(values)
    if issubclass(kind, tuple):
        made = {**getattr(kind, "_field_defaults", {}), **made}
    else:
        for each in fields(kind):  # type: ignore[arg-type]
            if each.name not in made and each.default is not MISSING:
                made[each.name] = each.default
            elif each.name not in made and each.default_factory is not MISSING:
                made[each.name] = each.default_factory()
    wrong = next((name for name in (*values, *names) if (name in made) != (name in names)), None)
    if wrong is not None:
        raise UsageError(
            f"expected {kind.__qualname__}({'=…, '.join(names)}=…), found "
            f"{'the' if wrong in made else 'no'} field {wrong!r}; write each field that has no "
            "default by its name."
        )
    return {name: made[name] for name in names}


def _record(kind: type, values: Mapping[str, object]) -> object:
    """Return a record of these values, as it would be after its `__init__`."""
    if issubclass(kind, tuple):
        return kind(**values)  # a named tuple takes its fields by name
    made = kind.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _is_record_class(kind: type) -> bool:
    """Say whether a class is a dataclass that only holds values, or a named tuple."""
    if kind.__module__.startswith("kernelwright."):
        # What texts are read into, such as a type, are records of ours.
        return False
    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_make")
    return is_named_tuple or (is_dataclass(kind) and "__call__" not in dir(kind))


def _field_names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, tuple):
        return tuple(getattr(kind, "_fields", ()))
    return tuple(f.name for f in fields(kind))  # type: ignore[arg-type]


def names_member(text: str, home: str) -> bool:
    """Say whether a text is a member of an enumeration, as `read_nest` reads it."""
    if not INNER_MEMBER.fullmatch(text):
        return False
    owner, _, name = text.rpartition(".")
    return name in getattr(_class_at(owner, home), "__members__", ())


def _known_class(path: str, home: str) -> type:
    """Return the class of a dotted path.

    Raises:
        UsageError: there is none.
    """
    kind = _class_at(path, home)
    if kind is None:
        own = getattr(sys.modules.get(home), "__file__", None)
        raise UsageError(
            f"expected a class, found no {path!r}{f' in {own}' if own else ''} or in a module "
            "that is imported; write its name as the file does, or its module and its name."
        )
    return kind


def _class_at(path: str, home: str) -> type | None:
    """Return the class of a dotted path; None where no module that is imported has it."""
    for module, names in _readings(path.split("."), home):
        found: object = module
        for name in names:
            found = getattr(found, name, None)
        if isinstance(found, type):
            return found
    return None


def _readings(parts: list[str], home: str) -> Iterator[tuple[ModuleType, list[str]]]:
    """Yield the modules that a dotted path may begin with, each with the names that are left.

    A file may be imported twice: where the path begins with that of the module `home`, as
    `shop.Order` or `store.shop.Order`, it is meant; then what it calls so; then any module.
    """
    counts = range(len(parts) - 1, 0, -1)
    own = sys.modules.get(home)
    if own is not None:
        file = Path(getattr(own, "__file__", None) or home).with_suffix("").parts
        yield from ((own, parts[n:]) for n in counts if tuple(parts[:n]) == file[-n:])
        yield own, parts
    for count in counts:
        name = ".".join(parts[:count])
        module = sys.modules.get(name) or sys.modules.get(f"{SUBJECT}{name}")
        if module is not None:
            yield module, parts[count:]
