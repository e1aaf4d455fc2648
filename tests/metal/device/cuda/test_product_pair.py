"""Two products that share a right factor become one call, where that cannot change a result."""

import pytest

from kernelwright.metal.device.cuda.rewrite import rewrite_body

CALL = "simdgroup_multiply_accumulate"


def body(first: str, second: str, *, before: str = "", between: str = "") -> str:
    return f"{before}{CALL}({first});{between}{CALL}({second});"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a[0], l[0], r, a[0]", "a[1], l[1], r, a[1]"),
        ("a[0][n], l[0][i], r, a[0][n]", "a[1][n], l[1][i], r, a[1][n]"),
        ("a[m], l[m], r[n], a[m]", "a[m + 1], l[m + 1], r[n], a[m + 1]"),
        ("a[m * 2][0], l, r, a[m * 2][0]", "a[m * 2 + 1][0], k, r, a[m * 2 + 1][0]"),
        ("upper, l[0], r, upper", "lower, l[1], r, lower"),
    ],
)
def test_products_of_different_sums_are_joined(first: str, second: str) -> None:
    joined = rewrite_body(body(first, second))
    assert joined == f"kw_multiply_two({first},{second});"


def test_lines_and_the_namespace_stay() -> None:
    first, second = "a[0], l, r, a[0]", "a[1], k, r, a[1]"
    text = f"x = 1;\nmetal::{CALL}({first});\n  metal::{CALL}({second});\ny = 2;"
    joined = f"x = 1;\nmetal::kw_multiply_two({first},\n  {second});\ny = 2;"
    assert rewrite_body(text) == joined


def test_three_products_are_a_pair_and_one() -> None:
    text = "".join(f"{CALL}(a[{i}], l[{i}], r, a[{i}]);" for i in range(3))
    rewritten = rewrite_body(text)
    assert rewritten.count("kw_multiply_two") == 1
    assert rewritten.endswith(f"{CALL}(a[2], l[2], r, a[2]);")


@pytest.mark.parametrize(
    "text",
    [
        body("a[0], l, r, a[0]", "a[1], k, s, a[1]"),
        body("a[0], l, r, b[0]", "a[1], k, r, b[1]"),
        body("a[i], l, r, a[i]", "a[j], k, r, a[j]"),
        body("a[i + 1], l, r, a[i + 1]", "a[i], k, r, a[i]"),
        body("a[m], l, r, a[m]", "a[m + n], k, r, a[m + n]"),
        body("a[0], l, r, a[0]", "a[0], k, r, a[0]"),
        body("a[0], l, r, a[0]", "b[0], a[1], r, b[0]"),
        body("r[0], l, r[1], r[0]", "a, k, r[1], a"),
        body("a[0], l, r, a[0]", "a[1], k, r, a[1]", before="if (is_first) "),
        body("a[0], l, r, a[0]", "a[1], k, r, a[1]", between="l = k;"),
        body("a[0], l, r, a[0]", "a[1], k, r, a[1]", between="\n#if 0\n"),
        body("a[i++], l, r, a[i]", "b, k, r, b"),
        body("a[f()], l, r, a[f()]", "b, k, r, b"),
        "auto& b = a; " + body("a, l, r, a", "b, k, r, b"),
    ],
    ids=[
        "another right factor",
        "sums of others",
        "indices that may be equal",
        "a smaller index behind",
        "an index by how much unknown",
        "the same sum",
        "a factor that was just written",
        "a right factor that was just written",
        "a condition before",
        "a statement between",
        "a directive between",
        "an index that changes",
        "an index that is called",
        "a reference",
    ],
)
def test_what_might_change_a_result_is_left_alone(text: str) -> None:
    assert "kw_multiply_two" not in rewrite_body(text)
