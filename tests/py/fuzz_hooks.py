"""Hooks for `schemathesis`: leaves out requests that would not go to the operation under test.

A path parameter that is no string is written into the path without percent-encoding, so that `#` or `?` in
it cuts the path off and the request goes to another route.

Each request gets an idempotency key of its own: with that of another it is refused, as it should be.
"""

import re
import uuid

import schemathesis

KEY = "Idempotency-Key"


@schemathesis.hook
def filter_case(context, case):
    """Says whether a request goes to its own route."""
    values = (case.path_parameters or {}).values()
    return not any("#" in str(value) or "?" in str(value) for value in values if not isinstance(value, str))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces a valid key, which would often be that of another request."""
    key = (case.headers or {}).get(KEY)
    if key is not None and re.fullmatch(r'"[!-~]{1,255}"|[!#-~][!-~]{0,254}', str(key)):
        case.headers[KEY] = uuid.uuid4().hex
