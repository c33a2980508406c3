"""The ledger: every version of every operator that a domain's standard declares, read lazily, one file per operator.

Nothing here asks `onnx` or `onnxruntime`: ``opsets/<domain>/`` is generated from them by ``tools/sync_opsets.py``, checked
in, and a third-party domain brings a folder of the same form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.specs.ledger_text import parse_operator
from onnx2torch_mlir.specs.operator import Operator, OperatorVersion, canonical_domain
from onnx2torch_mlir.specs.roots import BUILTIN

DOMAIN_FILE = "_domain.yaml"
"""The file of a domain's folder: ``newest_opset: 28``, and ``extends: ai.onnx`` where its operators may stand in a node
of that domain, for what it does not have itself (as onnxruntime adds LayerNormalization to the opsets before 17)."""


class Domain:
    """The operators of one domain, from one or several folders (the first that has an operator wins)."""

    def __init__(self, name: str, folders: list[Path]) -> None:
        self.name = name
        self._files: dict[str, Path] = {}
        self._operators: dict[str, Operator] = {}
        numbers = [0]
        self.extends: set[str] = set()
        """The domains whose nodes may mean operators of this one."""
        for folder in folders:
            for entry in folder.iterdir():
                if entry.name == DOMAIN_FILE:
                    newest, extended = _read_domain(entry)
                    numbers.append(newest)
                    self.extends |= extended
                elif entry.suffix == ".yaml":
                    self._files.setdefault(entry.stem, entry)
        self.newest_opset: int = max(numbers)
        """The newest opset that the ledger knows."""

    def operators(self) -> tuple[str, ...]:
        """The names of all operators, sorted."""
        return tuple(sorted(self._files))

    def operator(self, op: str) -> Operator | None:
        """The operator ``op`` with all its versions, or None. Raises `Refusal` (O2M-S005) for a broken file."""
        operator = self._operators.get(op)
        if operator is None and (file := self._files.get(op)) is not None:
            operator = parse_operator(self.name, op, file.read_text(encoding="utf-8"), str(file))
            self._operators[op] = operator
        return operator


def _read_domain(file: Path) -> tuple[int, set[str]]:
    lines = [line.partition(":") for line in file.read_text(encoding="utf-8").splitlines()]
    told = {key.strip(): value.strip() for key, _, value in lines}
    if not told.get("newest_opset", "").isdecimal() or told.keys() - {"newest_opset", "extends"} or len(told) < len(lines):
        raise refuse("O2M-S005", f"{file} must say 'newest_opset: <number>', may say 'extends: <domain>', and nothing else")
    return int(told["newest_opset"]), {canonical_domain(told["extends"])} if "extends" in told else set()


class Ledger:
    """All domains under one or several ``opsets`` folders.

    Without arguments the folder that this package ships; third-party domains add theirs, see `specs.roots`. A folder
    holds one sub-folder per domain, named as the domain is (``ai.onnx`` for the default one).
    """

    def __init__(self, *roots: Path) -> None:
        self.roots = roots or (BUILTIN.opsets,)
        self._folders: dict[str, list[Path]] = {}
        self._domains: dict[str, Domain] = {}
        for root in self.roots:
            for folder in sorted(root.iterdir()) if root.is_dir() else ():
                if folder.is_dir():
                    self._folders.setdefault(folder.name, []).append(folder)

    def domains(self) -> tuple[str, ...]:
        """The names of all domains, sorted; the default one as ``ai.onnx``."""
        return tuple(sorted(self._folders))

    def domain(self, domain: str) -> Domain | None:
        """The domain of that name, or None where the ledger has none."""
        domain = canonical_domain(domain)
        if domain not in self._domains and domain in self._folders:
            self._domains[domain] = Domain(domain, self._folders[domain])
        return self._domains.get(domain)

    def newest_opset(self, domain: str) -> int | None:
        """The newest opset of ``domain`` that the ledger knows, or None for an unknown domain."""
        found = self.domain(domain)
        return None if found is None else found.newest_opset

    def operator(self, domain: str, op: str) -> Operator | None:
        """The operator, or None where the domain or the operator is unknown."""
        found = self.domain(domain)
        return None if found is None else found.operator(op)

    def version(self, domain: str, op: str, opset: int) -> OperatorVersion | None:
        """The operator version that a node ``domain::op`` means in a model importing ``opset`` of that domain: the domain's
        own, else that of a domain which extends it. None where there is none."""
        for candidate in (canonical_domain(domain), *self._extensions(domain)):
            operator = self.operator(candidate, op)
            version = None if operator is None else operator.version_for(opset)
            if version is not None:
                return version
        return None

    def _extensions(self, domain: str) -> Iterator[str]:
        for name in self.domains():
            found = self.domain(name)
            if found is not None and canonical_domain(domain) in found.extends:
                yield name

    def knows(self, domain: str, op: str) -> bool:
        """Whether a node ``domain::op`` means an operator at any opset."""
        return any(self.operator(name, op) is not None for name in (domain, *self._extensions(domain)))

    def versions(self, domain: str) -> Iterator[OperatorVersion]:
        """Every version of every operator of ``domain``; reads all of its files."""
        found = self.domain(domain)
        for op in found.operators() if found is not None else ():
            operator = found.operator(op) if found is not None else None
            yield from operator.versions if operator is not None else ()
