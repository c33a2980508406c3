"""The entry of the command: dispatch, and what becomes of refusals, interrupts and defects."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from onnx2torch_mlir.cli.arguments import parse, parser

INTERNAL_ERROR = 1
INTERRUPTED = 130
OUTPUT_CLOSED = 141


def command() -> NoReturn:
    """The process of the command: `main`, what others have registered for the end of the process, and its end.

    Python itself would then look through all objects and take apart what PyTorch is made of, for most of a second.
    """
    code = main()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # Who read it is gone, or there is none.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code (docs/exit-codes.md)."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.version:
        from importlib.metadata import version

        print(f"onnx2mlir {version('onnx2torch_mlir')}")
        return 0
    if options.command is None:
        parser().print_help(sys.stderr)
        return 2
    try:
        command = importlib.import_module(f"onnx2torch_mlir.cli.{options.command}_command")
        code: int = command.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output is gone; without this, Python would complain once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except Exception as error:
        return _internal_error(error, options.format, options.debug)
    return code


def _internal_error(error: Exception, format_: str, debug: bool) -> int:
    import json
    import traceback

    reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    trace = "".join(traceback.format_exception(error)) if debug else ""
    if format_ == "json":
        hint = "please report it, with the output of --debug"
        told = {"internal_error": {"reason": reason, "hint": hint, "traceback": trace}, "exit_code": INTERNAL_ERROR}
        print(json.dumps(told, indent=2))
        return INTERNAL_ERROR
    hint = "" if debug else " with the traceback that --debug shows"
    print(f"{trace}internal error: {reason}\n  This is a defect of onnx2mlir; please report it{hint}.", file=sys.stderr)
    return INTERNAL_ERROR
