"""What can be written after ``onnx2mlir``. Imports nothing heavy: ``--help`` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

EMIT = ("torch", "linalg", "tosa", "stablehlo", "core")
COMMANDS = ("convert", "compile", "check", "run", "verify", "explain", "coverage")

EPILOG = """examples:
  onnx2mlir model.onnx                                 the torch dialect, to standard output
  onnx2mlir model.onnx -o model.mlirbc                 the same as bytecode
  onnx2mlir model.onnx --emit linalg --dim batch=1 -o model.mlir
  onnx2mlir model.onnx --weights external -o model.mlir   weights beside it, in model.safetensors
  onnx2mlir model.onnx -o model.pt2                    the core program, for torch.export.load
  onnx2mlir compile model.onnx -o build                native code, header and weights for a C program
  onnx2mlir check model.onnx                           every reason why it would not convert
  onnx2mlir verify model.onnx --dim batch=7 --bisect   against onnxruntime; which node differs first?
  onnx2mlir run model.onnx --inputs in.npz -o out.npz  natively on this CPU
  onnx2mlir run model.onnx --profile --trace t.json    where the time goes, by node
  onnx2mlir explain model.onnx                         what becomes of each node
  onnx2mlir explain O2M-C004                           what a code means
  onnx2mlir coverage --op Conv                         what is supported, as measured
  onnx2mlir coverage --format html -o coverage.html    the same for all operators, to search and filter

exit codes:
  0 fine   1 defect of this program   2 usage   3 read   4 convert   5 lower   6 hand-off   7 compile   8 run
  9 numbers differ   10 coverage page is stale   11 op_specs   130 interrupted   141 output closed
"""

COMPILE_EPILOG = """what is written, all or nothing:
  NAME.h        the functions NAME_open, NAME_run, NAME_free and NAME_close, and the model's inputs and outputs
  NAME.o        the code; needs the C library, -lm and -pthread
  libNAME.so    the same as a shared library, where there is a C compiler
  NAME.weights  what the code maps into memory when it is opened
  NAME.json     what was compiled, for which processor, and the SHA-256 of each file

examples:
  onnx2mlir compile resnet.onnx -o build
  cc -Ibuild main.c build/resnet.o -lm -pthread -o main
  onnx2mlir compile bert.onnx --dim batch=1 --name encoder -o build      a second model beside it
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with 2 where it cannot be used, with 0 after ``--help``."""
    listed = list(arguments)
    if listed and listed[0] not in (*COMMANDS, "-h", "--help", "--version"):
        listed.insert(0, "convert")
    return parser().parse_args(listed)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    top = argparse.ArgumentParser(
        prog="onnx2mlir",
        usage="onnx2mlir [convert] MODEL [-o FILE] [--emit DIALECT] …\n"
        "       onnx2mlir {compile,check,run,verify,explain} MODEL …\n"
        "       onnx2mlir coverage [--op PATTERN] [--check]",
        description="Convert an ONNX model to a core PyTorch program and to MLIR, run it on the CPU, check it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="onnx2mlir")
    general = _general()
    _convert(commands.add_parser("convert", parents=[general], help="convert (the default)"))
    _compile(
        commands.add_parser(
            "compile",
            parents=[general],
            help="native code for C programs",
            description="Write native code for this machine's CPU as files that a C program uses without Python.",
            epilog=COMPILE_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    _check(commands.add_parser("check", parents=[general], help="every reason why a model would not convert"))
    _run(commands.add_parser("run", parents=[general], help="run a model natively on the CPU"))
    _verify(commands.add_parser("verify", parents=[general], help="compare a model's numbers with onnxruntime's"))
    _explain(commands.add_parser("explain", parents=[general], help="what becomes of each node, or what a code means"))
    reports = _general(("text", "json", "html"))
    _coverage(commands.add_parser("coverage", parents=[reports], help="what is supported, as measured"))
    return top


def _general(formats: Sequence[str] = ("text", "json")) -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--format", choices=formats, default="text", help="of findings and reports")
    common.add_argument("--debug", action="store_true", help="show the traceback of an internal error")
    return common


def _model(command: argparse.ArgumentParser, what: str = "the ONNX model") -> None:
    command.add_argument("model", metavar="MODEL", help=what)
    command.add_argument(
        "--dim", action="append", default=[], metavar="NAME=N", help="the size of a named dim; may be repeated"
    )
    command.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="give an input its contents: a number, a JSON list, or an .npy file; may be repeated",
    )
    command.add_argument(
        "--reproducer", type=Path, metavar="DIR", help="write the one-node model of every finding that names a node"
    )


def _execution(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help=".npz, .npy, .pb, or a folder with input_0.pb …; else generated. In an .npz the elements of a sequence are"
        " called NAME[0], NAME[1] … (or lie along the first axis of NAME); an optional that is not in it is absent",
    )
    command.add_argument("--seed", type=int, default=0, help="of generated inputs")
    command.add_argument("--eager", action="store_true", help="run the core program in eager PyTorch, without MLIR")
    command.add_argument("--threads", type=int, metavar="N", help="by default one per processor")


def _convert(command: argparse.ArgumentParser) -> None:
    _model(command)
    command.add_argument(
        "-o", "--output", metavar="FILE", help=".mlir, .mlirbc (bytecode) or .pt2; else standard output"
    )
    command.add_argument("--emit", choices=EMIT, help="default: torch; core for a FILE that ends in .pt2")
    command.add_argument(
        "--weights",
        choices=("inline", "args", "external", "irpa"),
        default="inline",
        help="constants of the module, arguments of its function, these with a .safetensors file beside it, or IREE's"
        " parameters with an .irpa file beside it",
    )


def _compile(command: argparse.ArgumentParser) -> None:
    _model(command)
    command.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder for the files; made if need be")
    command.add_argument(
        "--name",
        metavar="NAME",
        help="of the files and the C functions: letters, digits, _ (default: from the model's file name)",
    )
    command.add_argument("--force", action="store_true", help="replace files that were not written by this command")


def _check(command: argparse.ArgumentParser) -> None:
    _model(command)


def _run(command: argparse.ArgumentParser) -> None:
    _model(command)
    _execution(command)
    command.add_argument("-o", "--output", metavar="FILE", help="write the outputs to an .npz")
    command.add_argument("--profile", action="store_true", help="the time of each node, in a build with clocks")
    command.add_argument("--trace", type=Path, metavar="FILE", help="with --profile: write a trace for Chrome or Perfetto")
    command.add_argument("--repeat", type=int, default=10, metavar="N", help="with --profile: runs to measure (default: 10)")


def _verify(command: argparse.ArgumentParser) -> None:
    _model(command)
    _execution(command)
    command.add_argument("--static", action="store_true", help="compile for exactly the sizes of --dim")
    command.add_argument("--bisect", action="store_true", help="name the first node whose value differs")
    command.add_argument("--rtol", type=float, help="relative tolerance, instead of the dtype's")
    command.add_argument("--atol", type=float, help="absolute tolerance, instead of the dtype's")
    command.add_argument("--ulp", type=int, metavar="N", help="strict: at most N representable numbers apart; 0 is the same")


def _explain(command: argparse.ArgumentParser) -> None:
    _model(command, "the ONNX model, or a code such as O2M-C003")


def _coverage(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", metavar="FILE", help="write the report; else standard output")
    command.add_argument("--domain", metavar="D", help="only this domain, such as ai.onnx.ml")
    command.add_argument("--op", metavar="PATTERN", help="the rows of an operator in detail, or of several: 'Reduce*'")
    command.add_argument("--check", action="store_true", help="fail with 10 if a page in docs is stale; runs no case")
