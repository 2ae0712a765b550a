// What the benchmarks of the board are run in: a workspace with many tasks, and an agent who does a lot.

import { startWorld } from "../board/world.js";

const AT_ONCE = 16;

/** Starts a world whose board a browser gets from the server itself, as people do, not through the tests' proxy. */
export async function startBusyWorld() {
  const world = await startWorld();
  world.url = `http://${world.servers[0].address}/ui/`;
  const channel = await world.channel("busy");
  /** @type {string[]} */
  const tasks = [];

  /** Makes tasks until there are so many. @param {number} count */
  async function fillTo(count) {
    const first = tasks.length;
    await atOnce(count - first, async (at) => {
      const number = first + at;
      tasks[number] = (await world.task(channel, titleOf(number), { priority: number % 5 })).id;
    });
  }

  /** Claims that the agent has, oldest first. */
  const held = [];

  /** Makes one change, each time to another task: two of four are words, one is a place in a lane, one another lane. */
  async function act(number) {
    const { agent } = world;
    const thread_id = tasks[(number * STRIDE) % tasks.length];
    if (number % 4 === 1) return agent.call("set_thread_priority", { thread_id, priority: (number >> 2) % 7 });
    if (number % 4 !== 3)
      return agent.call("post_message", { thread_id, body: `Step ${number}: two of three tests pass, one is next.` });
    if (held.length >= HELD_MOST) return agent.call("release_claim", held.shift());
    const { claim_lease_id } = await agent.call("claim_thread", { thread_id, acknowledge: true, lease_secs: 900 });
    held.push({ thread_id, claim_lease_id });
  }

  let acts = 0;
  /** How far the log goes. */
  async function head() {
    await world.agent.call("whoami", {});
    return world.agent.lsn;
  }
  return {
    world,
    fillTo,
    head,
    /** A task in which so much was said. @param {number} count */
    async talk(count) {
      const { id } = await world.task(channel, "Is talked about");
      for (let at = 0; at < count; at += 1)
        await world.agent.call("post_message", { thread_id: id, body: MESSAGE.replace("#", String(at)) });
      return id;
    },
    /** Acts so often in a second, for so many seconds. */
    async steadily(perSecond, seconds) {
      const begun = performance.now();
      for (let done = 0; done < perSecond * seconds; done += 1) {
        await until(begun + (done * 1_000) / perSecond);
        await act((acts += 1));
      }
    },
    /** Acts as fast as the server takes it, so many times. */
    async quickly(times) {
      const first = acts + 1;
      acts += times;
      await atOnce(times, (at) => act(first + at));
    },
    close: () => world.close(),
  };
}

/** A prime: all tasks are acted on before one is again. */
const STRIDE = 7_919;
const HELD_MOST = 10;

/** A message as agents write them. */
const MESSAGE = `Step #: **two of three** tests pass, see \`parser.rs\` and https://ci.example/runs/17.

- the *first* reads lists
- the second reads [links](https://spec.example/#links)

\`\`\`rust
fn main() {
    println!("{}", parse("a"));
}
\`\`\`
`;

/** @param {number} number */
export const titleOf = (number) => `Port module ${number} to the new parser`;

/** @param {number} time By performance.now(). */
function until(time) {
  return new Promise((resume) => setTimeout(resume, Math.max(0, time - performance.now())));
}

/** @param {number} count @param {(at: number) => Promise<unknown>} act */
async function atOnce(count, act) {
  let next = 0;
  const worker = async () => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
