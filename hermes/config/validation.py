"""From a tree of nodes to a typed section: pydantic finds the mistakes, this says where and in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from hermes.config.hermes_file import MayBeLiteral
from hermes.config.problems import Problem, allowed, did_you_mean
from hermes.config.section import Interpolated
from hermes.config.yaml_file import Mapping as MappingNode
from hermes.config.yaml_file import Node, Scalar, plain_value
from hermes.config.yaml_file import Sequence as SequenceNode

Loc = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)

_LOOKS_SECRET = re.compile(r"\bntn_\w{8,}|\bsecret_\w{8,}|\bsk-\w{8,}|\bBearer\s+\S|://[^/\s:@]*:[^/\s@]+@")
_SECRET_KEY = re.compile(r"token|secret|password|passwd|api_?key", re.IGNORECASE)
IN_THE_FILE = "a secret may not stand in the file: write ${NAME} and set NAME, or NAME_FILE to a file that holds it"
_TYPE_WORDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a section of keys",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
}


@dataclass(slots=True)
class ConfigFile:
    """One parsed file: its tree, and the problems found in it so far."""

    name: str
    root: Node
    problems: list[Problem]

    def say(self, loc: Loc, what: str, *, at_key: bool = False) -> None:
        line, column = self.position(loc, at_key=at_key)
        self.problems.append(Problem(self.name, line, column, what))

    def position(self, loc: Loc, *, at_key: bool = False) -> tuple[int, int]:
        """Of the value at `loc`, as far as the tree goes. Steps that are not in the tree (union tags) are skipped."""
        node, key = self.root, None
        for step in loc:
            if (inner := _inner(node, step)) is not None:
                key = node.keys[str(step)] if isinstance(node, MappingNode) else None
                node = inner
        if key is not None and (at_key or not isinstance(node, Scalar) or not node.text):
            return key.line, key.column
        return node.line, node.column

    def node(self, loc: Loc) -> Node | None:
        node: Node | None = self.root
        for step in loc:
            node = None if node is None else _inner(node, step)
        return node

    def value(self, loc: Loc = ()) -> Any:
        """Plain Python of the value at `loc`, after interpolation."""
        node = self.node(loc)
        return None if node is None else self._plain(node, loc, written=False)

    def as_written(self, loc: Loc = ()) -> Any:
        """As `value`, but `${NAME}` stands as it is: nothing from the environment is in it."""
        node = self.node(loc)
        return None if node is None else self._plain(node, loc, written=True)

    def _plain(self, node: Node, loc: Loc, *, written: bool) -> Any:
        if isinstance(node, MappingNode):
            return {key: self._plain(value, (*loc, key), written=written) for key, value in node.items.items()}
        if isinstance(node, SequenceNode):
            return [self._plain(item, (*loc, index), written=written) for index, item in enumerate(node.items)]
        if node.resolved is not None:
            if written:
                return node.text
            return Interpolated(node.resolved) if node.whole else node.resolved
        if not node.plain:
            return node.text
        try:
            return plain_value(node.text)
        except ValueError as exc:
            if not written:
                self.say(loc, str(exc))
            return node.text


def _inner(node: Node, step: int | str) -> Node | None:
    if isinstance(node, MappingNode):
        return node.items.get(step) if isinstance(step, str) else None
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def validate(file: ConfigFile, loc: Loc, model: type[M]) -> M | None:
    """The section at `loc`, or None after saying everything that is wrong with it."""
    value = file.value(loc)
    before = len(file.problems)
    for path, what in _literal_secrets(file, loc, model):
        file.say((*loc, *path), what)
    try:
        section = model.model_validate(value)
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_input=False):
            _say_error(file, loc, model, error)
        return None
    return section if len(file.problems) == before else None


def _say_error(file: ConfigFile, prefix: Loc, model: type[BaseModel], error: ErrorDetails) -> None:
    path = tuple(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    loc = (*prefix, *path)
    if path and path[-1] == "[key]":
        file.say(loc[:-1], f"`{path[-2]}` is not a name: lower-case letters, digits, - and _ (at most 64)", at_key=True)
        return
    if kind == "extra_forbidden":
        owner = model_at(model, path[:-1])
        names = list(owner.model_fields) if owner else []
        what = f"unknown key `{path[-1]}`.{did_you_mean(str(path[-1]), names)} {allowed(names)}"
        file.say(loc, what, at_key=True)
        return
    if _lacks_environment(file.node(loc)):
        return  # said already: what follows from a variable that is not set is no mistake of its own
    if kind == "missing":
        file.say(loc[:-1], f"key `{path[-1]}` is missing", at_key=True)
        return
    file.say(loc, _explain(kind, error["msg"], context) + _shown(file, loc))


def _lacks_environment(node: Node | None) -> bool:
    return any(scalar.lacking for _, scalar, _ in _scalars(node, (), None))


def _explain(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind in _TYPE_WORDS:
        return f"expected {_TYPE_WORDS[kind]}"
    if kind in ("literal_error", "enum"):
        values = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        return f"not one of the known values {allowed(values)}"
    if kind in ("value_error", "assertion_error"):
        return str(context.get("error", message))
    if kind == "string_pattern_mismatch":
        if "a-z0-9" in str(context.get("pattern")):
            return "not a name: lower-case letters, digits, - and _ (at most 64)"
        return f"does not look as it should (pattern {context.get('pattern')})"
    if kind == "string_too_short":
        return "may not be empty"
    if kind in ("greater_than_equal", "less_than_equal", "greater_than", "less_than"):
        bound = next((context[key] for key in ("ge", "le", "gt", "lt") if key in context), "")
        words = {"greater_than_equal": "at least", "less_than_equal": "at most"}
        return f"must be {words.get(kind, 'more than' if kind == 'greater_than' else 'less than')} {bound}"
    return message[:1].lower() + message[1:]


def _shown(file: ConfigFile, loc: Loc) -> str:
    """What stands there, when it is short and surely no secret."""
    node = file.node(loc)
    key = next((step for step in reversed(loc) if isinstance(step, str)), "")
    if not isinstance(node, Scalar) or node.interpolated or _SECRET_KEY.search(key) or _LOOKS_SECRET.search(node.text):
        return ""
    if not node.text or len(node.text) > 40 or not node.text.isprintable():
        return ""
    return f", got {node.text}" if node.plain else f', got "{node.text}"'


def _literal_secrets(file: ConfigFile, loc: Loc, model: type[BaseModel]) -> Iterator[tuple[Loc, str]]:
    """Secrets typed into the file. A credential of a board on this machine protects nothing and may stand there."""
    secret = set(_secret_paths(model, file.node(loc)))
    for path, scalar, siblings in _scalars(file.node(loc), (), None):
        literal = not scalar.interpolated or scalar.literal_default
        if not literal or not scalar.text:
            continue
        shown = scalar.resolved if scalar.resolved is not None else scalar.text
        if (path in secret or _LOOKS_SECRET.search(shown)) and not (_is_local(shown) or _beside_local(siblings)):
            yield path, IN_THE_FILE


def _scalars(
    node: Node | None, path: Loc, siblings: MappingNode | None
) -> Iterator[tuple[Loc, Scalar, MappingNode | None]]:
    if isinstance(node, MappingNode):
        for key, value in node.items.items():
            yield from _scalars(value, (*path, key), node)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _scalars(item, (*path, index), siblings)
    elif isinstance(node, Scalar):
        yield path, node, siblings


def _beside_local(siblings: MappingNode | None) -> bool:
    url = siblings.items.get("base_url") if siblings else None
    return isinstance(url, Scalar) and _is_local(url.resolved if url.resolved is not None else url.text)


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "localhost" or host == "::1" or bool(re.fullmatch(r"127(\.\d{1,3}){3}", host))


def _secret_paths(annotation: Any, node: Node | None, path: Loc = (), *, marked: bool = False) -> Iterator[Loc]:
    """Where the model wants a secret, as far as the file goes."""
    if node is None:
        return
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        marked = marked or any(isinstance(entry, MayBeLiteral) for entry in metadata)
    origin = get_origin(annotation)
    if annotation is SecretStr:
        if not marked:
            yield path
    elif origin in (Union, UnionType):
        for choice in get_args(annotation):
            yield from _secret_paths(choice, node, path, marked=marked)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if isinstance(node, MappingNode):
            for name, field in annotation.model_fields.items():
                key = field.alias or name
                hidden = any(isinstance(entry, MayBeLiteral) for entry in field.metadata)
                yield from _secret_paths(field.annotation, node.items.get(key), (*path, key), marked=hidden)
    elif isinstance(node, MappingNode) and origin is dict:
        for key, value in node.items.items():
            yield from _secret_paths(get_args(annotation)[1], value, (*path, key))
    elif isinstance(node, SequenceNode) and origin in (list, tuple, set, frozenset):
        for index, item in enumerate(node.items):
            yield from _secret_paths(get_args(annotation)[0], item, (*path, index))


def model_at(annotation: Any, path: Iterable[int | str]) -> type[BaseModel] | None:
    """The model that the mapping at `path` is read by; steps that lead nowhere (union tags) are skipped."""
    found = list(_models(annotation))
    for step in path:
        further = [
            model
            for owner in found
            if isinstance(step, str) and step in owner.model_fields
            for model in _models(owner.model_fields[step].annotation)
        ]
        found = further or found
    return found[0] if found else None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for inner in get_args(annotation):
            yield from _models(inner)


def secrets_in(value: Any) -> Iterator[str]:
    """Every secret in a validated section."""
    if isinstance(value, SecretStr):
        secret = value.get_secret_value()
        yield secret
        yield from _passwords_in(secret)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secrets_in(getattr(value, name))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from secrets_in(inner)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from secrets_in(inner)


def _passwords_in(url: str) -> Iterator[str]:
    """What is secret in a URL that is one: libraries show the rest, and the password on its own."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
