"""One run held against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx

from onnx2torch_mlir.verification import Comparison, compare_values
from tools.corpus.feeds import Sizes
from tools.corpus.result import Held
from tools.corpus.saturation import unsaturated
from tools.corpus.spread import References


class Judge:
    """onnxruntime's view of the model at ``path``, whose outputs are ``names``.

    The verdict is "equal" within the tolerance of the dtype; "exact" where that holds, or the next, for onnxruntime on the same
    model written so that its 8-bit products do not saturate (`saturation`); "as close" where no output is farther from
    onnxruntime than twice what onnxruntime is from itself (`spread`); else "differs".
    """

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self._path = path
        self._names = names
        self._plain = References(path)
        self.name = self._plain.name

    def held(self, sizes: Sizes, feeds: Mapping[str, Any], ours: Sequence[Any], seconds: float) -> Held:
        """The verdict on outputs that took ``seconds`` to compute."""
        held = self._against(self._plain, Held(sizes, "equal", run_ms=1000 * seconds), feeds, ours)
        if held.verdict == "equal" or self._exact is None:
            return held
        exact = self._against(self._exact, Held(sizes, "equal", run_ms=1000 * seconds), feeds, ours)
        if exact.verdict == "differs":
            return held
        return replace(exact, verdict="exact", reason=f"with saturating products: {held.reason}")

    def _against(self, references: References, held: Held, feeds: Mapping[str, Any], ours: Sequence[Any]) -> Held:
        theirs, seconds = references.plain(feeds)
        pairs = zip(self._names, ours, theirs, strict=True)
        compared = [found for name, a, b in pairs for found in compare_values(name, a, b)]
        held = replace(held, reference_ms=1000 * seconds)
        wrong = [found for found in compared if not found.agrees]
        if not wrong:
            worst = max(compared, key=_share, default=None)
            return held if worst is None else replace(held, max_abs=worst.max_abs, share=_share(worst))
        spread = references.spread(feeds, self._names)
        beyond = [item for item in wrong if item.problem != "numbers" or not item.max_abs <= 2 * spread.get(item.name, 0.0)]
        worst = max(beyond or wrong, key=_share)
        held = replace(held, max_abs=worst.max_abs, share=_share(worst), wrong=worst.wrong, reason=worst.reason())
        return replace(held, verdict="differs" if beyond else "as close", spread=spread.get(worst.name, 0.0))

    @cached_property
    def _exact(self) -> References | None:
        model = unsaturated(self._path)
        if model is None:
            return None
        beside = Path(self._path).with_name("unsaturated.onnx")
        onnx.save(model, beside)
        return References(str(beside))


def _share(found: Comparison) -> float:
    largest = max(abs(found.theirs.minimum or 0.0), abs(found.theirs.maximum or 0.0))
    return found.max_abs / largest if largest else found.max_abs
