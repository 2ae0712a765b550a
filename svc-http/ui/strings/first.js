// Texts of the first run: three steps from an empty workspace to a task that an agent works on.

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
  claim: "Its claim",
  claimHint: "Have the agent take up the next task. It appears here as soon as it does.",
  claimed: (/** @type {string} */ name) => `${name} works on `,
  hide: "Hide these steps",
};
