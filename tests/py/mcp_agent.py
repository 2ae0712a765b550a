"""An agent with a client that is not ours: the Python package `mcp`, over a pipe or HTTP.

    mcp_agent.py [--mode auto|legacy|2026-07-28] SVC --data DIR      starts `SVC mcp-stdio --data DIR`
    mcp_agent.py [--mode ...] http://127.0.0.1:8080/mcp              calls a server

The token is in SVC_TOKEN. The first line on standard output is the outcome of the handshake:

    {"protocol": "2026-07-28", "server": "svc", "instructions": "...", "tools": ["acknowledge_claim", ...]}

Then each line on standard input is a call, {"tool": NAME, "arguments": {...}}, for which one line is
printed:

    {"result": {...}}                         the structured content, which the text copy must equal
    {"problem": {...}, "text": "..."}         a result with isError, and what a model reads of it
    {"code": -32602, "problem": {...}}        a JSON-RPC error and its data
"""

import argparse
import json
import os
import sys

import anyio
from mcp import MCPError, StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def say(value):
    print(json.dumps(value), flush=True)


async def call(client, command):
    try:
        answer = await client.call_tool(command["tool"], command.get("arguments"))
    except MCPError as error:
        return {"code": error.code, "problem": error.error.data, "message": error.error.message}
    content = answer.structured_content
    if answer.is_error:
        text = "".join(block.text for block in answer.content)
        return {"problem": (answer.meta or {}).get("svc/problem"), "structured": content, "text": text}
    # What comes after the first block is a hint for models.
    if json.loads(answer.content[0].text) != content:
        return {"code": None, "problem": {"detail": "text and structured content differ"}}
    return {"result": content}


async def serve(client):
    listed = await client.list_tools()
    say(
        {
            "protocol": client.protocol_version,
            "server": client.server_info and client.server_info.name,
            "instructions": client.instructions,
            "tools": [tool.name for tool in listed.tools],
            "next_cursor": listed.next_cursor,
        }
    )
    async for line in anyio.wrap_file(sys.stdin):
        if line.strip():
            say(await call(client, json.loads(line)))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="auto")
    parser.add_argument("server", help="the program svc, or a URL")
    parser.add_argument("--data", help="the data folder, for a program")
    asked = parser.parse_args()
    if asked.server.startswith("http"):
        headers = {"Authorization": f"Bearer {os.environ['SVC_TOKEN']}"}
        async with create_mcp_http_client(headers=headers) as http:
            server = streamable_http_client(asked.server, http_client=http)
            async with Client(server, mode=asked.mode) as client:
                await serve(client)
    else:
        arguments = ["mcp-stdio", "--data", asked.data]
        server = StdioServerParameters(command=asked.server, args=arguments, env=dict(os.environ))
        async with Client(server, mode=asked.mode) as client:
            await serve(client)


anyio.run(main)
