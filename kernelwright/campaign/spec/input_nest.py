"""Nests of inputs as text: dicts, lists, tuples and records such as `shop.Order(price=f32[8])`."""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass

INNER_TYPE = re.compile(r"\b(?!\d)\w+\[[\w\s.,]*\]")
"""A type inside a nest."""
INNER_RECORD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\(")
"""How the text of a dataclass or a named tuple begins: its module, its name, its values."""
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
    if not INNER_RECORD.match(f"{path}(") or _class_at(path) is not type(nest):
        raise TypeError(f"expected a class that its module holds, found {path}")
    return f"{path}({', '.join(f'{key}={text}' for key, text in texts.items())})"


def read_nest(text: str, leaf: Callable[[str], object]) -> object:
    """Read a nest; `leaf` reads each of the types in it.

    Nothing of it is executed; a class is one of a module that is imported already.

    Raises:
        ValueError: it is no nest of types and plain values.
        SyntaxError: likewise.
    """
    types: list[str] = []

    def placed(found: re.Match[str]) -> str:
        types.append(found[0])
        return f"{_PLACE}{len(types) - 1}"

    parsed = ast.parse(INNER_TYPE.sub(placed, text), mode="eval").body
    return _value(parsed, lambda name: leaf(types[int(name.removeprefix(_PLACE))]))


def _inner_text(child: object, leaf: Callable[[object], str]) -> str:
    if isinstance(child, str) and INNER_TYPE.search(child) and INNER_TYPE.sub("", child).strip():
        raise TypeError(f"expected no type within a text, found {child!r}")
    return leaf(child)


def _value(node: ast.expr, leaf: Callable[[str], object]) -> object:
    match node:
        case ast.Name(id=name) if name.startswith(_PLACE):
            return leaf(name)
        case ast.Dict(keys=keys, values=values):
            names = [ast.literal_eval(key) for key in keys if key is not None]
            return {n: _value(v, leaf) for n, v in zip(names, values, strict=True)}
        case ast.List(elts=items):
            return [_value(item, leaf) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item, leaf) for item in items)
        case ast.Call(func=function, args=[], keywords=keywords):
            kind = _class_at(ast.unparse(function))
            if kind is None or not _is_record_class(kind):
                raise ValueError(f"no dataclass or named tuple {ast.unparse(function)}")
            return _record(kind, {str(k.arg): _value(k.value, leaf) for k in keywords})
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
    return {name: getattr(nest, name) for name in _field_names(type(nest))}


def _like(nest: object, children: Mapping[object, object]) -> object:
    if type(nest) is dict:
        return dict(children)
    if type(nest) is list:
        return list(children.values())
    if type(nest) is tuple:
        return tuple(children.values())
    return _record(type(nest), {str(name): child for name, child in children.items()})


def _record(kind: type, values: Mapping[str, object]) -> object:
    """Return a record of these values, as it would be after its `__init__`."""
    if set(values) != set(_field_names(kind)):
        raise ValueError(f"{kind.__qualname__} has the fields {', '.join(_field_names(kind))}")
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


def _class_at(path: str) -> type | None:
    """Return the class of a dotted path whose module or file is imported."""
    parts = path.split(".")
    if parts[0] not in sys.modules:
        parts[0] = f"{SUBJECT}{parts[0]}"
    for count in range(len(parts) - 1, 0, -1):
        found: object = sys.modules.get(".".join(parts[:count]))
        if found is None:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found if isinstance(found, type) else None
    return None
