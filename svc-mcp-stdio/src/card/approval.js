// Shows an approval gate and sends the decision of a person.
//
// Guarantees: text from members is inserted as text, never as markup. Not here: access to the server,
// since the host of the card provides the gate and calls the tools.
"use strict";
(() => {
  const main = document.querySelector("main");
  const VERBS = { accept: "Accept", decline: "Decline" };

  function element(name, text, members) {
    const made = Object.assign(document.createElement(name), members);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Shows a title, a quotation, labelled facts, buttons, and the outcome of the last press.
  function show({ title, quote, facts = [], buttons = [], note = "" }) {
    const list = element("dl");
    for (const [name, value] of facts) {
      if (value) list.append(element("dt", name), element("dd", value));
    }
    const status = element("p", note);
    status.setAttribute("role", "status");
    const form = element("div");
    const all = buttons.map(([id, text, run]) => {
      const button = element("button", text, { type: "button", id });
      button.addEventListener("click", async () => {
        all.forEach((other) => { other.disabled = true; });
        status.textContent = "…";
        try {
          const said = (await run()) ?? "";
          if (status.isConnected) status.textContent = said;
        } catch (error) {
          status.textContent = error.message;
        }
        all.forEach((other) => { other.disabled = false; });
      });
      return button;
    });
    form.append(...all);
    const quoted = quote ? [element("blockquote", quote)] : [];
    main.replaceChildren(element("h1", title), ...quoted, list, form, status);
  }

  const when = (time) => (time ? new Date(time).toLocaleString() : "");

  function factsOf(gate) {
    return [
      ["State", gate.state],
      ["Blocks closing", gate.blocks_close ? "yes" : "no"],
      ["Requested", when(gate.requested_at)],
      ["Expires", when(gate.expires_at)],
      ["Decided", when(gate.resolved_at)],
    ];
  }

  const host = window.parent;
  const waiting = new Map();
  let last = 0;
  const send = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");

  function request(method, params) {
    last += 1;
    const id = last;
    send({ id, method, params });
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  }

  function showResult(result) {
    const url = result.inputRequests?.decision?.params?.url;
    if (url) return showLink({ url });
    const said = (result.content ?? []).find((block) => block.type === "text");
    const note = said?.text ?? "There is no approval to show.";
    if (result.isError) throw new Error(note);
    if (!result.structuredContent?.id) return show({ title: "Approval", note });
    return showGate(result.structuredContent);
  }

  function showLink({ url }, gate) {
    const open = async () => {
      await request("ui/open-link", { url });
      return "The page is open.";
    };
    show({
      title: "A person must decide",
      quote: gate?.question,
      facts: gate ? factsOf(gate) : [],
      buttons: [["open", "Open the page", open]],
      note: "The page shows the request and has the buttons.",
    });
  }

  function showGate(gate) {
    if (gate.link && gate.state === "pending") return showLink(gate.link, gate);
    const decide = (decision) => async () => {
      const args = { gate_id: gate.id, decision };
      showResult(await request("tools/call", { name: "approval_decide", arguments: args }));
    };
    const isOpen = gate.state === "pending";
    const buttons = Object.entries(VERBS).map(([decision, verb]) => [decision, verb, decide(decision)]);
    return show({
      title: isOpen ? "Approval requested" : `The approval is ${gate.state}`,
      quote: gate.question || "The question was withdrawn.",
      facts: factsOf(gate),
      buttons: isOpen ? buttons : [],
    });
  }

  const NOTIFIED = {
    "ui/notifications/tool-result": (result) => {
      try { showResult(result); } catch (error) { show({ title: "Approval", note: error.message }); }
    },
    "ui/notifications/tool-cancelled": () => show({ title: "Approval", note: "The call was cancelled." }),
  };

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== host || message?.jsonrpc !== "2.0") return;
    if (!message.method) {
      const answered = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) answered?.reject(new Error(message.error.message));
      else answered?.resolve(message.result ?? {});
    } else if (message.id === undefined) {
      NOTIFIED[message.method]?.(message.params ?? {});
    } else if (message.method === "ui/resource-teardown" || message.method === "ping") {
      send({ id: message.id, result: {} });
    } else {
      send({ id: message.id, error: { code: -32601, message: `there is no method ${message.method}` } });
    }
  });

  new ResizeObserver(() => {
    const box = document.documentElement.getBoundingClientRect();
    const params = { width: Math.ceil(box.width), height: Math.ceil(box.height) };
    send({ method: "ui/notifications/size-changed", params });
  }).observe(document.documentElement);

  show({ title: "Approval", note: "…" });
  request("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: "svc-approval", version: "1" },
    appCapabilities: {},
  }).then(() => send({ method: "ui/notifications/initialized", params: {} }));
})();
