// An environment of Paperclip that points at an endpoint, and one lease of it: its settings, and the parameters that the
// host would pass.
import { CreateosClient, createProvider, execute, parseConfig } from "./package.mjs";
import { conceal } from "./secrets.mjs";

/** Requests are not paced unless a test is about that: its endpoint is its own. */
const OPTIONS = { pacing: false };

export class Environment {
  /** @param {{url: string, key: string}} endpoint @param {Record<string, unknown>} [settings] @param {string} [lease] */
  constructor({ url, key }, settings = {}, lease = "sb_test") {
    conceal(key, url.replace(/^https?:\/\//, ""));
    this.config = { apiUrl: url, apiKey: key, shape: "s-1vcpu-1gb", ...settings };
    this.scope = { driverKey: "createos", companyId: "company", environmentId: "environment", config: this.config };
    this.metadata = { provider: "createos", companyId: "company", environmentId: "environment", apiUrl: url };
    this.lease = lease;
  }

  client(options) {
    return new CreateosClient(parseConfig(this.config), { ...OPTIONS, ...options });
  }

  provider(options) {
    return createProvider({ ...OPTIONS, ...options });
  }

  /** Of `execute`: a command, `true` if nothing else is said. */
  params(command) {
    return { ...this.scope, lease: { providerLeaseId: this.lease, metadata: this.metadata }, command: "true", ...command };
  }

  /** Of `release`. */
  held(more) {
    return { ...this.scope, providerLeaseId: this.lease, leaseMetadata: this.metadata, ...more };
  }

  /** Runs a command by the module's `execute` and a client of its own, which `options` are for. */
  run(command, { signal, log, ...options } = {}) {
    return execute(this.client(options), this.params(command), signal, log);
  }
}

/** A command that is a Bash script. */
export const bash = (script, ...args) => ({ command: "bash", args: ["-c", script, "bash", ...args] });

/** A log function that remembers what it was called with. */
export function recorder() {
  const calls = [];
  const log = (stream, text) => void calls.push([stream, text]);
  return Object.assign(log, {
    calls,
    text: (stream) => calls.filter((call) => call[0] === stream).map((call) => call[1]).join(""),
    /** Neighbouring chunks of one stream as one: where chunks end is nobody's business. */
    merged: () => calls.reduce((all, [stream, text]) => {
      if (all.at(-1)?.[0] === stream) all.at(-1)[1] += text;
      else all.push([stream, text]);
      return all;
    }, []),
  });
}
