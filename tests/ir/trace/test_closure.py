"""What a call reaches from its function."""

from collections.abc import Callable

from kernelwright.ir.trace.closure import reachable


class Late:
    """Puts an attribute into its class when somebody asks for one, as pydantic's builders do."""

    def __getattr__(self, name: str) -> object:
        setattr(Built, f"made_{len(vars(Built))}", name)
        raise AttributeError(name)


class Built:
    late = Late()

    def method(self) -> int:
        return 1


def test_a_class_may_change_while_its_members_are_read() -> None:
    built = Built()
    fn: Callable[[], int] = lambda: built.method()  # noqa: E731
    assert Built.method in list(reachable(fn))
