"""Models with If, Loop and Scan in ONNX's text form, each with several sets of inputs for one compiled program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Feeds = dict[str, Any]


@dataclass(frozen=True)
class ControlCase:
    """A graph with its feeds; ``eager`` is False where torch's own operator cannot run every one of them."""

    name: str
    graph: str
    feeds: list[Feeds]
    opset: int = 17
    eager: bool = True
    expected: list[Any] = field(default_factory=list)


TRIPS = (0, 1, 2, 17)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers that are neither equal nor regular."""
    return np.sin(np.arange(np.prod(shape), dtype=np.float32) * 1.7 + 0.3).reshape(shape).astype(np.float32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    """A list of integers; one of them is 0-d."""
    return np.array(values if len(values) != 1 else values[0], np.int64)


def trips(**others: Any) -> list[Feeds]:
    """The same feeds for every trip count ``m``."""
    return [{"m": i64(count), **others} for count in TRIPS]


LOOPS = [
    ControlCase(
        "a_carried_value_gets_its_rank_in_the_first_turn",
        """g (float x, float[N] step, int64 m) => (float[K] y, float[T, K] rows)
            <bool keep = {1}, int64 many = {1000}> {
            y, rows = Loop <body = b (int64 i, bool c, v) => (bool d, w, row) {
                d = Less(i, m)
                w = Add(v, step)
                row = Identity(w)
            }> (many, keep, x)
        }""",
        [{"x": np.array(0.5, np.float32), "step": f32(n), "m": i64(m)} for n in (1, 4) for m in (0, 2)],
        eager=False,
    ),
    ControlCase(
        "broadcast_by_the_first_turns",
        """g (int64 m, float[1, 3] x, float[N, 1] y) => (float[A, 3] last, float[B, C] late, float[T, 3] sums) {
            last, late, sums = Loop <body = b (int64 i, bool on, float[?, 3] a, float[?, ?] l)
                => (bool go, float[?, 3] c, float[?, ?] k, float[3] sum) {
                go = Identity(on)
                c = Add(a, y)
                k = Add(l, a)
                sum = ReduceSum<keepdims = 0>(c, axis)
            }> (m, , x, x)
        }""".replace("last, late, sums =", "axis = Constant <value_ints = [0]> ()\n            last, late, sums =", 1),
        trips(x=f32(1, 3), y=f32(4, 1)) + trips(x=f32(1, 3), y=f32(1, 1)),
    ),
    ControlCase(
        "counted",
        """g (int64 m, float[N] x) => (float[N] last, float[T, N] rows) {
            last, rows = Loop <body = b (int64 i, bool on, float[N] a) => (bool go, float[N] c, float[N] row) {
                go = Identity(on)
                c = Add(a, x)
                row = Neg(c)
            }> (m, , x)
        }""",
        trips(x=f32(3)) + trips(x=f32(1)) + trips(x=f32(0)),
    ),
    ControlCase(
        "counted_with_number",
        """g (int64 m, float[N] x) => (float[N] last, int64[T] squares) {
            last, squares = Loop <body = b (int64 i, bool on, float[N] a) => (bool go, float[N] c, int64 square) {
                go = Identity(on)
                f = Cast <to = 1> (i)
                c = Add(a, f)
                square = Mul(i, i)
            }> (m, , x)
        }""",
        trips(x=f32(3)),
    ),
    ControlCase(
        "stops_early",
        """g (int64 m, float limit, float[N] x) => (float[N] last, float[T, N] rows, int64[T] numbers) {
            last, rows, numbers = Loop <body = b (int64 i, bool on, float[N] a)
                    => (bool go, float[N] c, float[N] row, int64 number) {
                one = Constant <value_float = 1.0> ()
                c = Add(a, one)
                sum = ReduceMax <keepdims = 0> (c)
                go = Less(sum, limit)
                row = Neg(c)
                number = Identity(i)
            }> (m, , x)
        }""",
        [
            {"m": i64(m), "limit": np.array(limit, np.float32), "x": f32(3)}
            for m in (0, 1, 5, 2**63 - 1)
            for limit in (-5.0, 3.0, 17.0)
        ],
    ),
    ControlCase(
        "no_limit",
        """g (bool first, float limit, float[N] x) => (float[N] last, float[T, N] rows) {
            last, rows = Loop <body = b (int64 i, bool on, float[N] a) => (bool go, float[N] c, float[N] row) {
                one = Constant <value_float = 1.0> ()
                c = Add(a, one)
                sum = ReduceMax <keepdims = 0> (c)
                go = Less(sum, limit)
                row = Identity(a)
            }> (, first, x)
        }""",
        [{"first": np.array(t), "limit": np.array(limit, np.float32), "x": f32(2)} for t in (True, False) for limit in (-1, 9)],
    ),
    ControlCase(
        "start_decides",
        """g (int64 m, bool first, float[N] x) => (float[N] last, float[T, N] rows) {
            last, rows = Loop <body = b (int64 i, bool on, float[N] a) => (bool go, float[N] c, float[N] row) {
                go = Identity(on)
                c = Add(a, x)
                row = Identity(c)
            }> (m, first, x)
        }""",
        [{"m": i64(m), "first": np.array(t), "x": f32(2)} for m in TRIPS for t in (True, False)],
    ),
    ControlCase(
        "carry_grows",
        """g (int64 m, float[N] x) => (float[K] last) {
            last = Loop <body = b (int64 i, bool on, float[A] a) => (bool go, float[B] c) {
                go = Identity(on)
                f = Cast <to = 1> (i)
                y = Add(x, f)
                c = Concat <axis = 0> (a, y)
            }> (m, , x)
        }""",
        trips(x=f32(3)) + trips(x=f32(1)),
    ),
    ControlCase(
        "carry_grows_from_nothing",
        """g (int64 m, float[2, N] x) => (float[2, K] last, float[T] sums)
            <int64[2] none = {2, 0}> {
            empty = ConstantOfShape(none)
            last, sums = Loop <body = b (int64 i, bool on, float[2, A] a) => (bool go, float[2, B] c, float sum) {
                go = Identity(on)
                c = Concat <axis = 1> (a, x)
                sum = ReduceSum <keepdims = 0> (c)
            }> (m, , empty)
        }""",
        trips(x=f32(2, 3)) + trips(x=f32(2, 0)),
    ),
    ControlCase(
        "carry_shrinks",
        """g (float[N] x) => (float[K] last, float[T] firsts)
            <int64[1] one = {1}, int64[1] end = {9223372036854775807}, int64[1] zero = {0}, int64 two = {2}> {
            true = Constant <value = bool {1}> ()
            last, firsts = Loop <body = b (int64 i, bool on, float[A] a) => (bool go, float[B] c, float first) {
                c = Slice(a, one, end, zero)
                size = Size(c)
                go = Greater(size, two)
                first = ReduceSum <keepdims = 0> (c)
            }> (, true, x)
        }""",
        [{"x": f32(n)} for n in (9, 4, 3, 1, 0)],
    ),
    ControlCase(
        "carry_shrinks_a_known_number_of_times",
        """g (float[N] x) => (float[K] last)
            <int64 m = {12}, int64[1] one = {1}, int64[1] end = {99}, int64[1] zero = {0}> {
            last = Loop <body = b (int64 i, bool on, float[A] a) => (bool go, float[B] c) {
                go = Identity(on)
                c = Slice(a, one, end, zero)
            }> (m, , x)
        }""",
        [{"x": f32(n)} for n in (20, 5, 0)],
    ),
    ControlCase(
        "grows_and_stops",
        """g (int64 m, int64 limit, float[N] x) => (float[K] last, float[T, N] rows) {
            last, rows = Loop <body = b (int64 i, bool on, float[A] a) => (bool go, float[B] c, float[N] row) {
                c = Concat <axis = 0> (a, x)
                size = Size(c)
                go = Less(size, limit)
                row = Neg(x)
            }> (m, , x)
        }""",
        [{"m": i64(m), "limit": i64(limit), "x": f32(3)} for m in TRIPS for limit in (0, 10, 1000)],
    ),
    ControlCase(
        "rows_of_a_size_known_inside",
        """g (int64 m, int64[1] k, float[N] x) => (float[T, K] rows)
            <int64[1] zero = {0}> {
            true = Constant <value = bool {1}> ()
            rows = Loop <body = b (int64 i, bool on) => (bool go, float[K] row) {
                go = Identity(on)
                f = Cast <to = 1> (i)
                y = Add(x, f)
                row = Slice(y, zero, k)
            }> (m, true)
        }""",
        [{"m": i64(m), "k": np.array([k], np.int64), "x": f32(5)} for m in (1, 2, 17) for k in (0, 1, 3)],
    ),
    ControlCase(
        "rows_of_a_size_each_turn_computes",
        """g (int64 m, float[N] x) => (int64[T, 1, K] rows) {
            true = Constant <value = bool {1}> ()
            rows = Loop <body = b (int64 i, bool on) => (bool go, int64[1, K] row) {
                go = Identity(on)
                positive = Relu(x)
                row = NonZero(positive)
            }> (m, true)
        }""",
        [{"m": i64(m), "x": x} for m in (1, 2, 17) for x in (f32(5), -np.abs(f32(4)), f32(1))],
    ),
    ControlCase(
        "nested",
        """g (int64 m, int64[1] axes, float[N] x) => (float[N] last, float[T, N] rows) {
            last, rows = Loop <body = b (int64 i, bool on, float[N] a) => (bool go, float[N] c, float[N] row) {
                go = Identity(on)
                one = Constant <value_int = 1> ()
                n = Add(i, one)
                inner, all = Loop <body = d (int64 j, bool jon, float[N] s) => (bool jgo, float[N] t, float[N] u) {
                    jgo = Identity(jon)
                    jf = Cast <to = 1> (j)
                    y = Add(x, jf)
                    t = Add(s, y)
                    u = Sub(a, t)
                }> (n, , a)
                c = Add(inner, x)
                row = ReduceSum <keepdims = 0> (all, axes)
            }> (m, , x)
        }""",
        trips(x=f32(3), axes=np.array([0], np.int64)),
    ),
    ControlCase(
        "triangle",
        """g (int64 m, float[N] x) => (float[K] last) {
            last = Loop <body = b (int64 i, bool on, float[A] a) => (bool go, float[B] c) {
                go = Identity(on)
                c = Loop <body = d (int64 j, bool jon, float[P] s) => (bool jgo, float[Q] t) {
                    jgo = Identity(jon)
                    t = Concat <axis = 0> (s, x)
                }> (i, , a)
            }> (m, , x)
        }""",
        [{"m": i64(m), "x": f32(2)} for m in (0, 1, 2, 7)],
    ),
    ControlCase(
        "if_in_loop_in_if",
        """g (bool p, int64 m, float[N] x) => (float[K] y) {
            y = If <
                then_branch = t () => (float[K] yt) {
                    yt = Loop <body = b (int64 i, bool on, float[A] a) => (bool go, float[B] c) {
                        go = Identity(on)
                        two = Constant <value_int = 2> ()
                        zero = Constant <value_int = 0> ()
                        rest = Mod(i, two)
                        even = Equal(rest, zero)
                        c = If <
                            then_branch = u () => (float[C] cu) { cu = Concat <axis = 0> (a, x) },
                            else_branch = v () => (float[D] cv) { cv = Neg(a) }
                        > (even)
                    }> (m, , x)
                },
                else_branch = e () => (float[K] ye) { ye = Exp(x) }
            > (p)
        }""",
        [{"p": np.array(p), "m": i64(m), "x": f32(3)} for p in (True, False) for m in TRIPS],
    ),
    ControlCase(
        "captured_sizes",
        """g (int64 m, float[N, 3] x) => (float[T, S] rows, int64 last) {
            shape = Shape(x)
            zero = Constant <value_int = 0> ()
            n = Gather(shape, zero)
            last, rows = Loop <body = b (int64 i, bool on, int64 a) => (bool go, int64 c, float[S] row) {
                go = Identity(on)
                c = Add(a, n)
                size = Size(x)
                minus = Constant <value_ints = [-1]> ()
                flat = Reshape(x, minus)
                f = Cast <to = 1> (size)
                row = Div(flat, f)
            }> (m, , zero)
        }""",
        trips(x=f32(2, 3)) + trips(x=f32(1, 3)),
    ),
]

IFS = [
    ControlCase(
        "sizes_differ",
        """g (bool p, float[N] x) => (float[K] y, float[] sum) {
            y = If <
                then_branch = t () => (float[K] yt) { yt = Concat <axis = 0> (x, x) },
                else_branch = e () => (float[K] ye) { ye = Neg(x) }
            > (p)
            sum = ReduceSum <keepdims = 0> (y)
        }""",
        [{"p": np.array(p), "x": f32(n)} for p in (True, False) for n in (0, 1, 4)],
    ),
    ControlCase(
        "joined_with_nothing_of_a_known_width",
        """g (bool p, float[N, M] x, float[0, 2] none) => (float[K, L] y) {
            y = If <
                then_branch = t () => (float[A, B] yt) { yt = Concat <axis = 0> (x, none) },
                else_branch = e () => (float[C, D] ye) { ye = Neg(x) }
            > (p)
        }""",
        [{"p": np.array(p), "x": f32(3, 2), "none": f32(0, 2)} for p in (True, False)],
    ),
    ControlCase(
        "condition_on_a_size",
        """g (float[N, M] x) => (float[K, M] y)
            <int64 zero = {0}, int64 one = {1}> {
            shape = Shape(x)
            n = Gather(shape, zero)
            p = Equal(n, one)
            y = If <
                then_branch = t () => (float[K, M] yt) { yt = Concat <axis = 0> (x, x) },
                else_branch = e () => (float[K, M] ye) { ye = Neg(x) }
            > (p)
        }""",
        [{"x": f32(n, 2)} for n in (0, 1, 4)],
    ),
    ControlCase(
        "assertion_in_one_branch",
        """g (bool p, float[N] x, float[M] z) => (float[N] y, float[K] w) {
            y = If <
                then_branch = t () => (float[N] yt) { yt = Add(x, z) },
                else_branch = e () => (float[N] ye) { ye = Neg(x) }
            > (p)
            w = Concat <axis = 0> (y, z)
        }""",
        [{"p": np.array(True), "x": f32(3), "z": f32(3)}, {"p": np.array(False), "x": f32(3), "z": f32(5)}],
    ),
    ControlCase(
        "ranks_differ_and_meet_again",
        """g (bool p, float[N] x) => (float[N] y, float[N] untouched)
            <float[1] one = {1.5}, float two = {2.0}> {
            untouched = Exp(x)
            step = If <
                then_branch = t () => (float a) { a = Neg(two) },
                else_branch = e () => (float[1] b) { b = Sqrt(one) }
            > (p)
            scaled = Mul(x, step)
            y = Add(scaled, untouched)
        }""",
        [{"p": np.array(p), "x": f32(n)} for p in (True, False) for n in (0, 1, 4)],
    ),
    ControlCase(
        "squeeze_of_a_size_that_may_be_1",
        """g (float[N, M] x) => (float y)
            <int64 zero = {0}, int64 one = {1}, int64[1] axes = {0}> {
            shape = Shape(x)
            n = Gather(shape, zero)
            p = Equal(n, one)
            s = If <
                then_branch = t () => (float[M] a) { a = Squeeze(x, axes) },
                else_branch = e () => (float[N, M] b) { b = Identity(x) }
            > (p)
            r = Relu(s)
            y = ReduceSum <keepdims = 0> (r)
        }""",
        [{"x": f32(n, 3)} for n in (0, 1, 4)],
    ),
    ControlCase(
        "squeeze_of_a_size_that_has_to_be_1",
        """g (float[B, 3, M] x) => (float[B, 2] y)
            <int64 two = {2}, int64 one = {1}, int64[1] axes = {2}, float[3, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> {
            shape = Shape(x)
            n = Gather(shape, two)
            p = Equal(n, one)
            s = If <
                then_branch = t () => (float[B, 3] a) { a = Squeeze(x, axes) },
                else_branch = e () => (float[B, 3, M] b) { b = Identity(x) }
            > (p)
            y = Gemm(s, w)
        }""",
        [{"x": f32(n, 3, 1)} for n in (0, 1, 4)],
    ),
    ControlCase(
        "condition_of_rank_1",
        """g (bool[1] p, float[N] x) => (float[N] y) {
            y = If <
                then_branch = t () => (float[N] yt) { yt = Identity(x) },
                else_branch = e () => (float[N] ye) { ye = Neg(x) }
            > (p)
        }""",
        [{"p": np.array([p]), "x": f32(3)} for p in (True, False)],
    ),
]

SCANS = [
    ControlCase(
        "several_states_inputs_and_outputs",
        """g (float[N] a, int64 b, float[N, T] x, float[T, 2] z) => (float[N] c, int64 d, float[N, T] y, float[T] w) {
            c, d, y, w = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
                scan_output_axes = [-1, 0], scan_output_directions = [1, 0],
                body = s (float[N] p, int64 q, float[N] u, float[2] v) => (float[N] r, int64 t, float[N] h, float k) {
                    r = Add(p, u)
                    one = Constant <value_int = 1> ()
                    t = Add(q, one)
                    h = Neg(r)
                    k = ReduceSum <keepdims = 0> (v)
                }> (a, b, x, z)
        }""",
        [{"a": f32(3), "b": i64(4), "x": f32(3, t), "z": f32(t, 2)} for t in (1, 2, 17)],
    ),
    ControlCase(
        "without_a_state",
        """g (float[T, N] x) => (float[T, N] y) {
            y = Scan <num_scan_inputs = 1, body = s (float[N] u) => (float[N] h) { h = Neg(u) }> (x)
        }""",
        [{"x": f32(t, 2)} for t in (1, 5)],
    ),
    ControlCase(
        "length_0",
        """g (float[N] a, float[T, N] x) => (float[N] c, float[T, N] y) {
            c, y = Scan <num_scan_inputs = 1,
                body = s (float[N] p, float[N] u) => (float[N] r, float[N] h) {
                    r = Add(p, u)
                    h = Neg(r)
                }> (a, x)
        }""",
        [{"a": f32(2), "x": f32(0, 2)}],
        expected=[[f32(2), f32(0, 2)]],  # onnxruntime and the reference refuse it
    ),
    ControlCase(
        "batched",
        """g (float[B, N] a, float[B, T, N] x) => (float[B, N] c, float[B, T, N] y) {
            c, y = Scan <num_scan_inputs = 1, directions = [1],
                body = s (float[N] p, float[N] u) => (float[N] r, float[N] h) {
                    r = Add(p, u)
                    h = Identity(r)
                }> (, a, x)
        }""",
        [{"a": f32(b, 2), "x": f32(b, t, 2)} for b in (1, 3) for t in (1, 4)],
        opset=8,
    ),
    ControlCase(
        "batched_with_lengths",
        """g (int64[B] lens, float[B, N] a, float[B, T, N] x) => (float[B, N] c, float[B, T, N] y) {
            c, y = Scan <num_scan_inputs = 1,
                body = s (float[N] p, float[N] u) => (float[N] r, float[N] h) {
                    r = Add(p, u)
                    h = Identity(r)
                }> (lens, a, x)
        }""",
        [{"lens": np.array(n, np.int64), "a": f32(3, 2), "x": f32(3, 4, 2)} for n in ([1, 4, 2], [4, 4, 4], [3, 1, 1])],
        opset=8,
    ),
    ControlCase(
        "batched_with_lengths_backwards",
        """g (int64[B] lens, float[B, N] a, float[B, T, N] x) => (float[B, N] c, float[B, T, N] y) {
            c, y = Scan <num_scan_inputs = 1, directions = [1],
                body = s (float[N] p, float[N] u) => (float[N] r, float[N] h) {
                    r = Add(p, u)
                    h = Identity(r)
                }> (lens, a, x)
        }""",
        [{"lens": np.array(n, np.int64), "a": f32(3, 2), "x": f32(3, 4, 2)} for n in ([1, 4, 2], [4, 4, 4])],
        opset=8,
    ),
]
