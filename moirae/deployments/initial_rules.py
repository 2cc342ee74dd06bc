"""The rule files of a workspace at the start of the live process."""

import structlog

from moirae.config import Settings
from moirae.deployments.registry import RuleRegistry
from moirae.deployments.reload import RuleFileLoader
from moirae.errors import MoiraeError

_LOG = structlog.get_logger()


class InitialRules:
    """Applies the rule files once. `required`: invalid files are an error."""

    def __init__(
        self,
        settings: Settings,
        loader: RuleFileLoader,
        registry: RuleRegistry,
        *,
        required: bool,
    ) -> None:
        self._settings = settings
        self._loader = loader
        self._registry = registry
        self._required = required

    def apply(self) -> None:
        """Make the rule files the desired rules.

        Without files, and with invalid ones, nothing changes: rules deployed before remain active.
        Raises `MoiraeError` for invalid files if they are required, or if no rules are deployed.
        """
        if not self._settings.find_rule_files():
            rules = len(self._registry.desired_rules())
            _LOG.warning(
                "no rule files: rows are archived, applied rules are evaluated",
                action="rules_without_files",
                rules=rules,
            )
            return
        try:
            self._loader.apply()
        except MoiraeError as error:
            if self._required or not self._registry.desired_rules():
                raise
            _LOG.error("rule files rejected", action="rules_rejected", problems=str(error))
