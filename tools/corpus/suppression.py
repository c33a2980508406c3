"""A shipped detector with its non-maximum suppression inside, as deployment scripts append it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.corpus.fetch import Shipped


@dataclass(frozen=True)
class WithSuppression:
    """The `make` of ``detector``, whose output ``predictions`` is [batch, 4 + classes, anchors] with boxes of centre and size.

    NonMaxSuppression reads boxes and scores; the chosen boxes and scores are gathered. At most ``most`` boxes of a class and
    image are kept, with scores above ``score`` and overlaps up to ``overlap``.
    """

    detector: Shipped
    predictions: str
    score: float
    overlap: float = 0.45
    most: int = 20

    def __call__(self, folder: Path) -> Path:
        import onnx
        from onnx import compose, parser

        detector = onnx.load(self.detector(folder))
        opset = next(item.version for item in detector.opset_import if item.domain == "")
        tail = parser.parse_model(
            f"""<ir_version: {detector.ir_version}, opset_import: ["": {opset}]>
            suppression (float[N, C, A] predictions) => (int64[K, 3] selected, float[K, 4] chosen_boxes, float[K] chosen_scores)
                <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}},
                 int64[1] four = {{4}}, int64[1] end = {{9223372036854775807}},
                 int64 most = {{{self.most}}}, float overlap = {{{self.overlap}}},
                 float score = {{{self.score}}}> {{
                columns = Slice(predictions, zero, four, one)
                boxes = Transpose <perm = [0, 2, 1]> (columns)
                scores = Slice(predictions, four, end, one)
                selected = NonMaxSuppression <center_point_box = 1> (boxes, scores, most, overlap, score)
                image = Slice(selected, zero, one, one)
                anchor = Slice(selected, two, three, one)
                place = Concat <axis = 1> (image, anchor)
                chosen_boxes = GatherND(boxes, place)
                chosen_scores = GatherND(scores, selected)
            }}"""
        )
        joined = compose.merge_models(detector, tail, io_map=[(self.predictions, "predictions")])
        path = folder / "with_suppression.onnx"
        onnx.save(joined, path)
        return path
