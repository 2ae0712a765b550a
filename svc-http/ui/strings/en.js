// All texts of the board, by area.
//
// Guarantees: only app.js imports another text file, so that another language can replace this one.

export * from "./lanes.js";
export * from "./plural.js";
export { problemParts, ways, waysOut } from "./problems.js";
export { composer, panelNames, parts, task } from "./task.js";
export { andMore, blocks, closes, sentence, unblocks } from "./why.js";
export { acting, actionNames, form } from "./actions.js";
export { admin, adminParts } from "./admin.js";
export { board, card } from "./board.js";
export { maker } from "./maker.js";
export { names } from "./names.js";
export { channel, dms, inbox, message } from "./message.js";
export { approval, now } from "./now.js";
export { actorOf, eventParts, eventSentence } from "./events.js";
export { first } from "./first.js";
export { loading } from "./loading.js";
export { help, newTask, palette } from "./palette.js";
export { member, people } from "./people.js";
export { secret } from "./secret.js";
export { settings } from "./settings.js";
export { live, places, shell, signIn } from "./shell.js";
export { audit } from "./audit.js";
export { conflicts } from "./conflicts.js";
export { event, log, proof } from "./log.js";
export { markdown } from "./marked.js";
export { memory } from "./memory.js";
export { defects, pinned, verified } from "./verify.js";
