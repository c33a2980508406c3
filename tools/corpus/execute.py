"""What runs in a subject's own process: making the model; and converting, compiling, running and comparing it."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib
import inspect
import json
import resource
import shutil
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx2torch_mlir import isolation
from onnx2torch_mlir.diagnostics import Refusal, Report
from onnx2torch_mlir.model import LoadedModel, ValueType, read
from onnx2torch_mlir.program import convert
from onnx2torch_mlir.verification import generate_inputs
from onnx2torch_mlir.verification.dims import input_shapes
from tools.corpus.feeds import Sizes
from tools.corpus.fetch import Shipped, corpus_folder
from tools.corpus.judging import Judge
from tools.corpus.registry import subject
from tools.corpus.result import Result
from tools.corpus.subject import Subject
from tools.corpus.suppression import WithSuppression


def make(module: str, name: str, fresh: bool = False) -> str:
    """The path of the subject's model, made unless it is there; what is there counts while its definition is the same."""
    item = subject(module, name)
    folder = corpus_folder() / "models" / name
    stamp = folder / "made.json"
    wanted = _definition(item, module)
    if not fresh and stamp.is_file():
        kept = json.loads(stamp.read_text())
        if kept["definition"] == wanted and (folder / kept["path"]).is_file():
            return str(folder / kept["path"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = item.make(folder)
    stamp.write_text(json.dumps({"definition": wanted, "path": str(path.relative_to(folder))}))
    return str(path)


def _definition(item: Subject, module: str) -> str:
    """What the model is made by: the package it comes in; or the modules that list it and that hold the function."""
    if isinstance(item.make, Shipped | WithSuppression):
        return repr(item.make)
    function = inspect.unwrap(getattr(item.make, "func", item.make))
    files = dict.fromkeys([inspect.getfile(importlib.import_module(module)), inspect.getfile(function)])
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def run(module: str, name: str, path: str) -> Result:
    """The result of the model at ``path``."""
    item = subject(module, name)
    result = Result(item.name, item.exporter, item.kind, verdict="refused", note=item.note)
    report = Report()
    engine: Any = None
    try:
        with report.stage("read"):
            loaded = read(path)
        _describe(result, loaded)
        engine = convert(loaded, report=report).compile()
        _held(result, item, path, engine)
    except Refusal as refusal:
        result.reason = str(refusal.findings[0])
        result.codes = sorted({finding.code for finding in refusal.findings})
    finally:
        seconds = {
            stage: sum(record.seconds for record in report.stages if record.name == stage) for stage in ("convert", "lower")
        }
        result.convert, result.lower = seconds["convert"], seconds["lower"]
        result.compile = sum(record.seconds for record in report.stages if record.name == "compile")
    flat = getattr(engine, "flat", engine) if "engine" in locals() else None
    # A program out of the cache says how long it took when it was made.
    result.compile = max(result.compile, sum(getattr(flat, "seconds", {}).values()))
    return result


def _describe(result: Result, loaded: LoadedModel) -> None:
    nodes = [node for graph in _graphs(loaded.ir) for node in graph]
    result.nodes = len(nodes)
    names = Counter(node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}" for node in nodes)
    result.operators = dict(names.most_common())
    result.opset = loaded.ir.opset_imports.get("", 0)


def _graphs(model: ir.Model) -> Iterator[Any]:
    yield from (model.graph.all_nodes(), *(function.all_nodes() for function in model.functions.values()))


def _held(result: Result, item: Subject, path: str, engine: Any) -> None:
    loaded = read(path)
    names = [value.name for value in loaded.outputs]
    runs: list[tuple[Sizes, dict[str, Any], list[Any], float]] = []
    for sizes in item.sizes:
        feeds = feeds_of(item, loaded, sizes)
        engine.run(feeds)
        start = time.perf_counter()
        runs.append((sizes, feeds, engine.run(feeds), time.perf_counter() - start))
    result.memory = _peak_memory()
    judge = Judge(path, names)
    result.runs = [judge.held(*run) for run in runs]
    result.reference = judge.name
    verdicts = {held.verdict for held in result.runs}
    result.verdict = next((word for word in ("differs", "as close", "exact") if word in verdicts), "equal")
    result.reason = next((held.reason for held in result.runs if held.reason), "")
    result.codes = ["O2M-V001"] if result.verdict == "differs" else []


def feeds_of(item: Subject, loaded: LoadedModel, sizes: Sizes) -> dict[str, Any]:
    """The inputs at one set of sizes, the same ones every time."""
    feeds: dict[str, Any] = {}
    for value in loaded.inputs:
        maker = next((feed for name, feed in item.feeds.items() if fnmatch.fnmatchcase(value.name, name)), None)
        if maker is not None:
            feeds[value.name] = _declared(maker(sizes, np.random.default_rng(zlib.crc32(value.name.encode()))), value)
    missing = [value.name for value in loaded.inputs if value.name not in feeds]
    if missing:
        dims = {dim for value in loaded.inputs for dim in value.shape or () if isinstance(dim, str)}
        given = {name: size for name, size in sizes.items() if name in dims}
        input_shapes(loaded.inputs, given)
        made = generate_inputs(loaded, given)
        feeds |= {name: made[name] for name in missing}
    return feeds


def _declared(made: Any, value: ValueType) -> Any:
    """Numbers in the floating-point dtype that the model declares: a model may have been brought to another precision."""
    if not isinstance(made, np.ndarray) or made.dtype.kind != "f" or value.dtype is None or not value.dtype.is_floating_point():
        return made
    return made.astype(value.dtype.numpy())


def _peak_memory() -> float:
    """MiB that this process, or the compiler's, had at most."""
    isolation.shutdown()
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return max(usage) / 1024
