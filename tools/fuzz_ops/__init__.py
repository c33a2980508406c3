"""The differential tester: one-node models drawn from the rows and their schemas, run natively and held against references.

``python -m tools.fuzz_ops --help`` says how to run it; ``make fuzz`` is the long run, tests/fuzz the short one.

What a result is held against (`oracle`): onnxruntime on the node as it is; else on the same node stated at another version
(`restate`), in other types (`widen`), or both; else onnx.reference. Where one of them is wrong all the same, `known` says
what is, and how far; tests/fuzz proves it by hand.

What ``--json FILE`` writes::

    {"onnx": "1.23.2", "onnxruntime": "1.31.1", "seed": 0, "draws": 50,
     "records": [{"domain": "ai.onnx", "op": "Add", "since": 7, "version": 14, "dtype": "float", "group": "float",
                  "dynamic": false, "outcome": "agree", "reached": "ran", "code": "", "reason": "", "count": 9}, …]}

A record speaks for ``count`` draws that ended alike. ``since`` is the row's first version (for an operator without row
the since_version whose function body is expanded), ``version`` the since_version drawn, ``dtype`` ONNX's name of the type
of the first input (of the first constraint), ``group`` one of `GROUPS`, ``dynamic`` whether dims were symbolic,
``outcome`` one of `OUTCOMES`. ``reached`` is the last stage that succeeded: "" (nothing), "converted", "lowered"
(to native code), "ran"; a draw whose outcome is agree or disputed has also agreed.
"""

OUTCOMES = {
    "agree": "the numbers are the reference's",
    "disputed": "onnxruntime and onnx.reference differ, and ours are one of theirs",
    "differ": "the numbers are not the reference's",
    "refused": "a finding refuses the model, which the reference runs; `code` and `reason` are the finding's",
    "traceback": "an exception that is no finding, or O2M-C009",
    "crash": "the process ended, or hung",
    "both-refuse": "no reference runs the model: the draw says nothing",
    "no strategy": "nothing can be drawn for the row yet; `version` is 0, and `count` 0",
    "refused row": "the row itself says why the operator is refused; `version` is 0, and `count` 0",
}

GROUPS = {
    "float": ("float", "double"),
    "f16": ("float16", "bfloat16"),
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "bool": ("bool",),
}
"""Every other type is in the group "odd"."""


def group_of(dtype: str) -> str:
    """The dtype group of an ONNX type name such as "float16"."""
    return next((group for group, names in GROUPS.items() if dtype in names), "odd")
