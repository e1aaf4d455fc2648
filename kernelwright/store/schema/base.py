"""What every table shares: names for constraints, and moments that keep their time zone."""

import struct
from datetime import UTC, datetime
from typing import get_args

from sqlalchemy import CheckConstraint, DateTime, LargeBinary, MetaData, String, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator


class Moment(TypeDecorator[datetime]):
    """A UTC moment; SQLite would drop the zone and hand back a naive one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC on the way in."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Attach UTC on the way out."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text of any length as every database takes it: PostgreSQL refuses NUL and lone surrogates."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what cannot be stored."""
        return None if value is None else storable(value)


class Doubles(TypeDecorator[tuple[float, ...]]):
    """Numbers as little-endian doubles."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[float, ...] | None, dialect: Dialect) -> bytes | None:
        """Pack them on the way in."""
        return None if value is None else struct.pack(f"<{len(value)}d", *value)

    def process_result_value(
        self, value: bytes | None, dialect: Dialect
    ) -> tuple[float, ...] | None:
        """Unpack them on the way out."""
        return None if value is None else struct.unpack(f"<{len(value) // 8}d", value)


class Label(TypeDecorator[str]):
    """A short name; SQLite would keep a longer one and PostgreSQL refuse it, so it is cut."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self._length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Cut what does not fit."""
        return None if value is None else storable(value)[: self._length]


def storable(text: str) -> str:
    """Return the text with the characters replaced that no database column takes."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def one_of(column: str, values: object) -> CheckConstraint:
    """Let a column hold the values of a `Literal` only."""
    listed = ", ".join(f"'{value}'" for value in get_args(values))
    return CheckConstraint(f"{column} IN ({listed})", name=column)


class Base(DeclarativeBase):
    """The registry of tables; identifiers are 64 hex digits unless a row is a plain log line."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map = {datetime: Moment}  # noqa: RUF012
