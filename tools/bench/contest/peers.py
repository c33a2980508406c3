"""The sides: what each makes of a model before its first call, and the call. They live in worker processes (worker.py).

A peer is a function ``prepare(job) -> call`` where ``call()`` gives the outputs as arrays, in the order of the model's; it may
add figures to ``job.info``: ``import_s``, ``convert_s``, ``compile_s``, ``load_s``. `PEERS` names them; a file given with
``--plugin`` adds to it by a mapping ``PEERS`` of its own (and to the workloads by a sequence ``WORKLOADS``).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.bench.contest.workload import Workload

Call = Callable[[], list[Any]]


@dataclass
class Job:
    """What a peer prepares: a workload, its model's file, the number of threads; and what it tells."""

    workload: Workload
    path: Path
    threads: int
    info: dict[str, float] = field(default_factory=dict)

    def timed(self, name: str, step: Callable[[], Any]) -> Any:
        """The result of ``step``; its seconds are told as ``name``."""
        started = time.perf_counter()
        result = step()
        self.info[name] = time.perf_counter() - started
        return result


class MissingError(Exception):
    """A peer is not installed, or has no way to run a model."""


def ours(job: Job) -> Call:
    """This project. Objects that an earlier run left in the cache are used, unless the cache is switched off."""
    import onnx2torch_mlir as o2m
    from onnx2torch_mlir.engine import start_compiler

    # As o2m.compile does, which takes all steps.
    start_compiler()
    job.timed("import_s", lambda: importlib.import_module("onnx2torch_mlir.program"))
    program = job.timed("convert_s", lambda: o2m.convert(job.path))
    engine = job.timed("compile_s", lambda: program.compile(threads=job.threads))
    job.timed("load_s", lambda: program.compile(threads=job.threads))
    feeds = job.workload.feeds()
    return lambda: engine.run(feeds)


def onnxruntime(job: Job) -> Call:
    """onnxruntime's CPU provider with all its optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = job.timed("compile_s", lambda: onnxruntime.InferenceSession(str(job.path), options, providers=providers))
    taken = {value.name for value in session.get_inputs()}
    feeds = {name: array for name, array in job.workload.feeds().items() if name in taken}
    return lambda: list(session.run(None, feeds))


def eager(job: Job) -> Call:
    """PyTorch, one operator after the other."""
    import torch

    return _torch(job, lambda module: module, torch)


def inductor(job: Job) -> Call:
    """torch.compile with frozen weights."""
    import torch
    import torch._inductor.config as config

    config.freezing = True
    config.cpp.threads = job.threads
    call = _torch(job, torch.compile, torch)
    job.timed("compile_s", call)
    return call


def _torch(job: Job, compiled: Callable[[Any], Any], torch: Any) -> Call:
    torch.set_num_threads(job.threads)
    module = job.workload.module()
    if module is None:
        raise MissingError("the model is not one of PyTorch")
    made = compiled(module)
    feeds = [torch.from_numpy(array) for array in job.workload.feeds().values()]

    def call() -> list[Any]:
        with torch.inference_mode():
            result = made(*feeds)
            return [tensor.numpy() for tensor in (result if isinstance(result, tuple) else (result,))]

    return call


IREE_OPTIONS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    "--iree-llvmcpu-stack-allocation-limit=1048576",
)


def iree(job: Job) -> Call:
    """IREE's importer, compiler and runtime."""
    compiler, importer = (_required(name) for name in ("iree.compiler", "iree.compiler.tools.import_onnx.__main__"))
    runtime, flags = _required("iree.runtime"), _required("iree.runtime.flags")
    command = Path(compiler.__file__).parent / "_mlir_libs" / "iree-compile"
    with tempfile.TemporaryDirectory() as name:
        text, code = Path(name, "model.mlir"), Path(name, "model.vmfb")
        arguments = importer.parse_arguments([str(job.path), "-o", str(text)])
        job.timed("convert_s", lambda: importer.main(arguments))
        compiling = [str(command), str(text), "-o", str(code), *IREE_OPTIONS]
        done = job.timed("compile_s", lambda: subprocess.run(compiling, capture_output=True, text=True, check=False))
        if done.returncode:
            raise RuntimeError(next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr[-300:]))
        if job.threads > 1:
            flags.parse_flags(f"--task_topology_group_count={job.threads}")
        config = runtime.Config("local-sync" if job.threads == 1 else "local-task")
        context = runtime.SystemContext(config=config)
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code.read_bytes()))
    (module,) = (module for name, module in context.modules.items() if name != "hal")
    # Beside it lie its asynchronous form, NAME$async, and what the compiler added, __init say.
    function = module[next(name for name in module.vm_module.function_names if "$" not in name and name[:2] != "__")]
    feeds = [runtime.asdevicearray(config.device, array) for array in job.workload.feeds().values()]

    def call() -> list[Any]:
        result = function(*feeds)
        return [array.to_host() for array in (result if isinstance(result, tuple | list) else (result,))]

    return call


def _required(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingError(f"{error.name} is not installed") from None


PEERS: dict[str, Callable[[Job], Call]] = {
    "ours": ours,
    "ort": onnxruntime,
    "eager": eager,
    "inductor": inductor,
    "iree": iree,
}


def plugin(path: Path) -> ModuleType:
    """The module in a file, whose ``PEERS`` are added to the peers."""
    spec = importlib.util.spec_from_file_location(f"bench_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    PEERS.update(getattr(module, "PEERS", {}))
    return module
