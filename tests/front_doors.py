"""A contract for import-linter: a folder is entered through its front door."""

from collections.abc import Iterable

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class FrontDoors(Contract):
    """Outside of `package.folder`, import `package.folder` and not `package.folder.module`.

    `doors` names further modules that may be imported from outside of their folder: nested folders
    with a front door of their own, and modules that a front door exports as a namespace.
    """

    type_name = "front_doors"
    doors = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Every import of a module past the front door of its folder."""
        packages = self.session_options["root_packages"]
        doors = set(self.doors)
        violations: list[tuple[str, str, str]] = []
        for module in graph.modules:
            door = _find_door(module, doors)
            if door == module or module.split(".")[0] not in packages:
                continue
            for importer in graph.find_modules_that_directly_import(module):
                if importer != door and not importer.startswith(f"{door}."):
                    violations.append((importer, module, door))
        return ContractCheck(kept=not violations, metadata={"violations": sorted(violations)})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each violation."""
        for importer, module, door in check.metadata["violations"]:
            output.print_error(f"{importer} imports {module}: import it from {door}", bold=False)


def _find_door(module: str, doors: Iterable[str]) -> str:
    """The innermost door that a module is or lies behind; its folder if no other."""
    folder = ".".join(module.split(".")[:2])
    door = folder
    for candidate in doors:
        is_behind = module == candidate or module.startswith(f"{candidate}.")
        if is_behind and len(candidate) > len(door):
            door = candidate
    return door
