// Text shown if the board cannot be loaded.

export const loading = {
  failed: "The board could not be loaded. Reload the page; a link to sign in has to be opened once more.",
};
