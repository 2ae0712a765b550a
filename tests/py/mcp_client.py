"""An agent with clients that are not ours: packages of PyPI for the Model Context Protocol.

    mcp_client.py v1|sse|langchain|v2|v2-legacy URL             calls a server
    mcp_client.py v1|langchain|v2|v2-legacy SVC DATA            starts `SVC mcp-stdio --data DATA`

`v1` and `sse` are `mcp` 1, `langchain` are adapters around it, `v2` is `mcp` 2. The token is in SVC_TOKEN;
what to call is one JSON object on standard input. Tools are listed first, since clients then check what they
receive against the schemas. What each step came to is printed as one line of JSON, after the connection was
closed.
"""

import json
import os
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio

KIND, SERVER = sys.argv[1:3]
DATA = sys.argv[3] if len(sys.argv) > 3 else None
PIPE = {"command": SERVER, "args": ["mcp-stdio", "--data", DATA]}


def environment(token):
    return {**os.environ, "SVC_TOKEN": token}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Session:
    """A session of `mcp` 1 or a client of `mcp` 2, which count timeouts in different units."""

    def __init__(self, client, second):
        self.client = client
        self.second = second

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def resources(self):
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def read(self, uri):
        return dump(await self.client.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name, arguments):
        return dump(await self.client.get_prompt(name, arguments))

    async def call(self, tool, arguments, seconds=None, on_progress=None):
        timeout = seconds and seconds * self.second
        return dump(await self.client.call_tool(tool, arguments, timeout, on_progress))


class LangChain:
    """The adapters of LangChain: each tool is one of theirs, and has a session for each call."""

    def __init__(self, connection):
        from langchain_mcp_adapters.client import MultiServerMCPClient

        self.connection = connection
        self.named, self.blobs = {}, []
        self.adapters = MultiServerMCPClient({"svc": connection})

    async def tools(self):
        self.named = {tool.name: tool for tool in await self.adapters.get_tools()}
        return list(self.named)

    async def resources(self):
        self.blobs = await self.adapters.get_resources("svc")
        return [str(blob.metadata["uri"]) for blob in self.blobs]

    async def read(self, uri):
        read = [blob for blob in self.blobs if str(blob.metadata["uri"]) == uri]
        return {"contents": [{"text": blob.as_string()} for blob in read]}

    async def prompts(self):
        async with self.adapters.session("svc") as session:
            return [prompt.name for prompt in (await session.list_prompts()).prompts]

    async def call(self, tool, arguments, seconds=None, on_progress=None):
        from langchain_mcp_adapters.callbacks import Callbacks
        from langchain_mcp_adapters.tools import load_mcp_tools

        found = self.named[tool]
        if on_progress:
            callbacks = Callbacks(on_progress=lambda done, total, said, _: on_progress(done, total, said))
            listed = await load_mcp_tools(None, connection=self.connection, callbacks=callbacks)
            found = next(one for one in listed if one.name == tool)
        message = await found.ainvoke({"type": "tool_call", "id": "1", "name": tool, "args": arguments})
        answer = {"content": message.content, "isError": message.status == "error"}
        if message.artifact:
            answer["structuredContent"] = message.artifact["structured_content"]
        return answer


@asynccontextmanager
async def connect_v1(token):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    @asynccontextmanager
    async def streams():
        if DATA:
            async with stdio_client(StdioServerParameters(**PIPE, env=environment(token))) as (read, write):
                yield read, write
        elif KIND == "sse":
            async with sse_client(SERVER, headers=bearer(token)) as (read, write):
                yield read, write
        else:
            async with (
                create_mcp_http_client(headers=bearer(token)) as http,
                streamable_http_client(SERVER, http_client=http) as (read, write, _),
            ):
                yield read, write

    async with streams() as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield Session(session, timedelta(seconds=1))


@asynccontextmanager
async def connect_v2(token):
    from mcp import StdioServerParameters
    from mcp.client import Client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    mode = "legacy" if KIND == "v2-legacy" else "2026-07-28"
    if DATA:
        async with Client(StdioServerParameters(**PIPE, env=environment(token)), mode=mode) as client:
            yield Session(client, 1)
    else:
        async with create_mcp_http_client(headers=bearer(token)) as http:
            async with Client(streamable_http_client(SERVER, http_client=http), mode=mode) as client:
                yield Session(client, 1)


@asynccontextmanager
async def connect_langchain(token):
    if DATA:
        yield LangChain({"transport": "stdio", **PIPE, "env": environment(token)})
    else:
        yield LangChain({"transport": "http", "url": SERVER, "headers": bearer(token)})


CONNECT = {"v1": connect_v1, "sse": connect_v1, "langchain": connect_langchain}
connect = CONNECT.get(KIND, connect_v2)


def innermost(error):
    """The error that others are groups around."""
    return innermost(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


async def attempt(outcomes, name, work):
    try:
        outcomes[name] = {"result": await work}
    except Exception as thrown:
        error = innermost(thrown)
        code = getattr(getattr(error, "error", None), "code", None)
        outcomes[name] = {"thrown": f"{type(error).__name__}: {error}", "code": code}


async def at_work(session, steps, outcomes):
    await attempt(outcomes, "list", session.tools())
    await attempt(outcomes, "resources", session.resources())
    await attempt(outcomes, "read", session.read(outcomes["resources"]["result"][0]))
    await attempt(outcomes, "prompts", session.prompts())
    if "prompt" in steps:
        await attempt(outcomes, "prompt", session.prompt(*steps["prompt"]))
    for name, tool, arguments in steps["calls"]:
        await attempt(outcomes, name, session.call(tool, arguments))

    heard = []

    async def on_progress(progress, total, message):
        heard.append(progress)

    secs = steps["wait_secs"]
    waiting = session.call("wait_for_ready", {"timeout_secs": secs}, secs + 20, on_progress)
    await attempt(outcomes, "wait", waiting)
    outcomes["wait"]["heard"] = len(heard)
    with anyio.move_on_after(0.2) as leaving:
        await session.call("wait_for_ready", {"timeout_secs": 300})
    outcomes["left"] = {"thrown": "cancelled" if leaving.cancelled_caught else None}
    await attempt(outcomes, "afterwards", session.call("whoami", {}))


async def revoked(steps, outcomes):
    """Revokes the token of a connection by itself, and connects once more with it."""
    doomed = steps["doomed"]

    async def work():
        async with connect(doomed["secret"]) as session:
            await session.tools()
            await session.call("revoke_token", {"token_id": doomed["id"]})
            return await session.call("whoami", {})

    async def again():
        async with connect(doomed["secret"]) as session:
            return await session.tools()

    await attempt(outcomes, "revoked", work())
    await attempt(outcomes, "dead", again())


async def main():
    steps, outcomes = json.load(sys.stdin), {}
    async with connect(os.environ["SVC_TOKEN"]) as session:
        await at_work(session, steps, outcomes)
    await revoked(steps, outcomes)
    print(json.dumps(outcomes))


anyio.run(main)
