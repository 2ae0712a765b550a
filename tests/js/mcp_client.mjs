// An agent with a client that is not ours: the packages of npm for the Model Context Protocol.
//
//     mcp_client.mjs sdk|client|client-modern URL             calls a server
//     mcp_client.mjs sdk|client|client-modern SVC DATA        starts `SVC mcp-stdio --data DATA`
//
// The token is in SVC_TOKEN; what to call is one JSON object on standard input. Tools are listed first, since
// clients then check what they receive against the schemas. What each step came to is printed as one line of
// JSON, after the connection was closed.

import { text } from 'node:stream/consumers';

const [kind, server, data] = process.argv.slice(2);
const own = { name: 'svc-tests', version: '0' };

async function parts() {
  if (kind === 'sdk') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const stdio = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const make = () => new Client(own);
    return { make, Http: http.StreamableHTTPClientTransport, Stdio: stdio.StdioClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mode = kind === 'client-modern' ? { pin: '2026-07-28' } : 'legacy';
  const make = () => new Client(own, { versionNegotiation: { mode } });
  return { make, Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport };
}

const { make, Http, Stdio } = await parts();

async function connect(token) {
  const client = make();
  const args = ['mcp-stdio', '--data', data];
  const transport = data
    ? new Stdio({ command: server, args, env: { ...process.env, SVC_TOKEN: token } })
    : new Http(new URL(server), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
  await client.connect(transport);
  return client;
}

function call(client, name, args, options) {
  const params = { name, arguments: args };
  return kind === 'sdk' ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

const steps = JSON.parse(await text(process.stdin));
const outcomes = {};

async function attempt(name, work) {
  try {
    outcomes[name] = { result: await work() };
  } catch (error) {
    outcomes[name] = { thrown: String(error), code: error.code };
  }
}

async function work(client) {
  await attempt('list', async () => (await client.listTools()).tools.map((tool) => tool.name));
  await attempt('resources', async () => (await client.listResources()).resources.map((resource) => resource.uri));
  await attempt('read', () => client.readResource({ uri: outcomes.resources.result[0] }));
  await attempt('prompts', async () => (await client.listPrompts()).prompts.map((prompt) => prompt.name));
  await attempt('prompt', () => client.getPrompt({ name: steps.prompt[0], arguments: steps.prompt[1] }));
  for (const [name, tool, args] of steps.calls) await attempt(name, () => call(client, tool, args));

  let heard = 0;
  const patience = { timeout: steps.timeout_secs * 1000, resetTimeoutOnProgress: true, onprogress: () => heard++ };
  await attempt('wait', () => call(client, 'wait_for_ready', { timeout_secs: steps.wait_secs }, patience));
  outcomes.wait.heard = heard;
  const left = new AbortController();
  const leaving = attempt('left', () =>
    call(client, 'wait_for_ready', { timeout_secs: 300 }, { signal: left.signal }),
  );
  await new Promise((resolve) => setTimeout(resolve, 200));
  left.abort();
  await leaving;
  await attempt('afterwards', () => call(client, 'whoami', {}));
}

const client = await connect(process.env.SVC_TOKEN);
await work(client);
await client.close();

// A token that is revoked while it is in use, and then used once more.
const { secret, id } = steps.doomed;
const doomed = await connect(secret);
await doomed.listTools();
await call(doomed, 'revoke_token', { token_id: id });
await attempt('revoked', () => call(doomed, 'whoami', {}));
await doomed.close();
await attempt('dead', async () => (await connect(secret)).listTools());
console.log(JSON.stringify(outcomes));
