// Texts beside a secret that is shown once.

export const secret = {
  once: "It is shown only now, and kept nowhere. Copy it before you close this.",
  lost: "It was made, but the answer with its secret was lost on its way. Rotate or revoke it, and make another.",
  close: "I have copied it",
  seen: "Close",
  copy: "Copy",
  copied: "Copied",
  select: "Selected: copy it. Over http a page may not.",
  configure: "How it connects",
  clientId: "Client id",
  clientSecret: "Client secret",
  /** @type {Record<string, string>} */
  clients: {
    claude: "Claude Code",
    codex: "Codex (~/.codex/config.toml)",
    gemini: "Gemini CLI (~/.gemini/settings.json)",
    vscode: "VS Code (.vscode/mcp.json)",
    cursor: "Cursor (~/.cursor/mcp.json)",
    curl: "curl",
  },
};
