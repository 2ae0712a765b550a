// Placeholders for entities whose names are unknown.

export const names = {
  alone: "Only you",
  service: "the service",
  member: (/** @type {string} */ id) => `member ${id}`,
  thread: (/** @type {string} */ id) => `task ${id}`,
  channel: (/** @type {string} */ name) => `#${name}`,
  channelUnknown: (/** @type {string} */ id) => `channel ${id}`,
  control: (/** @type {string} */ name) => `Control character ${name}`,
};
