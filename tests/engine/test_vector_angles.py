"""Sines and their inverses: large angles, those nearest to multiples of a quarter turn, and points at every corner."""

import functools

import numpy as np
import pytest
import torch

from tests.engine.test_vector_math import arguments, engine_of, expanded, f32, wrong_by

__all__ = ["expanded"]

pytest.importorskip("torch_mlir")

SINES = {"sin": np.sin, "cos": np.cos, "tan": np.tan}


@functools.cache
def near_quarters():
    """The f32 numbers of each exponent, from 1 on, that are nearest to a multiple of pi / 2."""
    digits = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561  # of 2 / pi, behind the point
    whole = np.arange(1 << 23, 1 << 24, dtype=np.uint64)
    found = []
    for exponent in range(-23, 105):
        digits_there = digits << exponent if exponent >= 0 else digits >> -exponent
        rest = (whole * np.uint64((digits_there >> 192) % 2**64)).view(np.int64)
        found.append(np.ldexp(whole[np.abs(rest).argmin()].astype("d"), exponent))
    return np.array(found, "f")


@pytest.mark.parametrize("name", SINES)
def test_near_quarters_of_a_turn(name, expanded):
    x = near_quarters()
    assert np.abs(np.sin(2 * x.astype("d"))).max() < 1e-5
    x = np.concatenate([x, -x])
    (got,) = engine_of(f"%r = math.{name} %x0 : f32").run([x])
    assert wrong_by(got, SINES[name](x.astype("d"))).max() <= 0.6


@pytest.mark.parametrize("name", SINES)
def test_positions_times_frequencies(name, expanded):
    x = np.outer(np.arange(5000), 10000.0 ** (-np.arange(32) / 32)).astype("f").ravel()
    (got,) = engine_of(f"%r = math.{name} %x0 : f32").run([x])
    assert wrong_by(got, SINES[name](x.astype("d"))).max() <= 0.6


@pytest.mark.parametrize("name", SINES)
def test_every_magnitude(name, expanded):
    x = np.array([1e-45, 1e-38, 1e-6, 1, 1e5, 1e10, 1.8014398e16, 1.8014399e16, 2.4758801e27, 3e38, 3.4028235e38], "f")
    x = np.concatenate([x, -x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], "f")])
    (got,) = engine_of(f"%r = math.{name} %x0 : f32").run([x])
    with np.errstate(invalid="ignore"):
        assert wrong_by(got, SINES[name](x.astype("d"))).max() <= 0.6


def test_both_ends_of_arcs(expanded):
    x = np.array([1, -1, np.nextafter(np.float32(1), 2), np.nextafter(np.float32(-1), -2), 0.5, -0.5, 0, -0.0], "f")
    for name, exact in {"asin": np.arcsin, "acos": np.arccos}.items():
        (got,) = engine_of(f"%r = math.{name} %x0 : f32").run([x])
        with np.errstate(invalid="ignore"):
            assert wrong_by(got, exact(x.astype("d"))).max() <= 1.0
    (got,) = engine_of("%r = math.acos %x0 : f32").run([np.ones(3, "f")])
    assert np.array_equal(got, np.zeros(3)) and not np.signbit(got).any()


def test_angles_of_points(expanded):
    random = np.random.default_rng(1)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38], "f")
    every = arguments()
    parts = [special, every, random.standard_normal(100000).astype("f")]
    y = np.concatenate([np.repeat(special, len(special)), *map(random.permutation, parts)])
    x = np.concatenate([np.tile(special, len(special)), *parts])
    (got,) = engine_of("%r = math.atan2 %x0, %x1 : f32", (f32, f32)).run([y, x])
    with np.errstate(invalid="ignore"):
        assert wrong_by(got, np.arctan2(y.astype("d"), x.astype("d"))).max() <= 1.8


def test_without_expansion(monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "all")
    x = np.linspace(-1, 1, 1001).astype("f")
    for name in ("sin", "cos", "tan", "asin", "acos", "atan"):
        exact = getattr(torch, name)(torch.from_numpy(x).double()).numpy()
        assert np.allclose(engine_of(f"%r = math.{name} %x0 : f32").run([x])[0], exact, rtol=3e-7, atol=0)
