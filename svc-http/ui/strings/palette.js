// Texts of the palette, the help on keys, and the form for a new task.

export const palette = {
  title: "Commands",
  placeholder: "Type what you want to do, or words of a task",
  none: "Nothing is called so.",
  go: (/** @type {string} */ place) => `Go to ${place}`,
  task: "Task",
  place: "Place",
  action: "Action",
  lacks: (/** @type {string} */ capability) => `needs ${capability}`,
  noAnswer: "It is done; there is nothing to read.",
  lost: "Its answer was lost. The log has an event of yours since it was sent.",
  close: "Close",
};

export const help = {
  title: "Keys",
  places: "Places",
  actions: "Actions",
  anywhere: "Anywhere",
  letters: "Single letters are keys",
  lettersHint: "Switch it off if letters that you speak or type by mistake do things. Ctrl or Cmd with K stays.",
  /** @type {Record<string, string>} */
  keys: {
    "j k": "Next and last card",
    "h l": "Lane to the left and to the right",
    Enter: "Open",
    Space: "Look at it without leaving",
    x: "Choose it; with Shift all up to it. Keys of actions are then for all of them",
    "/": "Filter",
    r: "Write a message",
    ".": "The next that needs you",
    p: "Pause what arrives",
    Escape: "Back",
    "Ctrl K": "Commands",
    "?": "These keys",
  },
};

export const newTask = {
  more: "Priority, skills, what it waits for and touches",
  channel: "Channel",
  channelName: "Name of the first channel",
  firstChannel: "general",
  free: "Nothing is in the way of what it touches.",
};
