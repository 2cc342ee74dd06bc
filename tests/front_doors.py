"""A contract for import-linter: a folder's modules are imported from outside through its `__init__` only."""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class FrontDoors(Contract):
    """Outside of `package.folder`, `package.folder.module` is not imported; `package.folder` is."""

    type_name = "front_doors"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Every import that goes past a front door."""
        packages = self.session_options["root_packages"]
        violations: list[tuple[str, str]] = []
        for module in graph.modules:
            folder, _, rest = _split_folder(module)
            if not rest or module.split(".")[0] not in packages:
                continue
            for importer in graph.find_modules_that_directly_import(module):
                if _split_folder(importer)[0] != folder:
                    violations.append((importer, module))
        return ContractCheck(kept=not violations, metadata={"violations": sorted(violations)})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each violation."""
        for importer, module in check.metadata["violations"]:
            folder = _split_folder(module)[0]
            output.print_error(f"{importer} imports {module}: import it from {folder}", bold=False)


def _split_folder(module: str) -> tuple[str, str, str]:
    """`archiver.delta.log` -> ("archiver.delta", ".", "log")."""
    package, _, path = module.partition(".")
    folder, dot, rest = path.partition(".")
    return f"{package}.{folder}", dot, rest
