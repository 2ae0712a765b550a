// An agent with a client that is not ours: the packages of npm for the Model Context Protocol.
//
//     mcp_client.mjs sdk|client|client-modern URL             calls a server
//     mcp_client.mjs sdk|client|client-modern SVC DATA        starts `SVC mcp-stdio --data DATA`
//
// The token is in SVC_TOKEN. Tools are listed first, since clients then check what they receive against the
// schemas. What each call came to is printed as one line of JSON at the end.

const [kind, server, data] = process.argv.slice(2);
const token = process.env.SVC_TOKEN;
const own = { name: 'svc-tests', version: '0' };

async function parts() {
  if (kind === 'sdk') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const stdio = await import('@modelcontextprotocol/sdk/client/stdio.js');
    return { client: new Client(own), Http: http.StreamableHTTPClientTransport, Stdio: stdio.StdioClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mode = kind === 'client-modern' ? { pin: '2026-07-28' } : 'legacy';
  const client = new Client(own, { versionNegotiation: { mode } });
  return { client, Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport };
}

const { client, Http, Stdio } = await parts();
const transport = data
  ? new Stdio({ command: server, args: ['mcp-stdio', '--data', data], env: { ...process.env, SVC_TOKEN: token } })
  : new Http(new URL(server), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
await client.connect(transport);

const outcomes = {};

async function attempt(name, work) {
  try {
    outcomes[name] = { result: await work() };
  } catch (error) {
    outcomes[name] = { thrown: String(error), code: error.code };
  }
}

function call(name, args, options) {
  const params = { name, arguments: args };
  return kind === 'sdk' ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

const nobody = '00000000-0000-7000-8000-000000000000';
await attempt('list', async () => (await client.listTools()).tools.map((tool) => tool.name));
await attempt('resources', async () => (await client.listResources()).resources.map((resource) => resource.uri));
await attempt('read', () => client.readResource({ uri: outcomes.resources.result[0] }));
await attempt('prompts', async () => (await client.listPrompts()).prompts.map((prompt) => prompt.name));
await attempt('whoami', () => call('whoami', {}));
await attempt('missing', () => call('get_thread', { thread_id: nobody }));
await attempt('arguments', () => call('get_thread', { thread_id: 7, limit: 'x' }));
await attempt('capability', () => call('revoke_token', { token_id: nobody }));
await attempt('unknown', () => call('no_such_tool', {}));
await attempt('empty', () => call('claim_next_workspace_thread', {}));
await attempt('wait', () =>
  call('wait_for_ready', { timeout_secs: 5 }, { timeout: 2000, resetTimeoutOnProgress: true, onprogress: () => {} }),
);
const left = new AbortController();
const leaving = attempt('left', () => call('wait_for_ready', { timeout_secs: 300 }, { signal: left.signal }));
await new Promise((resolve) => setTimeout(resolve, 200));
left.abort();
await leaving;
await attempt('afterwards', () => call('whoami', {}));
await client.close();
console.log(JSON.stringify(outcomes));
