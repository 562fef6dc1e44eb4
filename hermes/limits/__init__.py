"""What holds callers back: the limiter of a credential."""

from hermes.limits.limiter import DatabaseLimiter, LimitExceeded, credential_key

__all__ = ["DatabaseLimiter", "LimitExceeded", "credential_key"]
