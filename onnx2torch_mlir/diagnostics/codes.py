"""The closed list of finding codes: one entry per *kind* of thing that can be wrong, stable across releases.

A code is ``O2M-<stage letter><number>``; the stage of a finding is the stage of its code. Codes are never reused.
``onnx2mlir explain O2M-R001`` prints the entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """The stages of the way from a model file to checked numbers, in order."""

    USAGE = "usage"
    SPECS = "specs"
    READ = "read"
    CONVERT = "convert"
    LOWER = "lower"
    HANDOFF = "handoff"
    COMPILE = "compile"
    RUN = "run"
    VERIFY = "verify"
    COVERAGE = "coverage"


EXIT_CODES: dict[Stage, int] = {
    Stage.USAGE: 2,
    Stage.READ: 3,
    Stage.CONVERT: 4,
    Stage.LOWER: 5,
    Stage.HANDOFF: 6,
    Stage.COMPILE: 7,
    Stage.RUN: 8,
    Stage.VERIFY: 9,
    Stage.COVERAGE: 10,
    Stage.SPECS: 11,
}
"""Exit code of the command for the earliest stage that failed; 0 is fine, 1 a defect of this project."""


@dataclass(frozen=True)
class Code:
    """One kind of finding: its stage, a title of a few words, and what it means in one or two sentences."""

    id: str
    stage: Stage
    title: str
    meaning: str


def _table(stage: Stage, letter: str, rows: dict[int, tuple[str, str]]) -> dict[str, Code]:
    return {
        f"O2M-{letter}{number:03d}": Code(f"O2M-{letter}{number:03d}", stage, title, meaning)
        for number, (title, meaning) in rows.items()
    }


CODES: dict[str, Code] = {
    **_table(
        Stage.USAGE,
        "U",
        {
            1: ("bad argument", "An argument of the command or of a public function cannot be used."),
            2: ("unknown dim", "--dim names a dimension that no input of the model has."),
            3: ("bad input array", "An array given for a model input has the wrong name, dtype, rank or size."),
            4: ("bad output path", "The output file cannot be written."),
        },
    ),
    **_table(
        Stage.SPECS,
        "S",
        {
            1: ("bad row", "A row of op_specs does not follow the schema."),
            2: ("unknown operator or attribute", "A row names something that the ledger of its domain does not have."),
            3: ("overlapping rows", "Two rows claim the same version of an operator."),
            4: ("row never matches", "No version of the operator lies in the row's range."),
            5: ("bad ledger", "A file under opsets does not follow the schema."),
            6: ("unknown converter", "A row names a family or converter that does not exist or cannot be bound."),
            7: (
                "plug-in left out",
                "A package that brings operators is broken, contradicts another one, or needs a newer release.",
            ),
        },
    ),
    **_table(
        Stage.READ,
        "R",
        {
            1: ("file not found", "The path does not name a readable file."),
            2: ("empty file", "The model file has no bytes."),
            3: ("not an ONNX model", "The bytes are not a serialized ONNX ModelProto."),
            4: ("truncated or corrupt model", "The protobuf ends early or has fields that contradict each other."),
            5: ("no graph", "The model has no graph, or a graph without outputs."),
            6: ("unsupported IR version", "The model's ir_version is newer than this release knows, or missing."),
            7: ("no opset import", "A domain is used whose opset the model does not import, or imports twice differently."),
            8: ("unsupported opset", "The opset of a domain is newer than the ledger knows."),
            9: ("cyclic graph", "Nodes depend on each other in a circle."),
            10: ("dangling value", "A node or graph output uses a value that nothing produces."),
            11: ("duplicate value", "Two nodes, inputs or initializers produce a value of the same name."),
            12: ("external data missing", "The file that holds a tensor's external data does not exist."),
            13: (
                "external data out of bounds",
                "Offset and length of external data lie outside its file, or contradict the shape.",
            ),
            14: (
                "external data outside the model's folder",
                "The location is absolute, climbs out with '..', or is a link that leads out.",
            ),
            15: ("bad tensor", "A tensor's data do not fit its shape and element type."),
            16: ("unknown element type", "A tensor's element type is not one of ONNX's."),
            17: ("bad attribute", "An attribute has no value, two values, or a type that contradicts itself."),
            18: ("bad function", "A model-local function is recursive or its body is not well formed."),
            19: ("bad input or output", "A graph input or output has no name or no usable type."),
            20: ("part left out", "A part of the model that inference does not need is not read."),
            21: ("bad node", "A node names no operator, or is not well formed."),
        },
    ),
    **_table(
        Stage.CONVERT,
        "C",
        {
            1: ("unknown operator", "Neither a row nor a function body exists for this domain and operator."),
            2: ("operator version refused", "The operator is known, but this version of it is refused, with the reason."),
            3: ("unsupported case", "The operator is supported, but not with this attribute, dtype or rank."),
            4: ("input must be known", "The operator needs the contents of an input that is only known at run time."),
            5: ("bad node", "The node breaks the operator's signature: arity, attribute type or attribute value."),
            6: ("shapes do not fit", "The shapes or dtypes of a node's inputs contradict each other."),
            7: ("result differs from the model's declaration", "The inferred dtype or rank is not what the model declares."),
            8: ("unsupported type", "A value of this kind (sequence, optional, string …) cannot be represented here."),
            9: ("internal error in a converter", "A converter failed in a way it should not; please report it."),
            10: ("declared dim is not true", "The model declares a dim that its own computation contradicts."),
            11: (
                "runs on the host",
                "No tensor compiler can express this node: it runs on the host, between the compiled parts of the model.",
            ),
            12: ("no host implementation", "The node has to run on the host, and nothing there can run it."),
        },
    ),
    **_table(
        Stage.LOWER,
        "L",
        {
            1: ("primitive has no lowering rule", "The core program uses a primitive outside the closed list."),
            2: ("unsupported case of a primitive", "The lowering rule refuses this dtype, rank or argument."),
            3: ("rule broke its contract", "A rule's result does not have the type the program declares; please report it."),
            4: ("MLIR rejects the module", "The verifier of MLIR rejects what a rule built; please report it."),
        },
    ),
    **_table(
        Stage.HANDOFF,
        "H",
        {
            1: ("upstream refuses", "An upstream MLIR pipeline does not convert this operation."),
            2: ("upstream crashed", "An upstream MLIR pipeline ended its process; yours was not touched."),
            3: ("weights do not fit the form", "The chosen weight storage cannot carry this program."),
            4: ("checks left out", "The dialect has no assertions; what the program asserts about sizes is not checked."),
            5: (
                "nodes run on the host",
                "The model is no single program: nodes that run on the host stand between its compiled parts.",
            ),
        },
    ),
    **_table(
        Stage.COMPILE,
        "M",
        {
            1: ("compilation failed", "A pass of the CPU pipeline failed."),
            2: ("compiler crashed", "The compiler ended its own process; yours was not touched."),
            3: ("no form in C", "An input or output has an element type or a number of dims that C programs cannot pass."),
        },
    ),
    **_table(
        Stage.RUN,
        "X",
        {
            1: ("assertion failed", "Sizes or values met at run time contradict what the model requires."),
            2: ("execution failed", "The compiled program could not be run."),
        },
    ),
    **_table(
        Stage.VERIFY,
        "V",
        {
            1: ("numbers differ", "An output differs from onnxruntime's by more than the tolerance."),
            2: ("no reference", "onnxruntime cannot run this model, so there is nothing to compare with."),
            3: ("shape or dtype differs", "An output has another shape or dtype than onnxruntime's."),
            4: ("no node found", "Outputs differ, but the search for the first node that differs found none."),
            5: ("as close as the reference", "An output is as far from onnxruntime's as onnxruntime's is from itself."),
        },
    ),
    **_table(
        Stage.COVERAGE,
        "G",
        {1: ("stale page", "The checked-in coverage page does not say what was measured.")},
    ),
}
