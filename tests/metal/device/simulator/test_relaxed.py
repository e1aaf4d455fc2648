"""Relaxed atomics order nothing: what threadgroups hand to each other needs two fences."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator.dispatch import workers_of

_GROUPS = 8
_HEAD = """#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* x [[buffer(0)]], device atomic_uint* parts [[buffer(1)]],
    device atomic_uint* count [[buffer(2)]], device float* y [[buffer(3)]],
    uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]],
    uint g [[threadgroup_position_in_grid]], uint n [[threadgroups_per_grid]]) {
"""
_FENCE = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);"


def _last_adds_up(*, before: str, after: str) -> str:
    """Return a kernel whose last threadgroup adds up what all have stored."""
    return f"""
      float s = simd_sum(x[i]);
      if (t == 0) {{
        atomic_store_explicit(&parts[g], as_type<uint>(s), memory_order_relaxed);
        {before}
        if (atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == n - 1) {{
          {after}
          float all = 0;
          for (uint j = 0; j < n; j++)
            all += as_type<float>(atomic_load_explicit(&parts[j], memory_order_relaxed));
          y[0] = all;
        }}
      }}
    }}"""


def _sum(body: str) -> tuple[float, float]:
    """Run a kernel under the sanitizer; return what it left in y and in the first part."""
    x = np.arange(32 * _GROUPS, dtype=np.float32)
    parts, count = np.zeros(_GROUPS, np.uint32), np.zeros(1, np.uint32)
    y = np.zeros(1, np.float32)
    outcome = simulator.compile(_HEAD + body).kernel("k").launch(
        {"x": x, "parts": parts, "count": count, "y": y},
        grid=(x.size, 1, 1), threadgroup=(32, 1, 1), sanitize=True,
    )  # fmt: skip
    assert outcome.reports == ()
    return float(y[0]), float(parts.view(np.float32)[0])


TOTAL = sum(range(32 * _GROUPS))


@pytest.mark.parametrize(("before", "after"), [("", ""), (_FENCE, ""), ("", _FENCE)])
def test_a_load_misses_what_no_two_fences_order(before: str, after: str) -> None:
    assert _sum(_last_adds_up(before=before, after=after))[0] != TOTAL


def test_fences_on_both_sides_order_stores_and_loads() -> None:
    assert _sum(_last_adds_up(before=_FENCE, after=_FENCE))[0] == TOTAL


@pytest.mark.parametrize(
    "body",
    [
        """
        uint old = atomic_load_explicit(parts, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(parts, &old,
            as_type<uint>(as_type<float>(old) + x[i]), memory_order_relaxed,
            memory_order_relaxed)) {}
        """,
        """
        bool is_done = false;
        while (!is_done) {
          uint old = atomic_load_explicit(parts, memory_order_relaxed);
          is_done = atomic_compare_exchange_weak_explicit(parts, &old,
              as_type<uint>(as_type<float>(old) + x[i]), memory_order_relaxed,
              memory_order_relaxed);
        }
        """,
    ],
)
def test_an_exchange_sees_the_last_value_in_any_order(body: str) -> None:
    assert _sum(body + "if (i == 0) y[0] = 0; }")[1] == TOTAL


def test_a_maximum_may_look_before_it_exchanges() -> None:
    body = """
      uint v = as_type<uint>(x[i]);
      if (atomic_load_explicit(parts, memory_order_relaxed) < v)
        atomic_fetch_max_explicit(parts, v, memory_order_relaxed);
      if (i == 0) y[0] = 0; }"""
    assert _sum(body)[1] == 32 * _GROUPS - 1


def test_small_launches_in_a_drawn_order_run_one_threadgroup_after_the_other() -> None:
    assert workers_of((1024, 4, 1), (32, 1, 1), RunOptions(order_seed=7)) == 1


def test_a_single_threadgroup_takes_a_single_core() -> None:
    assert workers_of((1024, 1, 1), (1024, 1, 1), RunOptions()) == 1


def test_a_loop_that_waits_for_another_threadgroup_sees_its_store_in_the_end() -> None:
    look_back = """
      uint part = 0;
      if (t == 0) part = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
      part = simd_broadcast_first(part);
      uint own = uint(simd_sum(x[part * 32 + t]));
      if (t == 0) {
        uint before = part > 0 ? 0 : 0x80000000;
        while (before == 0)
          before = atomic_load_explicit(parts + part - 1, memory_order_relaxed);
        atomic_store_explicit(parts + part, before + own | 0x80000000, memory_order_relaxed);
        if (part == n - 1) y[0] = float(before + own & 0x7fffffff);
      }
    }"""
    assert _sum(look_back)[0] == TOTAL
