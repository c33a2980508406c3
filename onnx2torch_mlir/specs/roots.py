"""Where rows, ledgers and converters come from: this package, and third-party packages that announce themselves.

A package that brings a domain declares the entry point ``onnx2torch_mlir.domains`` whose value is the package's name::

    [project.entry-points."onnx2torch_mlir.domains"]
    com_example = "onnx2torch_com_example"

and holds the three folders ``op_specs/<domain>/*.yaml``, ``opsets/<domain>/*.yaml`` and ``domains/<domain with _>/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = "onnx2torch_mlir"
ENTRY_POINTS = "onnx2torch_mlir.domains"


@dataclass(frozen=True)
class Root:
    """One source of specs: two folders, and the Python package under which its converters are imported."""

    op_specs: Path
    opsets: Path
    converters: str

    def converter_module(self, domain: str) -> str:
        """The package of the converters of ``domain``, e.g. ``onnx2torch_mlir.domains.ai_onnx``."""
        return f"{self.converters}.{domain.replace('.', '_')}"

    @classmethod
    def of_package(cls, package: str) -> Root:
        """The root that the installed package ``package`` brings."""
        from importlib import resources

        folder = Path(str(resources.files(package)))
        return cls(folder / "op_specs", folder / "opsets", f"{package}.domains")


_HERE = Path(__file__).resolve().parent.parent
BUILTIN = Root(_HERE / "op_specs", _HERE / "opsets", f"{PACKAGE}.domains")
"""The root that this package is."""


def installed_roots() -> tuple[Root, ...]:
    """The built-in root, then those of all installed packages that declare the entry point, by name."""
    from importlib import metadata  # 40 ms, which reading the rows of one package need not cost

    points = sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name)
    return (BUILTIN, *(Root.of_package(point.value) for point in points))
