// Configuration that connects an agent program to the server, one text to copy per program.
//
// Not here: what the programs do with it.

/**
 * @param {{mcp: string, whoami: string, secret: string}} to Addresses of the server, and the agent's token.
 * @returns {Record<string, string>} By program name, the text to copy.
 */
export function configurations({ mcp, whoami, secret }) {
  const authorization = `Bearer ${secret}`;
  const headers = { Authorization: authorization };
  const json = (/** @type {unknown} */ value) => JSON.stringify(value, null, 2);
  return {
    claude: `claude mcp add --transport http svc ${mcp} --header "Authorization: ${authorization}"`,
    codex: `[mcp_servers.svc]\nurl = "${mcp}"\nhttp_headers = { Authorization = "${authorization}" }`,
    gemini: json({ mcpServers: { svc: { httpUrl: mcp, headers } } }),
    vscode: json({ servers: { svc: { type: "http", url: mcp, headers } } }),
    cursor: json({ mcpServers: { svc: { url: mcp, headers } } }),
    curl: `curl -H "Authorization: ${authorization}" ${whoami}`,
  };
}
