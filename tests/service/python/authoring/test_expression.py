"""Lines in Python's and Metal's spelling compute what MLX does, and errors name their place."""

import math

import mlx.core as mx
import pytest

import kernelwright as kw
from kernelwright.errors import InputError
from kernelwright.service.python.authoring.expression import parse

X = mx.array([-2.0, -0.5, 0.0, 0.25, 3.0])
Y = mx.array([1.0, -1.0, 2.0, 0.5, -3.0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x * sigmoid(y)", X * mx.sigmoid(Y)),
        ("x > 0.0f ? x : 0.1f * metal::exp(y)", mx.where(X > 0, X, 0.1 * mx.exp(Y))),
        ("x if x > 0 else 0.1 * mx.exp(y)", mx.where(X > 0, X, 0.1 * mx.exp(Y))),
        ("x > 0 ? 1.0 : y > 0 ? 2.0 : 3.0", mx.where(X > 0, 1.0, mx.where(Y > 0, 2.0, 3.0))),
        ("max(x, (y > 0 ? y : x), 0)", mx.maximum(mx.maximum(X, mx.where(Y > 0, Y, X)), 0)),
        ("x > 0 && !(y < 0) || x == y ? x : y", mx.where(((X > 0) & (Y >= 0)) | (X == Y), X, Y)),
        ("-1 < x && x <= 1 ? x : y", mx.where((X > -1) & (X <= 1), X, Y)),
        ("!x == y ? x : y", mx.where(mx.logical_not(X) == Y, X, Y)),
        ("not x == y ? x : y", mx.where(X != Y, X, Y)),
        ("(float)(x) * uint(abs(y)) + !!x;", X * mx.abs(Y).astype(mx.uint32) + (X != 0)),
        ("metal::precise::tanh(x) + fma(x, y, .5f)", mx.tanh(X) + X * Y + 0.5),
        ("x / (1 + fabs(y)) ** 2", X / mx.square(1 + mx.abs(Y))),
        ("clamp(x, -1, 1) + pi * exp(0) + y - y", mx.clip(X, -1, 1) + math.pi + Y - Y),
        ("select(x, y, x < y)", mx.where(X < Y, Y, X)),
    ],
)
def test_a_line_computes_what_mlx_does(text: str, expected: mx.array) -> None:
    function = kw.elementwise(text, names=["x", "y"])
    assert mx.allclose(function(X, Y), expected, atol=1e-6, rtol=1e-6)


NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "arrays", "expected"),
    [
        ("metal::fmod(x, y)", ([-7.0, 7.0, 7.5], [3.0, -3.0, 2.0]), [-1.0, 1.0, 1.5]),
        ("fmod(x, y)", ([-7.0, 7.0], [3.0, -3.0]), [-1.0, 1.0]),
        ("x % y + 0", ([-7.0, 7.0], [3.0, -3.0]), [2.0, -2.0]),
        ("mx.remainder(x, y)", ([-7.0, 7.0], [3.0, -3.0]), [2.0, -2.0]),
        ("metal::round(x)", ([0.5, 2.5, -0.5, -1.5, 0.49999997],), [1.0, 3.0, -1.0, -2.0, 0.0]),
        ("round(x)", ([0.5, 2.5, -1.5],), [0.0, 2.0, -2.0]),
        ("rint(x)", ([0.5, 2.5, -1.5],), [0.0, 2.0, -2.0]),
        ("metal::max(x, y)", ([NAN, 1.0], [2.0, NAN]), [2.0, 1.0]),
        ("fmin(x, 2)", ([NAN, 1.0, 3.0],), [2.0, 1.0, 2.0]),
        ("max(x, 2)", ([NAN, 1.0, 3.0],), [NAN, 2.0, 3.0]),
        ("clamp(x, -1, 1)", ([NAN, -3.0, 0.5],), [-1.0, -1.0, 0.5]),
        ("metal::sign(x)", ([NAN, -3.0, 0.0],), [0.0, -1.0, 0.0]),
    ],
)
def test_what_only_metal_spells_means_what_metal_computes(
    text: str, arrays: tuple[list[float], ...], expected: list[float]
) -> None:
    made = kw.elementwise(text)(*map(mx.array, arrays))
    assert mx.array_equal(made, mx.array(expected), equal_nan=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x & 3 == 3", "parentheses where & stands beside a comparison, .* at column 1"),
        ("x != y ^ 1", "parentheses where \\^ stands beside a comparison, .* at column 6"),
        ("x < y < z", "one comparison at a time, .* write x < y and y < z"),
        ("x == y != z", "one comparison at a time"),
        ("~x", "found '~'"),
        ("x; -y", "found ';' with more behind it"),
        ("x--y", "found '--'"),
        ("++x", "found '\\+\\+'"),
        ("(float)x * y", "write float\\(x\\), at column 1"),
        ("y + (half)-x", "write half\\(x\\), at column 5"),
        ("static_cast<int>(x)", "write int\\(x\\)"),
        ("metal::erf(x)", "a function of Metal, found 'erf' .* write erf without a prefix"),
        ("metal::nonsense(x)", "a function of Metal, found 'nonsense'"),
        ("mx.max(x, y)", "found 'max' .* write max\\(x\\) for a row, or maximum\\(x, y\\)"),
        ("math.remainder(x, y)", "a function of Python's math, found 'remainder'"),
        ("foo::exp(x)", "found 'foo.exp'"),
        ("sum + maximum(x, sum) + maximum", "expected maximum to be called"),
    ],
)
def test_what_the_two_languages_read_differently_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        kw.elementwise(text)


def test_a_name_is_an_array_or_a_function() -> None:
    with pytest.raises(InputError, match="'max' to name an array or a function, found both"):
        kw.elementwise("max(x, max)", names=["x", "max"])


@pytest.mark.parametrize("text", ["x+" * 3000 + "x", "x+" * 6000 + "x", "y * " * 90 + "sigmod(x)"])
def test_a_long_line_is_quoted_in_part(text: str) -> None:
    with pytest.raises(InputError) as told:
        kw.elementwise(text)
    assert len(str(told.value)) < 400


def test_numbers_promote_as_mlx_has_it() -> None:
    whole = mx.array([1, 2], dtype=mx.uint8)
    assert kw.elementwise("x + 1")(whole).dtype == mx.uint8
    assert kw.elementwise("x * 2.5")(whole).dtype == mx.float32
    with pytest.raises(InputError, match="overflow; write a number that the dtype holds"):
        kw.elementwise("x + 256")(whole)


def test_functions_are_listed_once_where_none_is_near() -> None:
    with pytest.raises(InputError, match="known are") as refused:
        kw.elementwise("x * qqq(y)")
    listed = str(refused.value).partition("known are ")[2].rstrip(".").split(", ")
    assert {"max", "sum", "sigmoid"} <= set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_numbers_take_the_arrays_dtype(dtype: mx.Dtype) -> None:
    made = kw.elementwise("max(x, 0.5) * 2.0f + exp(1.0)")(X.astype(dtype))
    assert isinstance(made, mx.array)
    assert made.dtype == dtype


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x * sigmod(y)", "'sigmod' at column 5 of 'x .*'; did you mean 'sigmoid'"),
        ("x + metal::nonsense_of(y)", "'nonsense_of' at column 5"),
        ("x > 0 ? 1.0f : foo(x)", "'foo' at column 16"),
        ("x +", "invalid syntax at column 3"),
        ("x * (y + 1", "closing parenthesis for the '\\(' at column 5"),
        ("x) + (y", "opening parenthesis for the '\\)' at column 2"),
        ("x > 0 ? y", "expected ':' after the '\\?' at column 7"),
        ("x[0] + y", "found an index at column 1"),
        ("y + x.shape", "found an attribute at column 5"),
        ("x // y", "at column 1"),
        ("sum(x)", "found sum over a row at column 1 .* use kernelwright.rowwise"),
        ("exp(x, y)", "expected 1 argument of exp, found 2"),
        ("fma(x, y)", "expected 3 arguments of fma, found 2 at column 1"),
        ("exp + x", "expected exp to be called, as exp\\(x\\), found it alone at column 1"),
        ("__import__('os')", "expected a function of expressions, found '__import__'"),
        ("exp(x=1)", "arguments by position alone at column 1"),
        ("[x for x in y]", "at column 1"),
        ("x.__class__.__mro__", "found an attribute"),
        ("1 + 2", "to read an array, found numbers alone"),
        ("", "expected an expression such as"),
        ("\0", "expected an expression"),
        ("-" * 5000 + "x", "expected"),
    ],
)
def test_a_bad_line_is_one_sentence_that_names_the_place(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        kw.elementwise(text)


def test_names_are_parameters_in_order_of_appearance() -> None:
    assert parse("b * a + exp(b) + pi").names == ("b", "a")


def test_unknown_names_are_refused_where_the_parameters_are_given() -> None:
    with pytest.raises(InputError, match="to read only x, found 'y'; add it to names"):
        kw.elementwise("x + y", names=["x"])


def test_arrays_that_do_not_fit_are_one_sentence() -> None:
    function = kw.elementwise("x + y", name="added")
    with pytest.raises(InputError, match=r"added can be computed, found x float32\[5\], y"):
        function(X, mx.zeros((3,)))
    with pytest.raises(InputError, match=r"expected added\(x, y\), found a call with missing"):
        function(X)
    with pytest.raises(InputError, match="a number as y of added, found str"):
        function(X, "y")
