// Reading further, one read at a time.
//
// Promises: what failed is told, and another read may follow. Leaves out: what is read.

/** @typedef {{isReading: boolean, problem: any}} Progress */

/**
 * Reads unless a read is going on.
 *
 * @param {Progress} progress
 * @param {() => Promise<void>} read
 * @param {() => void} ended
 */
export async function readOnce(progress, read, ended) {
  if (progress.isReading) return;
  Object.assign(progress, { isReading: true, problem: null });
  try {
    await read();
  } catch (problem) {
    progress.problem = problem;
  } finally {
    progress.isReading = false;
    ended();
  }
}
