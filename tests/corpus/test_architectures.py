"""The exported part of the corpus is well-formed: what is fed has the shapes that are exported as dynamic."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tools.corpus.architectures import audio, convnets, decoders, detection, encoders, seq2seq, states, treated, vision
from tools.corpus.architectures.network import Network
from tools.corpus.feeds import size_of

NETWORKS = [n for m in (audio, convnets, decoders, detection, encoders, seq2seq, states, vision) for n in m.NETWORKS]


def test_there_are_many_and_no_name_twice() -> None:
    assert len(NETWORKS) >= 40
    assert len({network.name for network in NETWORKS}) == len(NETWORKS)
    names = [subject.name for subject in treated.SUBJECTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_feeds(network: Network) -> None:
    dynamic = network.dynamic()
    assert any(dynamic[name] for name in network.inputs), "nothing is dynamic"
    for run in range(3):
        sizes = network.at(run)
        for name, feed in network.inputs.items():
            made = feed(sizes, np.random.default_rng(0))
            assert made.shape == tuple(size_of(dim, sizes) for dim in feed.shape)
            assert made.dtype == feed.dtype
            for axis, dim in dynamic[name].items():
                assert made.shape[axis] == size_of(dim, sizes)
    assert network.at(1) != network.at(2)


def test_listing_them_imports_nothing_heavy() -> None:
    code = "import sys, tools.corpus.architectures.treated; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
