"""Which inputs of ONNX's operators are parameters: what real files store as initializers."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnx2torch_mlir.specs import canonical_domain, default_ledger

_NAMES: dict[str, str] = {
    # axes, sizes, counts and limits
    "AffineGrid": "size",
    "CenterCropPad": "shape",
    "Clip": "min max",
    "Col2Im": "image_shape block_shape",
    "ConstantOfShape": "input",
    "CumProd": "axis",
    "CumSum": "axis",
    "DFT": "dft_length axis",
    "Dropout": "ratio training_mode",
    "Expand": "shape",
    "Loop": "M",
    "MaxUnpool": "output_shape",
    "MelWeightMatrix": "num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz",
    "NonMaxSuppression": "max_output_boxes_per_class iou_threshold score_threshold",
    "OneHot": "depth values",
    "Pad": "pads constant_value axes",
    "Range": "start limit delta",
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"), "axes"),
    **dict.fromkeys(("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"), "axes"),
    "Reshape": "shape",
    "Resize": "roi scales sizes",
    "STFT": "frame_step window frame_length",
    "SequenceAt": "position",
    "SequenceErase": "position",
    "SequenceInsert": "position",
    "Slice": "starts ends axes steps",
    "Split": "split",
    "SplitToSequence": "split",
    "Tile": "repeats tiles axis",
    "TopK": "K",
    "Trilu": "k",
    "Upsample": "scales",
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), "size"),
    # weights, scales and zero points
    "BatchNormalization": "scale B input_mean input_var mean var",
    "CausalConvWithState": "weight bias",
    "Conv": "W B",
    "ConvInteger": "w x_zero_point w_zero_point",
    "ConvTranspose": "W B",
    "DeformConv": "W B",
    "DequantizeLinear": "x_scale x_zero_point",
    **dict.fromkeys(("GRU", "LSTM", "RNN"), "W R B P"),
    "Gemm": "B C",
    "GroupNormalization": "scale bias",
    "InstanceNormalization": "scale B",
    "LayerNormalization": "Scale B",
    "MatMulInteger": "b a_zero_point b_zero_point",
    "NegativeLogLikelihoodLoss": "weight",
    "PRelu": "slope",
    "QLinearConv": "x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
    "QLinearMatMul": "a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point",
    "QuantizeLinear": "y_scale y_zero_point",
    "RMSNormalization": "scale",
    "RotaryEmbedding": "cos_cache sin_cache",
    "SoftmaxCrossEntropyLoss": "weights",
}
"""The names of the inputs, of all versions of an operator, by ONNX's spelling."""


def parameters(model: onnx.ModelProto) -> list[str]:
    """The inputs of ``model``'s graph that some node takes as a parameter and none as anything else, in their order."""
    given = [value.name for value in model.graph.input]
    stored = {tensor.name for tensor in model.graph.initializer}
    as_parameter: set[str] = set()
    otherwise: set[str] = set()
    for node in _nodes(model.graph):
        wanted = _positions(node, model)
        for index, name in enumerate(node.input):
            (as_parameter if index in wanted else otherwise).add(name)
    return [name for name in given if name in as_parameter - otherwise and name not in stored]


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _positions(node: onnx.NodeProto, model: onnx.ModelProto) -> set[int]:
    """Which of a node's inputs are parameters of the version that ``model`` means."""
    names = _NAMES.get(node.op_type, "").split()
    domain = canonical_domain(node.domain)
    opset = next((item.version for item in model.opset_import if canonical_domain(item.domain) == domain), 1)
    operator = default_ledger().operator(domain, node.op_type) if names else None
    version = None if operator is None else operator.version_for(opset)
    formals = () if version is None else version.inputs
    return {index for index, formal in enumerate(formals) if formal.name in names}
