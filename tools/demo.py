"""The main job on a real CNN: ResNet-50 as the onnx wheel ships it, from the file to checked numbers on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

OUT = Path("out")
RTOL, ATOL = 1e-3, 1e-5
"""The tolerance that onnx's own test runner gives this model is rtol 1e-3, atol 1e-7."""


def main() -> int:
    import onnx
    import onnxruntime
    from onnx import numpy_helper
    from onnx.backend.test.runner import Runner

    import onnx2torch_mlir as o2m

    console = Console()
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    path = folder / "light_resnet50.onnx"
    OUT.mkdir(exist_ok=True)
    console.print(f"[bold]onnx2mlir demo[/bold]: {path.name}, {path.stat().st_size / 1e3:.0f} kB")
    with console.status("converting, lowering, compiling …"):
        program = o2m.convert(path)
        assert isinstance(program, o2m.CoreProgram)
        report = program.report
        with report.stage("write torch MLIR"):
            program.to_mlir("torch").save(OUT / "resnet50.torch.mlirbc")
        with report.stage("write Linalg MLIR"):
            program.to_mlir("linalg").save(OUT / "resnet50.linalg.mlirbc")
        engine = o2m.compile(program)
        (spec,) = program.flat_inputs
        data = np.random.default_rng(0).random([int(size) for size in spec.shape], dtype=np.float32)
        with report.stage("run"):
            (result,) = engine.run([data])
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        with report.stage("run onnxruntime"):
            (reference,) = session.run(None, {spec.name: data})
        graph_input = onnx.load(path, load_external_data=False).graph.input[0]
        known = Runner.generate_dummy_data(graph_input)
        shipped = onnx.TensorProto.FromString((folder / "light_resnet50_output_0.pb").read_bytes())
        expected = numpy_helper.to_array(shipped)
        with report.stage("run on the shipped input"):
            (second,) = engine.run([known])
    stages = Table("stage", "seconds", title="time of each stage")
    for stage in report.stages:
        stages.add_row(stage.name, f"{stage.seconds:.3f}")
    console.print(stages)
    checks = Table("compared with", "max abs error", "max rel error", "equal", title=f"rtol {RTOL}, atol {ATOL}")
    good = [
        compare(checks, "onnxruntime, random input", result, reference),
        compare(checks, "expected output shipped with onnx", second, expected),
    ]
    console.print(checks)
    for file in sorted(OUT.glob("resnet50.*")):
        console.print(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)")
    return 0 if all(good) else 1


def compare(table: Table, title: str, result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    error = np.abs(result - expected)
    equal = result.shape == expected.shape and bool(np.allclose(result, expected, rtol=RTOL, atol=ATOL))
    relative = float((error / np.maximum(np.abs(expected), 1e-12)).max())
    table.add_row(title, f"{error.max():.2e}", f"{relative:.2e}", "yes" if equal else "[red]NO[/red]")
    return equal


if __name__ == "__main__":
    sys.exit(main())
