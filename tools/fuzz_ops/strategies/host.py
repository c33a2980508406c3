"""Words, n-grams and image files: what runs on the host."""

from __future__ import annotations

import io
from itertools import product

import numpy as np

from tools.fuzz_ops.draw import Draw

_WORDS = ("cat", "Dog", "", "a,b,,c", "été", "the end  of it", "ÄÖ", "x1")


def normalizer(d: Draw) -> None:
    """StringNormalizer: words left out, and the case changed."""
    d.attribute("case_change_action", "LOWER", "UPPER", "NONE")
    d.attribute("is_case_sensitive", 1, 0)
    d.attribute("stopwords", ["cat", "dog"], ["DOG", "été"])
    shape = (d.size(1, 7),) if d.flag() else (1, d.size(1, 7))
    d.give("X", d.words(shape, _WORDS), known=False, static=len(shape) == 2)


def concat(d: Draw) -> None:
    """StringConcat: both broadcast."""
    d.broadcasts = True
    shape = d.shape(0, 3)
    for name, each in zip("XY", d.permuted([shape, d.broadcastable(shape)]), strict=True):
        d.give(name, d.words(each, _WORDS))


def split(d: Draw) -> None:
    """StringSplit: at whitespace or at a delimiter, so often at most."""
    d.attribute("delimiter", ",", "", "a")
    d.attribute("maxsplit", 1, 2)
    d.give("X", d.words(d.shape(0, 2, smallest=1), _WORDS), known=False)
    d.outputs = (True, True)


def matches(d: Draw) -> None:
    """RegexFullMatch."""
    d.attributes["pattern"] = d.choose((r"[a-z]*", r"\w+\d", r"(cat|Dog)?", r".*,.*"))
    d.give("X", d.words(d.shape(0, 3), _WORDS), known=False)


def n_grams(d: Draw) -> None:
    """TfIdfVectorizer: numbers or words, n-grams of one length or several, with skips."""
    shortest = d.integer(1, 3)
    longest = d.integer(shortest, 3)
    counts = [d.integer(0, 3) if length else d.integer(1, 3) for length in range(3)]
    grams = [d.permuted(list(product(range(3), repeat=length + 1)))[:count] for length, count in enumerate(counts)]
    pool = [token for length in grams for gram in length for token in gram]
    starts = np.cumsum([0, *((length + 1) * count for length, count in enumerate(counts))])[:3]
    total = sum(counts)
    d.attributes |= {
        "mode": d.choose(("TF", "IDF", "TFIDF")),
        "min_gram_length": shortest,
        "max_gram_length": longest,
        "max_skip_count": d.integer(0, 3),
        "ngram_counts": starts.tolist(),
        "ngram_indexes": d.permuted(range(total)),
    }
    if d.flag():
        d.attributes["weights"] = [0.5 + index for index in range(total)]
    shape = d.shape(1, 2, smallest=1)
    if d.one_in(3):
        names = ("cat", "dog", "fox", "hen")
        d.attributes["pool_strings"] = [names[token] for token in pool]
        d.types["T"] = "string"
        d.give("X", d.words(shape, names), known=False)
    else:
        d.attributes["pool_int64s"] = pool
        d.tensor("X", shape, low=0, high=3, only=("int32", "int64"))


def image(d: Draw) -> None:
    """ImageDecoder: small images in every format."""
    from PIL import Image

    pixels = d.array("uint8", (d.integer(1, 5), d.integer(1, 5), 3), 0, 255)
    d.attribute("pixel_format", "BGR", "Grayscale", "RGB")
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, format=d.choose(("PNG", "BMP", "PPM", "TIFF", "JPEG", "WEBP", "JPEG2000")))
    d.give("encoded_stream", np.frombuffer(written.getvalue(), np.uint8), known=False)


STRATEGIES = {
    "StringNormalizer": normalizer,
    "StringConcat": concat,
    "StringSplit": split,
    "RegexFullMatch": matches,
    "TfIdfVectorizer": n_grams,
    "ImageDecoder": image,
}
