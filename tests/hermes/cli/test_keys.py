"""Keys from the command line: shown once, listed without what is secret, revoked."""

from __future__ import annotations

import re

from hermes.cli.choices import SCOPES
from hermes.model.api_key import Scope


def test_the_scopes_are_those_of_the_api() -> None:
    assert tuple(Scope) == SCOPES


def test_a_key_is_shown_once_and_listed_by_its_prefix(place) -> None:
    made = place.ok("keys", "create", "billing", "--namespace", "shop", "--scope", "fire", "--scope", "runs:read")
    text = made.out.splitlines()[0]
    prefix = re.fullmatch(r"hp_([a-z0-9]{10})_[A-Za-z0-9_-]{43}", text)[1]
    listed = place.ok("keys", "list")
    assert f"hp_{prefix}_..." in listed.out
    assert "fire runs:read" in listed.out
    assert "never" in listed.out
    assert text.rpartition(f"{prefix}_")[2] not in listed.out + place.ok("keys", "list", "--json").out
    (key,) = place.ok("keys", "list", "--json").json["keys"]
    assert (key["name"], key["prefix"], key["namespace"]) == ("billing", prefix, "shop")
    assert (key["scopes"], key["revoked_at"], key["last_used_at"]) == (["fire", "runs:read"], None, None)


def test_a_key_as_json(place) -> None:
    made = place.ok("keys", "create", "all", "--namespace", "*", "--scope", "fire", "--json").json
    assert made["key"].startswith(f"hp_{made['prefix']}_")
    assert made["namespace"] == "*"


def test_a_key_is_revoked_once(place) -> None:
    place.ok("keys", "create", "billing", "--scope", "fire")
    assert place.ok("keys", "revoke", "billing", "--json").json["changed"] is True
    again = place.ok("keys", "revoke", "billing", "--json").json
    assert again["changed"] is False
    assert again["revoked_at"] is not None
    assert "already" in place.ok("keys", "revoke", "billing").out
    assert place.call("keys", "revoke", "nobody").code == 3
    refused = place.call("keys", "create", "billing", "--scope", "fire")
    assert refused.code == 2
    assert "another name" in refused.err


def test_a_key_that_could_open_nothing_is_not_made(place) -> None:
    assert place.call("keys", "create", "billing").code == 2
    assert place.call("keys", "create", "billing", "--scope", "everything").code == 2
    assert place.call("keys", "create", "billing", "--scope", "fire", "--namespace", "a:b").code == 2
    assert "No keys yet" in place.ok("keys", "list").out
    assert place.ok("keys", "list", "--json").json == {"keys": []}
