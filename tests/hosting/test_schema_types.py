"""Types of values that ONNX's shape inference does not know, from the schemas of their operators."""

import onnx
import onnx_ir as ir
from onnx import helper

from onnx2torch_mlir.hosting.inference import inferred_types
from onnx2torch_mlir.hosting.schema_types import declared_types
from onnx2torch_mlir.model import Kind, ValueType, read
from onnx2torch_mlir.specs import default_ledger


def test_one_type_by_the_schema_or_that_of_an_input():
    known = {"x": ValueType("x", Kind.TENSOR, ir.DataType.FLOAT16)}

    def types(op: str, domain: str, *outputs: str) -> dict[str, ir.DataType | None]:
        node = helper.make_node(op, ["x"], outputs, domain=domain)
        return {item.name: item.dtype for item in declared_types(node, known, default_ledger(), 1)}

    assert types("SVMClassifier", "ai.onnx.ml", "y", "z") == {"z": ir.DataType.FLOAT}
    assert types("Gelu", "com.microsoft", "y") == {"y": ir.DataType.FLOAT16}
    assert types("Unheard", "com.microsoft", "y") == {}


def test_what_follows_an_operator_of_another_domain_is_typed():
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        agraph (float[N] x) => (float y) { a = com.microsoft.Gelu(x)  b = com.microsoft.QuickGelu(a)  y = Identity(b) }"""
    types = inferred_types(read(onnx.parser.parse_model(text)), default_ledger())
    assert types["a"].dtype is types["b"].dtype is ir.DataType.FLOAT


def test_an_encoder_after_an_operator_that_onnx_does_not_know():
    """ONNX's inference of LabelEncoder ends the process where its input has no type; the words have one more axis."""
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1, "ai.onnx.ml" : 2]>
        agraph (string[N] x) => (int64[N, D] y) {
            words = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = "#", separators = [" "]> (x)
            y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2]> (words)
        }"""
    model = onnx.parser.parse_model(text)
    types = inferred_types(read(model), default_ledger())
    assert types["words"] == ValueType("words", Kind.TENSOR, ir.DataType.STRING, (None, None))
