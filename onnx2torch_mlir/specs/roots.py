"""Where rows, ledgers and converters come from: this package, and packages that bring operators of their own.

Such a package (a *plug-in*) holds up to three folders, ``op_specs/<domain>/*.yaml``, ``opsets/<domain>/*.yaml`` and
``domains/<domain with _>/``, and may hold `MANIFEST`, which says for which interface it was written. How it makes itself
known is in `specs.plugins`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "onnx2torch_mlir"

MANIFEST = "plugin.yaml"
"""The file of a plug-in that says for which interface it was written: ``api: 1``."""


@dataclass(frozen=True)
class Root:
    """One source of specs: two folders, and the Python package under which its converters are imported.

    ``package`` names the plug-in, "" this package.
    """

    op_specs: Path
    opsets: Path
    converters: str
    package: str = ""

    def converter_module(self, domain: str) -> str:
        """The package of the converters of ``domain``, e.g. ``onnx2torch_mlir.domains.ai_onnx``."""
        return f"{self.converters}.{domain.replace('.', '_')}"

    def shown(self, path: Path) -> str:
        """A file below ``op_specs`` as findings name it: with the plug-in that it belongs to."""
        return str(Path(self.package) / path.relative_to(self.op_specs.parent))

    @classmethod
    def of_folder(cls, folder: Path, package: str) -> Root:
        """The root that ``folder`` is; ``package`` is the Python package that it is the folder of."""
        return cls(folder / "op_specs", folder / "opsets", f"{package}.domains", package)

    @classmethod
    def of_package(cls, package: str) -> Root:
        """The root that an importable package brings; only packages around it are imported, not itself.

        Raises:
            ModuleNotFoundError: there is no such package.
        """
        found = importlib.util.find_spec(package)
        folders = [Path(folder) for folder in (found.submodule_search_locations or ())] if found is not None else []
        if not folders:
            raise ModuleNotFoundError(f"there is no package {package}", name=package)
        holding = next((folder for folder in folders if (folder / "op_specs").is_dir()), folders[0])
        return cls.of_folder(holding, package)


_HERE = Path(__file__).resolve().parent.parent
BUILTIN = Root(_HERE / "op_specs", _HERE / "opsets", f"{PACKAGE}.domains")
"""The root that this package is."""
