"""``onnx2mlir verify MODEL``: its numbers against onnxruntime's."""

from __future__ import annotations

import argparse

from onnx2torch_mlir.cli.session import Session, guarded
from onnx2torch_mlir.engine import start_compiler


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    options = session.options
    if not options.eager:
        start_compiler()
    from onnx2torch_mlir.model import read
    from onnx2torch_mlir.verification import verify

    constants = session.constants(read(options.model)) if options.constant else None
    with session.busy(f"verifying {options.model}"):
        result = verify(
            options.model,
            options.inputs,
            dims=session.dims(),
            constants=constants,
            eager=options.eager,
            static=options.static,
            rtol=options.rtol,
            atol=options.atol,
            ulp=options.ulp,
            bisect=options.bisect,
            seed=options.seed,
            threads=options.threads,
            reproducer=options.reproducer,
            report=session.report,
        )
    if not session.json:
        session.out.print(str(result), markup=False)
    told = result.as_dict()
    return session.finish({key: told[key] for key in told if key not in ("stages", "findings")})
