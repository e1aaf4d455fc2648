"""Sizes are polynomials over free dimensions."""

from kernelwright.ir.graph.dimension import Affine, Size, product, total


def test_sizes_multiply_and_divide_exactly() -> None:
    rows, width = Size.of({(0,): 2}), Size.of({(1,): 3})
    whole = product((rows, width))
    assert whole == Size.of({(0, 1): 6})
    assert whole.over(rows) == width
    assert rows.over(width) is None
    assert Size.number(4).over(Size.number(3)) is None


def test_sizes_add_up_and_like_terms_join() -> None:
    past, new, one = Size.symbol(0), Size.symbol(1), Size.number(1)
    both = total((past, new, one, past))
    assert both == Size.of({(0,): 2, (1,): 1, (): 1})
    assert both - new == past * Size.number(2) + one
    assert both - both == Size.number(0)
    assert both * new == Size.of({(0, 1): 2, (1, 1): 1, (1,): 1})
    assert both.over(new) is None
    assert (both - new).affine == Affine(symbol=0, factor=2, offset=1)
    assert both.affine is None
