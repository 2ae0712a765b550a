"""Checks a SCIM service with the Python package `scim2-tester`.

    check_scim.py URL

The token is in SVC_TOKEN. One line is printed for each check that is neither passed nor left out; the exit
status says whether there was none, and whether enough checks ran.
"""

import os
import sys

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

# Fewer would mean that the service no longer announces what it has.
FEWEST = 40


def main():
    headers = {"Authorization": f"Bearer {os.environ['SVC_TOKEN']}"}
    with Client(base_url=sys.argv[1], headers=headers) as http:
        results = check_server(SyncSCIMClient(http))
    failed = [one for one in results if one.status in (Status.ERROR, Status.CRITICAL)]
    for one in failed:
        print(f"{one.status.name} {one.title} {one.resource_type}: {one.reason}")
    passed = sum(one.status == Status.SUCCESS for one in results)
    print(f"{passed} checks of {len(results)} passed")
    return 1 if failed or passed < FEWEST else 0


if __name__ == "__main__":
    sys.exit(main())
