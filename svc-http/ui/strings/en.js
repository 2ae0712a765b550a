// Every sentence of the board, by area. Only this file is imported elsewhere, so that another language can
// stand for it.

export * from "./lanes.js";
export * from "./plural.js";
export { problemParts, ways, waysOut } from "./problems.js";
export { composer, panelNames, parts, task } from "./task.js";
export { andMore, blocks, closes, sentence, unblocks } from "./why.js";
export { acting, actionNames, form } from "./actions.js";
export { board, card } from "./board.js";
export { names } from "./names.js";
export { eventParts } from "./events.js";
export { first } from "./first.js";
export { help, newTask, palette } from "./palette.js";
export { live, places, shell, signIn } from "./shell.js";
