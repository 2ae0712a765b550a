// Pages of the board in a browser, and what a test waits for on them.
//
// Promises: whatever a page reports that it should not, such as a breach of its policy, an exception, or a request to
// elsewhere, fails the test in the end. Leaves out: what screens are about.

/** What a browser says of answers that are no success, and of sockets that break: tests cause it. */
const NETWORK = /^Failed to load resource|^WebSocket connection to|net::ERR_/;

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 360, height: 740 };

/** Reports what the policy of the page has kept from happening; those of before the page has a script, too. */
function watchPolicy() {
  addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sourceFile }) =>
    console.error(`policy: ${violatedDirective} ${blockedURI} ${sourceFile}`),
  );
}

/**
 * Opens an empty page in a browser of its own.
 *
 * @param {import("playwright-core").Browser} browser
 * @param {any} world
 * @param {{cookie?: string, size?: {width: number, height: number}, dark?: boolean, touch?: boolean, before?: Function, given?: any}} how
 * `before` runs before every script of the page, with what is `given`.
 */
export async function newPage(
  browser,
  world,
  { cookie, size = WIDE, dark = false, touch = false, before, given, ...more } = {},
) {
  const context = await browser.newContext({
    viewport: size,
    colorScheme: dark ? "dark" : "light",
    hasTouch: touch,
    isMobile: touch,
    reducedMotion: "reduce",
    // What goes to no address of this machine is asked of the proxy, which writes it down.
    proxy: { server: `http://127.0.0.1:${world.proxy.port}`, bypass: "127.0.0.1" },
    ...more,
  });
  const problems = [];
  /** What is told of the network, in case that it is why a test failed. */
  const told = [];
  context.on("console", (message) => {
    if (message.type() !== "error") return;
    const isOurs = !NETWORK.test(message.text());
    (isOurs ? problems : told).push(`console: ${message.text()} ${message.location().url}`);
  });
  const isElsewhere = (url) => /^(http|ws)/.test(url) && !world.origins.includes(new URL(url).host);
  const asked = (url) => isElsewhere(url) && problems.push(`asked elsewhere: ${url}`);
  context.on("request", (request) => asked(request.url()));
  context.on("page", (page) => page.on("websocket", (socket) => asked(socket.url())));
  context.on("weberror", (error) => problems.push(`exception: ${error.error().stack}`));
  await context.addInitScript(watchPolicy);
  if (before) await context.addInitScript(before, given);
  if (cookie) await signIn(context, world, cookie);
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  return Object.assign(page, methodsOf(page, world), { problems, told });
}

/** Gives a browser the cookie of a session. */
export async function signIn(context, world, cookie) {
  const at = cookie.indexOf("=");
  const url = new URL(world.url).origin;
  await context.addCookies([
    { name: cookie.slice(0, at), value: cookie.slice(at + 1), url, httpOnly: true, sameSite: "Lax" },
  ]);
}

function methodsOf(page, world) {
  return {
    /** Opens an address of the board, and waits until the screen is drawn and follows the log. */
    async at(path, state = "live") {
      await page.goto(world.url + path);
      await page.waitForSelector("main [data-screen]");
      await page.settled();
      await page.live(state);
    },
    /** @param {string} state */
    live: (state) => page.waitForSelector(`html[data-live=${state}]`),
    /** The page has drawn all up to an event. @param {number} lsn */
    reached: (lsn) => page.waitForFunction((wanted) => Number(document.documentElement.dataset.lsn) >= wanted, lsn),
    /** Nothing is being read any more that is waited for. */
    settled: () =>
      page.waitForFunction(() => {
        const waits = [...document.querySelectorAll("main .later, dialog .later")];
        return waits.every((node) => !node.checkVisibility());
      }),
    /** Whether something is there now. @param {string} selector */
    has: async (selector) => (await page.locator(selector).count()) > 0,
    /** The texts of all that fit. @param {string} selector */
    texts: (selector) => page.locator(selector).allInnerTexts(),
    /** In which lane a card stands. @param {string} id @param {string} lane */
    inLane: (id, lane) => page.waitForSelector(`[data-lane=${lane}] [data-thread="${id}"]`, { state: "attached" }),
    /** Something has this text, once it has. @param {string} selector @param {RegExp} pattern */
    async says(selector, pattern) {
      const source = [pattern.source, pattern.flags];
      const holds = ([selector, [source, flags]]) => {
        const found = [...document.querySelectorAll(selector)].map((node) => node.innerText);
        return found.some((text) => new RegExp(source, flags).test(text));
      };
      try {
        await page.waitForFunction(holds, [selector, source]);
      } catch {
        throw new Error(`${selector} does not say ${pattern}, but ${JSON.stringify(await page.texts(selector))}`);
      }
    },
    /** The pointer rests on something that fits, and in how many frames of which it was on something else meanwhile. */
    async rests(selector, act) {
      const target = page.locator(selector).first();
      const { x, y, width, height } = await target.boundingBox();
      const at = [x + width / 2, y + height / 2];
      await page.mouse.move(...at);
      await target.evaluate((node, at) => {
        const rests = { frames: 0, others: 0 };
        const look = () => {
          rests.frames += 1;
          if (!node.contains(document.elementFromPoint(...at))) rests.others += 1;
          rests.next = requestAnimationFrame(look);
        };
        globalThis.rests = rests;
        look();
      }, at);
      await act();
      await page.waitForFunction((from) => rests.frames >= from + 50, await page.evaluate(() => rests.frames));
      return page.evaluate(() => (cancelAnimationFrame(rests.next), rests.others));
    },
    /** The page does not scroll sideways. */
    // A phone's window grows with what does not fit.
    isNarrow: () => page.evaluate((width) => document.documentElement.scrollWidth <= width, page.viewportSize().width),
  };
}
