"""Model of the map of a Sigma collection: which column or expression each of its fields is."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from moirae.documents.types import ConfigModel, Sql, Text, TextOrNumber

PLACEHOLDER_LIMIT = 1000  # values of one placeholder


class FieldExpression(ConfigModel):
    """A field that is computed from columns."""

    sql: Sql = Field(description="Spark SQL expression over the columns of the stream.")
    type: Text = Field(
        default="string",
        description="Its type: string, int, bigint, double, boolean or timestamp.",
    )

    @field_validator("type")
    @classmethod
    def _validate_type(cls, name: str) -> str:
        types = ("string", "int", "bigint", "float", "double", "boolean", "date", "timestamp")
        if name not in types:
            raise ValueError(f"must be one of {', '.join(types)}")
        return name


class LogSource(ConfigModel):
    """How rules of a Sigma log source are imported. A key that is absent matches any."""

    category: Text | None = Field(default=None, description="Category, such as process_creation.")
    product: Text | None = Field(default=None, description="Product, such as windows.")
    service: Text | None = Field(default=None, description="Service, such as sysmon.")
    where: Sql | None = Field(
        default=None,
        description="Spark SQL condition: which rows of the stream belong to the log source. "
        "Default: all.",
    )
    fields: Mapping[str, Text | FieldExpression] = Field(
        default_factory=dict,
        description="Sigma field -> column or expression; these go before the common ones.",
    )
    keywords: tuple[Text, ...] | None = Field(
        default=None,
        description="Text columns in which keywords without a field are searched. Default: the "
        "common ones.",
    )


class SigmaMap(ConfigModel):
    """How a Sigma collection is imported over a stream."""

    key: tuple[Text, ...] | None = Field(
        default=None,
        min_length=1,
        description="Attributes that, with the name of the alert, form its fingerprint; --key "
        "goes before it.",
    )
    fields: Mapping[str, Text | FieldExpression] = Field(
        default_factory=dict,
        description="Sigma field -> column or expression, for all log sources. A field that is "
        "not listed is the column of its name.",
    )
    keywords: tuple[Text, ...] = Field(
        default=(), description="Text columns in which keywords without a field are searched."
    )
    placeholders: Mapping[str, tuple[TextOrNumber, ...]] = Field(
        default_factory=dict,
        description="Placeholder of the modifier expand, without the percent signs -> its values.",
    )
    logsources: tuple[LogSource, ...] = Field(
        default=(),
        description="Log sources that the stream holds; the first that matches a rule is used. "
        "Rules of others are left out. Default: all.",
    )
    severity: Mapping[str, Text] = Field(
        default_factory=dict,
        description="Sigma level -> value of the label severity. Default: the level.",
    )
    license: Text | None = Field(
        default=None,
        description="Annotation license of rules that name none, such as Detection Rule License "
        "1.1.",
    )

    @field_validator("placeholders")
    @classmethod
    def _limit_placeholders(
        cls, placeholders: Mapping[str, tuple[str, ...]]
    ) -> Mapping[str, tuple[str, ...]]:
        for name, values in placeholders.items():
            if len(values) > PLACEHOLDER_LIMIT:
                raise ValueError(f"{name}: more than {PLACEHOLDER_LIMIT} values")
        return placeholders
