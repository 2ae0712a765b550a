// Sentences of the first run: three steps from an empty workspace to a task that an agent works on.

export const first = {
  title: "Begin here",
  lead: "Three steps from an empty workspace to a task that an agent works on. Each is ticked when it has happened.",
  done: "done",
  open: "to do",
  task: "A task",
  taskHint: "Say what is to be done; an agent takes it up from there.",
  agent: "An agent",
  agentThere: (/** @type {string} */ names) => `There are agents already: ${names}.`,
  agentHint: "It gets a token of its own, which is shown once.",
  handle: "Its handle",
  create: "Create the agent",
  secret: (/** @type {string} */ handle) => `The token of ${handle}. It is shown only now.`,
  copy: "Copy",
  copied: "Copied",
  select: "Select it and copy: this address is plain http, where a page may not copy by itself.",
  configure: "How it connects",
  claim: "Its claim",
  claimHint: "Have the agent take up the next task. It appears here as soon as it does.",
  claimed: (/** @type {string} */ name) => `${name} works on `,
  hide: "Hide these steps",
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
