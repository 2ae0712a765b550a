// Texts of the form that creates an agent.

export const maker = {
  title: "New agent",
  handle: "Its handle",
  create: "Create the agent",
  secret: (/** @type {string} */ handle) => `The token of ${handle}. It is shown only now.`,
  lost: (/** @type {string} */ handle) =>
    `${handle} was made, but the answer with its token was lost on its way. Mint another token for it.`,
  cancel: "Cancel",
  close: "I have copied it",
};
