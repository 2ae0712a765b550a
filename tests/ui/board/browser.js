// The browser of the tests: Debian's Chromium, which asks for nothing by itself.

import { chromium } from "playwright-core";

/** What a browser does by itself: it would be taken for what a page has asked for. */
const OFF = [
  "AutofillServerCommunication",
  "OptimizationHints",
  "MediaRouter",
  "HttpsUpgrades",
  "HttpsFirstBalancedModeAutoEnable",
];

/** Starts it. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.SVC_TEST_CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", `--disable-features=${OFF}`],
  });
}
