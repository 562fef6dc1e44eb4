"""Settings of the process itself, from the environment: HERMES_CONFIG, HERMES_LOG_LEVEL."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic_settings import BaseSettings, SettingsConfigDict


class ProcessSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HERMES_", env_ignore_empty=True)

    config: Path = Path("config")
    """The folder that holds hermes.yaml."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    """In place of `log: level:` in hermes.yaml."""
