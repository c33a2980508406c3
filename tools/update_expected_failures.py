"""Rewrite tests/suite/expected_failures.yaml from a measured run.

python -m tools.update_expected_failures                      run all cases, then write the list
python -m tools.update_expected_failures --from results.json  from the results of ``python -m tools.suite --json``
python -m tools.update_expected_failures --check …            write nothing; say what differs, exit with 1
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.suite.cases import load_cases
from tests.suite.execution import CaseResult
from tests.suite.expectations import PATH, dump, load, problems
from tests.suite.pool import run_cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="results", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    cases = load_cases()
    if options.results is not None:
        results = [CaseResult(**item) for item in json.loads(options.results.read_text())]
    else:
        results = run_cases(cases)
    missing = {case.id for case in cases} - {f"{item.kind}/{item.name}" for item in results}
    if missing:
        print(f"the results lack {len(missing)} of {len(cases)} cases, e.g. {sorted(missing)[0]}", file=sys.stderr)
        return 2
    if options.check:
        differing = problems(results, load())
        print("\n".join(differing))
        return 1 if differing else 0
    PATH.write_text(dump(results))
    passed = sum(item.stage == "pass" for item in results)
    print(f"{passed} of {len(results)} pass; {len(results) - passed} are listed in {PATH.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
