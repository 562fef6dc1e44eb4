"""What holds callers back: the limiter and the breakers of a credential."""

from hermes.limits.breaker import Breaker
from hermes.limits.limiter import DatabaseLimiter, LimitExceeded, credential_key

__all__ = ["Breaker", "DatabaseLimiter", "LimitExceeded", "credential_key"]
