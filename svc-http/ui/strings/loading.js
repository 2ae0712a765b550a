// What is said before the board is there.

export const loading = {
  failed: "The board could not be loaded. Reload the page; a link to sign in has to be opened once more.",
};
