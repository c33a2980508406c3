"""`CoreProgram`: a converted model, and everything that can be made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch.export import ExportedProgram

from onnx2torch_mlir import collection
from onnx2torch_mlir.core import library_code
from onnx2torch_mlir.core.signature import Spec, TensorSpec
from onnx2torch_mlir.diagnostics import Report, refuse
from onnx2torch_mlir.handoff.arguments import Weights
from onnx2torch_mlir.program.border_notes import border_notes
from onnx2torch_mlir.program.packing import PackedProgram

if TYPE_CHECKING:
    from onnx2torch_mlir.conversion import Converted
    from onnx2torch_mlir.engine import Engine
    from onnx2torch_mlir.engine.ahead_of_time.weights_file import Writing
    from onnx2torch_mlir.engine.ahead_of_time.writing import Source
    from onnx2torch_mlir.engine.arrays import Array
    from onnx2torch_mlir.handoff import MlirModule
    from onnx2torch_mlir.lowering import Lowered
    from onnx2torch_mlir.program.eager import EagerProgram

DIALECTS = ("torch", "linalg", "tosa", "stablehlo")


@dataclass
class CoreProgram:
    """An ONNX model as a program of core primitives.

    ``exported`` is the `torch.export.ExportedProgram`; ``inputs`` and ``outputs`` carry the ONNX names in graph order;
    ``dim_names`` maps the program's symbols to the model's dims; ``report`` holds the stages and all findings. ``defaults``
    are the inputs that may be left out of a call by name (initializers that the model lists as inputs too).
    """

    exported: ExportedProgram
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    dim_names: Mapping[str, str]
    report: Report = field(default_factory=Report)
    defaults: Mapping[str, Array] = field(default_factory=dict)

    @property
    def flat_inputs(self) -> list[TensorSpec]:
        """The tensors that the program itself takes, in order."""
        return [tensor for spec in self.inputs for tensor in spec.flat]

    @property
    def flat_outputs(self) -> list[TensorSpec]:
        """The tensors that the program itself gives, in order."""
        return [tensor for spec in self.outputs for tensor in spec.flat]

    @cached_property
    def lowered(self) -> Lowered:
        """The program as linalg on tensors, for the engine: weights as arguments, and what is computed from them alone, too.

        Raises:
            Refusal: with everything that has no lowering.
        """
        return self._lower(fold_weights=True)

    @cached_property
    def _whole(self) -> Lowered:
        """The same with all of its operations, as those want it who compile it further."""
        return self._lower(fold_weights=False)

    def _lower(self, *, fold_weights: bool) -> Lowered:
        with self.report.stage("lower"), collection.paused():
            # What is loaded for it, and the compiler, take memory in their turn.
            collection.give_back()
            library_code.let_go()
            from onnx2torch_mlir.lowering import lower

            lowered = lower(
                self.exported,
                input_names=[spec.name for spec in self.flat_inputs],
                output_names=[spec.name for spec in self.flat_outputs],
                dim_names=self.dim_names,
                elements={spec.name: spec.element for spec in (*self.flat_inputs, *self.flat_outputs) if spec.element},
                fold_weights=fold_weights,
            )
        return replace(lowered, defaults=self.defaults)

    def to_mlir(self, dialect: str = "torch", *, weights: Weights = "inline") -> MlirModule:
        """The program as a module of ``dialect``: torch, linalg, tosa or stablehlo; the report says what stands for sequences.

        ``weights`` are constants of the module (``inline``), arguments of its function (``args``), arguments whose data are
        saved beside it as safetensors (``external``), or parameters of IREE whose data are saved beside it (``irpa``).

        Raises:
            Refusal: O2M-U001 for another dialect; what has no lowering or hand-off.
        """
        if dialect not in DIALECTS:
            raise refuse("O2M-U001", f"there is no dialect {dialect!r}; choose one of {', '.join(DIALECTS)}", case=dialect)
        self.note_border()
        if dialect == "linalg":
            from onnx2torch_mlir.handoff.linalg import to_linalg

            lowered = self._whole
            with self.report.stage("emit linalg"):
                return to_linalg(lowered, weights=weights)
        from onnx2torch_mlir.handoff import to_dialect

        with self.report.stage(f"emit {dialect}"):
            names = [spec.name for spec in self.flat_inputs]
            return to_dialect(self.exported, dialect, weights=weights, input_names=names)

    @collection.paused()
    def compile(self, *, threads: int | None = None) -> Engine | PackedProgram:
        """Native code for this machine's CPU; wrapped where an input or output is no tensor.

        Raises:
            Refusal: with everything that has no lowering; what the compiler refuses.
        """
        from onnx2torch_mlir.engine import compile as compile_lowered
        from onnx2torch_mlir.engine import start_compiler

        start_compiler()
        lowered = self.lowered
        with self.report.stage("compile"):
            engine = compile_lowered(lowered, threads=threads)
        return PackedProgram(engine, self.inputs, self.outputs, self.dim_names, self.defaults) if self.is_composite else engine

    def save_native(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str = "model",
        source: Source | None = None,
        force: bool = False,
        writing: Writing | None = None,
    ) -> dict[str, Any]:
        """Write native code for this machine's CPU as files that a C program uses without Python; gives their manifest.

        In ``folder`` will be ``name.o``, ``name.h``, ``name.weights``, ``name.json`` and, with a C compiler, ``libname.so``:
        all or none. ``source`` is the model file for the manifest; ``force`` replaces files that no earlier call wrote;
        ``writing`` shows how far the weights are. See docs/ahead_of_time.md.

        Raises:
            Refusal: O2M-U001 for a ``name`` that cannot begin C names, O2M-U004 where files cannot be written or are in
                the way, O2M-M003 for an input or output that C programs cannot pass, and what `compile` raises.
        """
        from onnx2torch_mlir.engine import start_compiler
        from onnx2torch_mlir.engine.ahead_of_time.writing import Source, write

        start_compiler()
        self.note_border()
        lowered = self.lowered
        with self.report.stage("compile"):
            return write(lowered, folder, name=name, source=source or Source("a program"), force=force, writing=writing)

    def eager(self) -> EagerProgram | PackedProgram:
        """The program in eager PyTorch, without any MLIR; wrapped as in `compile`."""
        from onnx2torch_mlir.program.eager import EagerProgram

        eager = EagerProgram(self)
        return PackedProgram(eager, self.inputs, self.outputs, self.dim_names, self.defaults) if self.is_composite else eager

    @property
    def is_composite(self) -> bool:
        """Whether an input or output is a sequence or an optional."""
        return any(not isinstance(spec, TensorSpec) for spec in (*self.inputs, *self.outputs))

    def note_border(self) -> None:
        """Say in the report which tensors stand for inputs and outputs that are none; called where the program is written."""
        self.report.extend(border_notes(self.inputs, self.outputs))

    @property
    def weight_bytes(self) -> int:
        """Bytes of the program's weights."""
        return sum(tensor.nbytes for tensor in self.exported.state_dict.values())

    def save(self, path: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None) -> None:
        """Write the program as a ``.pt2`` file (`torch.export.save`); ``progress`` is told the bytes that have been written."""
        from onnx2torch_mlir.handoff import save_pt2

        self.note_border()
        save_pt2(self.exported, path, progress)

    @classmethod
    def of(cls, converted: Converted, report: Report) -> CoreProgram:
        """What the conversion gave, with the report that it belongs to."""
        return cls(converted.exported, converted.inputs, converted.outputs, converted.dim_names, report)

    def __str__(self) -> str:
        return str(self.exported)
