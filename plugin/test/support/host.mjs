// Paperclip, as far as a worker can tell: starts it as a process as the host does, with the host's few variables and pipes,
// and speaks the SDK's JSON-RPC with it. Lines are found by `readline` and read by the SDK's own parser, as in the host, so
// what would be lost there is lost here. What the worker should do is the tests' business.

import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import {
  createRequest, isJsonRpcNotification, isJsonRpcResponse, isJsonRpcSuccessResponse, parseMessage, serializeMessage,
} from "@paperclipai/plugin-sdk/protocol";
import manifest from "../../dist/manifest.js";

const WORKER = fileURLToPath(new URL(`../../${manifest.entrypoints.worker}`, import.meta.url));
/** The host's own limit for calls that name none. */
const CALL_MS = 120_000;

/** What the worker's answer to a call was. */
export class CallError extends Error {}

export class Host {
  /** Everything that the worker ever wrote, as it came. */
  stdout = "";
  stderr = "";
  /** What `ctx.logger` was given. */
  logged = [];
  #lost = [];
  #keys = new Set();
  #process;
  #pending = new Map();
  #routes = new Map();

  constructor() {
    const { HOME = "", PATH = "", TZ = "UTC" } = process.env;
    this.#process = fork(WORKER, [], {
      stdio: ["pipe", "pipe", "pipe", "ipc"], execArgv: [],
      env: { HOME, PATH, TZ, NODE_PATH: "", NODE_ENV: "production", PAPERCLIP_PLUGIN_ID: manifest.id },
    });
    const { stdout, stderr } = this.#process;
    stdout.setEncoding("utf8").on("data", (text) => (this.stdout += text));
    stderr.setEncoding("utf8").on("data", (text) => (this.stderr += text));
    createInterface({ input: stdout }).on("line", (line) => this.#read(line));
    /** Resolves with exit status and signal when the worker has ended and all of its output was read. */
    this.closed = once(this.#process, "close");
    this.closed.then(([status, signal]) => {
      for (const { reject } of this.#pending.values()) reject(new Error(`The worker ended (${status ?? signal}). ${this.stderr}`));
    });
  }

  /** A worker that is initialized. It is ended with the test, if it lives that long, and must have done nothing wrong. */
  static async start(t) {
    const host = new Host();
    t.after(async () => {
      await host.kill();
      assert.deepEqual(host.faults(), []);
    });
    host.initialized = await host.call("initialize", {
      manifest, config: {}, instanceInfo: { instanceId: randomUUID(), hostVersion: "2026.916.1" }, apiVersion: 1,
    });
    return host;
  }

  /**
   * What no worker may do: send live chunks that no running call of the host's owns, or lines that are no message (both are lost
   * to a user), print to stderr, or say a key that it was given to use.
   */
  faults() {
    const said = [...this.#keys].some((key) => this.stdout.includes(key) || this.stderr.includes(key));
    return [...this.#lost, ...(this.stderr ? [this.stderr] : []), ...(said ? ["the key"] : [])];
  }

  #read(line) {
    if (line.trim() === "") return;
    let message;
    try {
      message = parseMessage(line);
    } catch {
      return void this.#lost.push(line.slice(0, 200));
    }
    if (isJsonRpcResponse(message)) this.#answered(message);
    else if (isJsonRpcNotification(message)) this.#notified(message);
    else this.#lost.push(message);
  }

  #answered(response) {
    const pending = this.#pending.get(response.id);
    if (!pending) return void this.#lost.push(response);
    const { resolve, reject, invocation } = pending;
    this.#pending.delete(response.id);
    this.#routes.delete(invocation.id);
    if (isJsonRpcSuccessResponse(response)) resolve(response.result);
    else reject(new CallError(response.error.message));
  }

  #notified(notification) {
    const { method, params, paperclipInvocationId } = notification;
    if (method === "log") return void this.logged.push(params);
    const route = this.#routes.get(paperclipInvocationId);
    if (method === "execute.log" && route) route(params.stream, params.chunk);
    else this.#lost.push(notification);
  }

  /**
   * A call and its result. `log` gets the live chunks that carry the call's own invocation id and come before its answer.
   * @param {string} method
   * @param {object} params
   * @param {(stream: string, chunk: string) => void} [log]
   * @returns {Promise<any>}
   */
  async call(method, params = {}, log = undefined) {
    const invocation = { id: randomUUID(), scope: { companyId: params.companyId ?? "none" } };
    const request = { ...createRequest(method, params, randomUUID()), paperclipInvocation: invocation };
    // Settings that were only to be normalized come back as they are, the key with them.
    if (params.config?.apiKey && method !== "environmentValidateConfig") this.#keys.add(params.config.apiKey);
    if (log) this.#routes.set(invocation.id, log);
    const settled = new Promise((resolve, reject) => this.#pending.set(request.id, { resolve, reject, invocation }));
    const timer = setTimeout(() => this.#pending.get(request.id)?.reject(new Error(`${method} was not answered. ${this.stderr}`)), CALL_MS);
    this.#process.stdin.write(serializeMessage(request));
    return settled.finally(() => clearTimeout(timer));
  }

  /** What Paperclip does when it stops: asks, and the worker's process ends by itself. */
  async shutdown() {
    assert.equal(await this.call("shutdown"), null);
    return this.closed;
  }

  /** What a worker sees of a Paperclip that has died. */
  hangUp() {
    this.#process.stdin.end();
    return this.closed;
  }

  async kill() {
    this.#process.kill("SIGKILL");
    await this.closed;
  }
}

/** The chunks of one stream, put together. */
export const textOf = (live, stream) => live.filter(([name]) => name === stream).map(([, chunk]) => chunk).join("");
