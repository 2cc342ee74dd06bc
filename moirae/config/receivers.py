"""Receivers of notifications, as the workspace file declares them."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from moirae.config.durations import PositiveDuration
from moirae.config.paths import LocalPath, Secret
from moirae.documents.types import ConfigModel, Flag, NonNegativeInt, Text

CHANNELS = ("webhook", "slack", "email", "pagerduty", "apprise")
_MAX_TEMPLATE = 20_000  # characters

Template = Annotated[Text, Field(max_length=_MAX_TEMPLATE)]


def _check_url(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not value.get_secret_value().startswith(("http://", "https://", "${")):
        raise ValueError("must be an http:// or https:// URL")
    return value


class SlackTarget(ConfigModel):
    """Slack: an incoming webhook, or a bot with a channel."""

    webhook: Secret | None = Field(default=None, description="URL of an incoming webhook.")
    token: Secret | None = Field(
        default=None, description="Token of a bot (xoxb-…), which threads and edits need."
    )
    channel: Text | None = Field(default=None, description="Channel of the bot, such as #ops.")
    signing_secret: Secret | None = Field(
        default=None,
        description="Signing secret of the app: messages have a button Acknowledge, whose requests "
        "the server takes at /api/v1/callbacks/slack/NAME.",
    )
    app_token: Secret | None = Field(
        default=None,
        description="App-level token (xapp-…) for Socket Mode: messages have a button Acknowledge "
        "without an open port.",
    )
    api: Text = Field(
        default="https://slack.com/api", description="Address of Slack's Web API, for proxies."
    )

    @field_validator("webhook")
    @classmethod
    def _validate_webhook(cls, value: SecretStr | None) -> SecretStr | None:
        return _check_url(value)

    @field_validator("api")
    @classmethod
    def _validate_target(cls, value: str, info: ValidationInfo) -> str:
        if not {"webhook", "token", "channel"} <= info.data.keys():
            return value  # one of them is invalid and reported
        if (info.data["webhook"] is None) == (info.data["token"] is None):
            raise ValueError("set either webhook, or token with channel")
        if (info.data["token"] is None) != (info.data["channel"] is None):
            raise ValueError("token and channel belong together")
        if not value.startswith(("http://", "https://")):
            raise ValueError("must be an http:// or https:// URL")
        return value.rstrip("/")

    model_config = {**ConfigModel.model_config, "validate_default": True}


class EmailTarget(ConfigModel):
    """Mail by SMTP."""

    to: tuple[Text, ...] = Field(description="Addresses.", min_length=1)
    from_: Text = Field(alias="from", description="Address of the sender.")
    smarthost: Text = Field(description="host:port of the SMTP server.")
    tls: Literal["starttls", "implicit", "none"] = Field(
        default="starttls",
        description="starttls: required before anything is sent; implicit: from the start; none.",
    )
    ca: LocalPath | None = Field(
        default=None, description="File of certificates that sign the server's; null: the system's."
    )
    username: Text | None = Field(default=None, description="User at the SMTP server.")
    password: Secret | None = Field(default=None, description="Password at the SMTP server.")

    @field_validator("to", "from_")
    @classmethod
    def _validate_addresses(cls, value: Any) -> Any:
        for address in (value,) if isinstance(value, str) else value:
            if "@" not in address or any(character in address for character in "\r\n,"):
                raise ValueError(f"{address[:80]!r} is not a mail address")
        return value

    @field_validator("smarthost")
    @classmethod
    def _validate_smarthost(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if not host or not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise ValueError(f"{value[:80]!r} is not host:port, such as mail.example:587")
        return value

    @property
    def host(self) -> str:
        return self.smarthost.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.smarthost.rpartition(":")[2])


class PagerDutyTarget(ConfigModel):
    """PagerDuty's Events API v2."""

    routing_key: Secret = Field(description="Integration key of a service.")
    signing_secret: Secret | None = Field(
        default=None,
        description="Secret of a webhook subscription (version 3) for acknowledged incidents to "
        "/api/v1/callbacks/pagerduty/NAME of the server.",
    )
    api_token: Secret | None = Field(
        default=None,
        description="Read-only key of the REST API: acknowledged incidents are asked for, without "
        "an open port.",
    )
    poll: PositiveDuration = Field(
        default=timedelta(seconds=30), description="Time between two requests to the REST API."
    )
    url: Text = Field(
        default="https://events.pagerduty.com/v2/enqueue", description="Address of the Events API."
    )
    api: Text = Field(default="https://api.pagerduty.com", description="Address of the REST API.")


def _expand_pagerduty(value: Any) -> Any:
    """A text is a routing key."""
    return {"routing_key": value} if isinstance(value, str) else value


class Receiver(ConfigModel):
    """A receiver of notifications: exactly one of webhook, slack, email, pagerduty and apprise."""

    webhook: Secret | None = Field(
        default=None,
        description="http(s) URL that receives Alertmanager webhook messages, version 4.",
    )
    slack: SlackTarget | None = Field(default=None, description="Slack.")
    email: EmailTarget | None = Field(default=None, description="Mail.")
    pagerduty: Annotated[
        PagerDutyTarget | None,
        BeforeValidator(_expand_pagerduty, json_schema_input_type=str | PagerDutyTarget | None),
    ] = Field(default=None, description="PagerDuty: a routing key, or more.")
    apprise: Secret | None = Field(
        default=None,
        validate_default=True,
        description="Apprise URL of another channel; needs the extra `apprise`.",
    )
    send_resolved: Flag = Field(default=True, description="Also report the end of alerts.")
    max_alerts: NonNegativeInt = Field(
        default=0, description="Alerts of one webhook message at most; 0: all."
    )
    update: Literal["edit", "thread", "new"] = Field(
        default="new",
        description="What becomes of later messages of a group: edit the first one or follow it in "
        "its thread (Slack bots), or new messages.",
    )
    refined: Literal["never", "if_changed"] = Field(
        default="never",
        description="Whether a message follows, as update says, when history says other things of "
        "alerts that fire on: similar alerts, what fixed them, or whether a value is normal. At most "
        "one in each group_interval.",
    )
    actions: tuple[Literal["acknowledge", "silence"], ...] = Field(
        default=(),
        description="Links in messages about alerts that fire: each acts once, within a day, for "
        "whoever has the message.",
    )
    repeat_acknowledged: Flag = Field(
        default=False, description="Repeat also alerts that somebody has acknowledged."
    )
    title: Template | None = Field(
        default=None, description="Template of the title; null: the built-in one."
    )
    body: Template | None = Field(
        default=None, description="Template of the text; null: the built-in one."
    )
    timeout: PositiveDuration | None = Field(
        default=None, description="Time for one delivery in all; null: 10s, for apprise 30s."
    )

    @field_validator("webhook")
    @classmethod
    def _validate_webhook(cls, value: SecretStr | None) -> SecretStr | None:
        return _check_url(value)

    @field_validator("apprise")
    @classmethod
    def _validate_one_target(
        cls, value: SecretStr | None, info: ValidationInfo
    ) -> SecretStr | None:
        if not set(CHANNELS[:-1]) <= info.data.keys():
            return value  # one of them is invalid and reported
        targets = [*(info.data[channel] for channel in CHANNELS[:-1]), value]
        if targets.count(None) != len(targets) - 1:
            raise ValueError("set exactly one of webhook, slack, email, pagerduty and apprise")
        return value

    @property
    def channel(self) -> str:
        """Which of its targets is set."""
        return next(name for name in CHANNELS if getattr(self, name) is not None)
