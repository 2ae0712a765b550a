// Where the tests find their packages: in the folder that SVC_TEST_UI names, so that the tree stays as it is. It is loaded
// before them, with --import.

import { isBuiltin, registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const installed = process.env.SVC_TEST_UI ? pathToFileURL(`${process.env.SVC_TEST_UI}/tests.js`).href : undefined;

registerHooks({
  resolve(name, context, next) {
    if (name.endsWith("/operations.js")) return { url: "data:text/javascript,export default {}", shortCircuit: true };
    const isPackage = /^[\w@]/.test(name) && !isBuiltin(name) && !URL.canParse(name);
    return next(name, isPackage && installed ? { ...context, parentURL: installed } : context);
  },
});
