// Real commands: an emulator for a whole test file, and sandboxes in it, each as a lease of its own.
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startEmulator } from "../../emulator/index.mjs";
import { Environment } from "./environment.mjs";
import { SECRET } from "./secrets.mjs";

/** Starts an emulator that is closed at the end of the file; `hooks.request` can be set by the tests. */
export async function emulatorForFile(options = {}) {
  const hooks = {};
  const emulator = await startEmulator({ key: `key-${SECRET}`, hooks: { request: (request) => hooks.request?.(request) }, ...options });
  after(() => emulator.close());
  return new Host(emulator, hooks);
}

class Host {
  constructor(emulator, hooks) {
    this.emulator = emulator;
    this.hooks = hooks;
    this.url = emulator.url;
    this.key = emulator.key;
  }

  /** Lets `hook` interfere with requests as long as the test runs. */
  interfere(t, hook) {
    this.hooks.request = hook;
    t.after(() => delete this.hooks.request);
  }

  async call(method, route, body) {
    const response = await fetch(`${this.url}/v1${route}`, {
      method, headers: { "x-api-key": this.key, "content-type": "application/json" }, body: body && JSON.stringify(body),
    });
    return (await response.json()).data;
  }

  /** A new sandbox, running. */
  async sandbox(settings) {
    const { id } = await this.call("POST", "/sandboxes", { shape: "s-1vcpu-1gb" });
    const sandbox = new Sandbox(this, id, settings);
    await until(async () => (await sandbox.state()) === "running");
    return sandbox;
  }
}

class Sandbox extends Environment {
  constructor(host, id, settings) {
    super(host, settings, id);
    this.host = host;
    this.id = id;
  }

  /** As the endpoint says. */
  async state() {
    return (await this.host.call("GET", `/sandboxes/${this.id}`))?.status;
  }

  /** The requests that concerned this sandbox. */
  requests(route) {
    return this.host.emulator.requests.filter((request) => request.path.includes(this.id) && (!route || request.route === route));
  }
}

/** Asks again and again until the answer is yes, for what reports itself in no other way. */
export async function until(question, what = "it did not happen") {
  for (const end = Date.now() + 60_000; Date.now() < end;) {
    if (await question()) return;
    await delay(10);
  }
  throw new Error(`After a minute ${what}.`);
}

/** A signal that is aborted by the first log call that contains `text`; `log` is to be passed along. */
export function abortOn(text, reason) {
  const controller = new AbortController();
  let seen = "";
  const log = (_stream, chunk) => {
    seen += chunk;
    if (seen.includes(text)) controller.abort(reason);
  };
  return { signal: controller.signal, log };
}

/** A log function and a promise of the first output that contains `text`. */
export function awaiting(text) {
  let found;
  const seen = new Promise((resolve) => (found = resolve));
  let all = "";
  const log = (_stream, chunk) => {
    all += chunk;
    if (all.includes(text)) found(all);
  };
  return { log, seen };
}

