// The CreateOS endpoint that the demo talks to, and the calls that the addon has no part in: sandboxes are made, looked at
// and deleted here by plain requests, so that what the addon claims is checked by somebody else.

import { setTimeout as delay } from "node:timers/promises";
import { startEmulator } from "../../emulator/index.mjs";
import { CreateosError, parseConfig } from "../../index.js";

/** How long a sandbox may take to get ready. */
const READY_MS = 300_000;

/** A failure that its message explains. */
export class UsageError extends Error {}

export class Endpoint {
  /** @type {import("../../emulator/index.mjs").Emulator | null} */
  emulator;
  /** @type {import("../../index.js").CreateosConfig} */
  config;
  /** Sandboxes that were made and are not known to be gone. @type {Set<string>} */
  #sandboxes = new Set();

  /**
   * @param {import("../../index.js").CreateosConfig} config
   * @param {import("../../emulator/index.mjs").Emulator | null} emulator
   */
  constructor(config, emulator) {
    this.config = config;
    this.emulator = emulator;
  }

  /** What a reader is told about it; a URL may be nobody's business. */
  get description() {
    return this.emulator
      ? `the emulator on this machine (sandboxes kept apart by: ${this.emulator.isolation})`
      : "the endpoint that CREATEOS_API_URL names";
  }

  /**
   * One call.
   * @param {string} method
   * @param {string} path below `/v1`
   * @param {object | string} [body] an object is sent as JSON, text as bytes
   * @returns {Promise<{status: number, data: any}>}
   */
  async call(method, path, body) {
    const type = typeof body === "string" ? "application/octet-stream" : "application/json";
    const response = await fetch(`${this.config.apiUrl}/v1${path}`, {
      method,
      headers: { "x-api-key": this.config.apiKey ?? "", ...(body === undefined ? {} : { "content-type": type }) },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      redirect: "manual",
    });
    const answer = /** @type {any} */ (await response.json().catch(() => null));
    return { status: response.status, data: answer?.data ?? null };
  }

  /** A new sandbox that runs. @param {AbortSignal} [signal] @returns {Promise<string>} its ID */
  async createSandbox(signal) {
    const { shape, rootfs, region } = this.config;
    const optional = { ...(rootfs === null ? {} : { rootfs }), ...(region === null ? {} : { region }) };
    const { status, data } = await this.call("POST", "/sandboxes", { shape, ...optional, ingress_enabled: false });
    if (typeof data?.id !== "string") throw new UsageError(`The endpoint made no sandbox (HTTP ${status}).`);
    this.#sandboxes.add(data.id);
    const deadline = Date.now() + READY_MS;
    for (let state = data.status; state !== "running"; state = await this.stateOf(data.id)) {
      signal?.throwIfAborted();
      if (state === "failed" || state === "error" || state === "destroyed" || Date.now() > deadline) {
        throw new UsageError(`The sandbox did not get ready; its state is ${state}.`);
      }
      await delay(this.emulator ? 20 : 500);
    }
    return data.id;
  }

  /** A sandbox's state; `destroyed` also of one that nobody knows any more. @param {string} id @returns {Promise<string>} */
  async stateOf(id) {
    const { status, data } = await this.call("GET", `/sandboxes/${id}`);
    return status === 404 ? "destroyed" : String(data?.status ?? `unknown (HTTP ${status})`);
  }

  /** The entry of a process in the endpoint's list. @param {string} sandbox @param {string | null} id */
  async processOf(sandbox, id) {
    const { data } = await this.call("GET", `/sandboxes/${sandbox}/processes`);
    return data?.processes?.find((/** @type {any} */ entry) => entry.process_id === id) ?? null;
  }

  /** Deletes what sandboxes there are. @returns {Promise<string[]>} the states of those that are not gone */
  async destroySandboxes() {
    const left = [];
    for (const id of this.#sandboxes) {
      await this.call("DELETE", `/sandboxes/${id}`);
      let state = await this.stateOf(id);
      for (let tries = 0; state === "destroying" && tries < 60; tries++) {
        await delay(500);
        state = await this.stateOf(id);
      }
      if (state === "destroyed") this.#sandboxes.delete(id);
      else left.push(state);
    }
    return left;
  }

  async close() {
    await this.emulator?.close();
  }
}

/**
 * The endpoint that the variables name, else an emulator of this process's own.
 * @param {NodeJS.ProcessEnv} env
 * @param {import("../../emulator/index.mjs").Hooks} [hooks] of the emulator
 */
export async function openEndpoint(env, hooks) {
  const { CREATEOS_API_URL: apiUrl, CREATEOS_API_KEY: apiKey, CREATEOS_SHAPE: shape } = env;
  if (apiUrl) {
    const names = ["CREATEOS_API_KEY", "CREATEOS_SHAPE"].filter((name) => !env[name]);
    if (names.length > 0) throw new UsageError(`CREATEOS_API_URL is set, but ${names.join(" and ")} ${names.length > 1 ? "are" : "is"} not.`);
    try {
      return new Endpoint(parseConfig({ apiUrl, apiKey, shape }), null);
    } catch (error) {
      throw error instanceof CreateosError ? new UsageError(error.message) : error;
    }
  }
  const emulator = await startEmulator({ hooks });
  return new Endpoint(parseConfig({ apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb" }), emulator);
}
