"""Checks that documents are valid OpenAPI 3.1, with the Python package `openapi-spec-validator`.

Each line on standard input is a document. For each, one line is printed: a list of its defects, empty if it
is valid. What that package leaves out is checked here: references anywhere, and the schemas of request
bodies, of headers and of shared responses that nothing refers to.
"""

import json
import sys

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012


def members(value, path=""):
    """Every member of every object, with its path."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in pairs:
        if isinstance(value, dict):
            yield f"{path}/{name}", name, member
        yield from members(member, f"{path}/{name}")


def broken_references(document):
    resolver = Registry().with_resource("", DRAFT202012.create_resource(document)).resolver()
    for path, name, member in members(document):
        if name == "$ref" and isinstance(member, str):
            try:
                resolver.lookup(member)
            except Unresolvable:
                yield f"{path}: {member} does not exist"


def broken_schemas(document):
    for path, name, member in members(document):
        if name == "schema" and isinstance(member, dict):
            try:
                Draft202012Validator.check_schema(member)
            except SchemaError as error:
                yield f"{path}: {error.message}"


def stated(errors):
    # The other lines of a message repeat the schema and the document.
    return [f"{error.json_path}: {error.message.splitlines()[0]}" for error in errors]


def defects(document):
    validator = OpenAPIV31SpecValidator(document)
    # Each of these assumes that those before it found nothing.
    return (
        list(broken_references(document))
        or stated(validator.schema_validator.iter_errors(document))
        or stated(validator.iter_errors())
        or list(broken_schemas(document))
    )


for line in sys.stdin:
    print(json.dumps(defects(json.loads(line))), flush=True)
