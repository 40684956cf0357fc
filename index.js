"use strict";
// The package's surface: argument checks, error classes, abort signals, and callbacks in their async context. The rest
// happens in the addon, whose promises resolve with plain outcomes: errors are made here, so that their stacks start at
// the caller. Types and documentation are in index.d.ts.

const { AsyncResource } = require("node:async_hooks");
const { channel } = require("node:diagnostics_channel");
const { inspect } = require("node:util");
const loaded = require("./load.js");

const STREAMS = ["stdout", "stderr"];

// --- Errors ---------------------------------------------------------------------------------------------------------

class CreateosError extends Error {
  /**
   * @param {string} message
   * @param {{details?: object, output?: object}} [members]
   */
  constructor(message, { details = { operation: null, tries: 0, attempts: [] }, output } = {}) {
    super(message);
    this.details = details;
    // Megabytes of output have no place where an error is printed.
    if (output) Object.defineProperty(this, "output", { value: output, configurable: true, writable: true });
  }
}

class CreateosApiError extends CreateosError {
  /**
   * @param {string} message
   * @param {{status?: number, details?: object, output?: object}} [members]
   */
  constructor(message, { status, ...rest } = {}) {
    super(message, rest);
    this.status = status;
  }
}

class CreateosCleanupError extends CreateosError {}

class CreateosLoadError extends CreateosError {
  /**
   * @param {string} message
   * @param {{platform?: string, arch?: string, libc?: string | null, package?: string | null}} [facts]
   */
  constructor(message, { platform = process.platform, arch = process.arch, libc = null, package: name = null } = {}) {
    super(message);
    this.platform = platform;
    this.arch = arch;
    this.libc = libc;
    this.package = name;
  }
}

for (const [name, { prototype }] of Object.entries({ CreateosError, CreateosApiError, CreateosCleanupError, CreateosLoadError })) {
  Object.defineProperty(prototype, "name", { value: name, configurable: true, writable: true });
}

const CLASSES = { error: CreateosError, api: CreateosApiError, cleanup: CreateosCleanupError };

/** The addon. Where it could not be loaded, whatever needs it fails, and nothing else does. */
function native() {
  if (loaded.problem) throw new CreateosLoadError(loaded.problem.message, loaded.problem);
  return loaded.addon;
}

function parametersInvalid() {
  return new CreateosError("Invalid CreateOS command parameters.");
}

/** The error of an outcome that has a rejection. */
function rejected({ rejection, output }) {
  const { kind, message, status, operation, tries, attempts, entry } = rejection;
  if (kind === "range") return new RangeError(message);
  const details = {
    operation: operation ?? null, tries, attempts: attempts.map(({ status, failure }) => (failure ? { failure } : { status })),
    ...(entry !== undefined && { entry }),
  };
  return new CLASSES[kind](message, { details, status, output });
}

/** Calls the addon for something that has no promise, and throws its errors as the package's own. */
function sync(caller, call) {
  try {
    return call();
  } catch (/** @type {any} */ fault) {
    const known = fault instanceof CreateosError || fault instanceof RangeError;
    const error = known ? fault : fault.code === "RangeError" ? new RangeError(fault.message) : new CreateosError(fault.message);
    Error.captureStackTrace(error, caller);
    throw error;
  }
}

/** Awaits an outcome; what is thrown has the stack of `caller`'s caller, which the addon's threads do not know. */
async function settled(caller, start) {
  const at = {};
  Error.captureStackTrace(at, caller);
  try {
    const outcome = await start();
    if (outcome.rejection) throw rejected(outcome);
    return outcome;
  } catch (error) {
    if (!(error instanceof CreateosError || error instanceof RangeError)) throw error;
    // Whatever `Error.stackTraceLimit` and `Error.prepareStackTrace` have made of it.
    const [, trace = ""] = /^.*?(\n.*)$/s.exec(at.stack) ?? [];
    Object.defineProperty(error, "stack", { value: `${error.name}: ${error.message}${trace}`, configurable: true, writable: true });
    throw error;
  }
}

// --- Arguments ------------------------------------------------------------------------------------------------------

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value) => (typeof value === "string" ? value : undefined);

/** An optional text: `null` is none, anything else than text is refused. */
function optionalText(value) {
  if (value == null) return undefined;
  if (typeof value !== "string") throw parametersInvalid();
  return value;
}

/** The settings by name; NaN stands for a type that no setting has. */
function rawConfigOf(raw) {
  const setting = (value) => (value == null ? undefined : ["string", "number", "boolean"].includes(typeof value) ? value : NaN);
  const { apiUrl, apiKey, shape, rootfs, region, timeoutMs, reuseLease } = raw ?? {};
  return {
    apiUrl: setting(apiUrl), apiKey: setting(apiKey), shape: setting(shape), rootfs: setting(rootfs),
    region: setting(region), timeoutMs: setting(timeoutMs), reuseLease: setting(reuseLease),
  };
}

function scopeOf({ companyId, environmentId, config }, leaseId, metadata) {
  const { provider, companyId: company, environmentId: environment, apiUrl } = isObject(metadata) ? metadata : {};
  return {
    companyId: text(companyId) ?? "", environmentId: text(environmentId) ?? "", config: rawConfigOf(config),
    // Without an ID there is no lease; one that is no text is a lease with an unusable ID.
    leaseId: leaseId ? text(leaseId) ?? "" : undefined,
    metadata: { provider: text(provider), companyId: text(company), environmentId: text(environment), apiUrl: text(apiUrl) },
  };
}

/** What a lease's metadata says of its sandbox: text, undefined for null, NaN for what is neither. */
function claimsOf(metadata) {
  const claim = (value) => (value === null ? undefined : typeof value === "string" ? value : NaN);
  const { marker, shape, rootfs, region } = isObject(metadata) ? metadata : {};
  return { marker: text(marker), shape: claim(shape), rootfs: claim(rootfs), region: claim(region) };
}

function commandOf({ command, args, cwd, env, stdin, timeoutMs }) {
  const words = args ?? [];
  // Copied: of an array with holes `every` sees only what is there.
  if (!Array.isArray(words) || ![...words].every((word) => typeof word === "string") || (env != null && !isObject(env))) {
    throw parametersInvalid();
  }
  const variables = Object.entries(env ?? {});
  return {
    command: optionalText(command) ?? "", args: words, cwd: optionalText(cwd), stdin: optionalText(stdin),
    envNames: variables.map(([name]) => name), envValues: variables.map(([, value]) => text(value)),
    timeoutMs: optionalNumber(timeoutMs),
  };
}

/** An optional list, of which each item is an object. */
function listOf(items, each) {
  if (items == null) return [];
  // Copied: of an array with holes `every` sees only what is there.
  if (!Array.isArray(items) || ![...items].every(isObject)) throw parametersInvalid();
  return items.map(each);
}

const optionalNumber = (value) => (value == null ? undefined : typeof value === "number" ? value : NaN);

function mappingOf({ sourcePath, targetPath, kind, mode, exclude, followSymlinks }) {
  const patterns = exclude ?? [];
  if (typeof sourcePath !== "string" || typeof targetPath !== "string") throw parametersInvalid();
  if (!Array.isArray(patterns) || ![...patterns].every((pattern) => typeof pattern === "string")) throw parametersInvalid();
  return {
    source: sourcePath, target: targetPath, kind: text(kind) ?? "", mode: optionalNumber(mode), exclude: patterns,
    follow: Boolean(followSymlinks),
  };
}

function postUploadOf({ command, cwd, timeoutMs }) {
  if (typeof command !== "string") throw parametersInvalid();
  return { command, cwd: optionalText(cwd), timeoutMs: optionalNumber(timeoutMs) };
}

const operationOf = ({ files, postUploadCommands }) =>
  ({ files: listOf(files, mappingOf), commands: listOf(postUploadCommands, postUploadOf) });

function integer(name, value, fallback, least, most) {
  if (value === undefined) return fallback;
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${name} must be an integer from ${least} to ${most}`);
  }
  return value;
}

function group(name, value) {
  if (value === undefined) return {};
  if (!isObject(value)) throw new RangeError(`${name} must be an object`);
  return value;
}

function optionsOf(options) {
  const { pacing, reconnect, idleTimeoutMs, cleanupTimeoutMs, stageScript = "large", onEvent } = group("options", options);
  if (pacing !== undefined && pacing !== false && !isObject(pacing)) throw new RangeError("pacing must be an object or false");
  const { requestsPerMinute, burst } = pacing || {};
  const { attempts, delayMs } = group("reconnect", reconnect);
  if (stageScript !== "large" && stageScript !== "always") throw new RangeError('stageScript must be "large" or "always"');
  if (onEvent !== undefined && typeof onEvent !== "function") throw new RangeError("onEvent must be a function");
  const DAY = 86_400_000;
  const checked = {
    ...(pacing !== false && {
      requestsPerMinute: integer("pacing.requestsPerMinute", requestsPerMinute, 200, 1, 1_000_000),
      burst: integer("pacing.burst", burst, 40, 1, 1_000_000),
    }),
    reconnectAttempts: integer("reconnect.attempts", attempts, 3, 0, 1_000_000),
    reconnectDelayMs: integer("reconnect.delayMs", delayMs, 250, 0, DAY),
    idleTimeoutMs: integer("idleTimeoutMs", idleTimeoutMs, 300_000, 0, DAY),
    cleanupTimeoutMs: integer("cleanupTimeoutMs", cleanupTimeoutMs, 15_000, 1, DAY),
    alwaysStageScript: stageScript === "always",
  };
  return { checked, onEvent };
}

// --- The process's environment --------------------------------------------------------------------------------------

const [MAJOR, MINOR] = process.versions.node.split(".").map(Number);

/** Whether this Node.js has what came in these releases, one for each release line, the last also for all after it. */
function since(...releases) {
  return MAJOR > releases[releases.length - 1][0] || releases.some(([major, minor]) => MAJOR === major && MINOR >= minor);
}

/** A Node.js that does not know a flag refuses to start; a variable it does not know it ignores, and so do we. */
function enabled(flag, variable, ...releases) {
  const flags = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? "").split(/\s+/)];
  return flags.includes(flag) || (process.env[variable] === "1" && since(...releases));
}

/** What the addon has to know of the environment: no more of it than Node.js itself would heed. */
function surroundings() {
  const { env } = process;
  const proxied = enabled("--use-env-proxy", "NODE_USE_ENV_PROXY", [22, 21], [24, 0]);
  return {
    apiKey: env.CREATEOS_API_KEY,
    extraCaCerts: env.NODE_EXTRA_CA_CERTS || undefined,
    sslCertFile: env.SSL_CERT_FILE || undefined,
    systemCa: enabled("--use-system-ca", "NODE_USE_SYSTEM_CA", [22, 19], [24, 6]),
    httpsProxy: (proxied && (env.https_proxy || env.HTTPS_PROXY || env.http_proxy || env.HTTP_PROXY)) || undefined,
    noProxy: (proxied && (env.no_proxy || env.NO_PROXY)) || undefined,
  };
}

// --- Configuration --------------------------------------------------------------------------------------------------

/** Settings as callers get them. Printed, they show neither the key nor the URL. */
function configOf({ apiUrl, apiKey, shape, rootfs, region, timeoutMs, reuseLease }) {
  const shown = { shape, rootfs: rootfs ?? null, region: region ?? null, timeoutMs, reuseLease };
  const config = { apiUrl, apiKey: apiKey ?? null, ...shown };
  return Object.defineProperty(config, inspect.custom, { value: (_depth, options) => inspect(shown, options) });
}

function parseConfig(raw) {
  return configOf(sync(parseConfig, () => native().parseConfig(rawConfigOf(raw))));
}

function shellQuote(value) {
  if (typeof value !== "string") throw parametersInvalid();
  return sync(shellQuote, () => native().shellQuote(value));
}

/** @type {(client: unknown) => {native: any, onEvent: any}} */
let partsOf;

class CreateosClient {
  #native;
  #config;
  #onEvent;

  constructor(config, options) {
    const { NativeClient } = sync(CreateosClient, native);
    const { checked, onEvent } = optionsOf(options);
    this.#onEvent = onEvent;
    this.#native = sync(CreateosClient, () => new NativeClient(rawConfigOf(config), checked, surroundings()));
    this.#config = Object.freeze(configOf(this.#native.config));
  }

  get config() {
    return this.#config;
  }

  [inspect.custom]() {
    return "CreateosClient {}";
  }

  static {
    partsOf = (client) => {
      // Where there is no addon there is no client either, and that is what has to be said.
      native();
      if (typeof client !== "object" || client === null || !(#native in client)) throw parametersInvalid();
      return { native: client.#native, onEvent: client.#onEvent };
    };
  }
}

// --- Commands and leases --------------------------------------------------------------------------------------------

/** One channel for each type of event. Kept here: a channel that nobody holds forgets its subscribers. */
const CHANNELS = Object.fromEntries(
  ["connected", "reconnecting", "throttled", "cleanup", "released"].map((type) => [type, channel(`createos:${type}`)]));
const CHANNEL_LIST = Object.values(CHANNELS);

/** What the addon tells of a call goes here. Without a listener when the call starts there is nothing for it to call. */
function observer(call, onEvent) {
  if (onEvent === undefined && !CHANNEL_LIST.some(({ hasSubscribers }) => hasSubscribers)) return undefined;
  const tellCaller = onEvent && guarded(
    onEvent, "A CreateOS event callback failed", "CREATEOS_EVENT_CALLBACK", " Its call goes on, and so do its events.");
  // As for a log: on Node.js 24 and newer, calls from native code have no async context of their own.
  return AsyncResource.bind(({ type, leaseId = null, processId = null, ...facts }) => {
    const event = Object.freeze({ type, call, leaseId, processId, ...facts });
    tellCaller?.(event);
    CHANNELS[type].publish(event);
  });
}

/** Reports what a caller's own function threw. */
function complain(what, error, code, more) {
  let reason = "a value that is no error";
  try {
    if (error instanceof Error) reason = `${error.name}: ${error.message}`;
  } catch {
    // Whatever was thrown throws when it is looked at, too.
  }
  process.emitWarning(`${what} (${reason}).${more}`, { code });
}

/** The caller's own function, never throwing: the first time that it throws or rejects is reported. */
function guarded(callback, what, code, more) {
  let warned = false;
  const warn = (error) => {
    if (warned) return;
    warned = true;
    complain(what, error, code, more);
  };
  return (...args) => {
    try {
      const returned = callback(...args);
      if (typeof returned?.then === "function") returned.then(undefined, warn);
    } catch (error) {
      warn(error);
    }
  };
}

/** The caller's log function as the addon calls it: in the async context of the call, and never throwing. */
function deliverer(log) {
  const call = guarded(
    log, "A CreateOS log callback failed", "CREATEOS_LOG_CALLBACK", " Its command goes on, and so do its log calls.");
  // Calls from native code have no async context of their own on Node.js 24 and newer.
  return AsyncResource.bind((stream, text) => call(STREAMS[stream], text));
}

/**
 * What is to be done when a signal is aborted. However many commands share a signal, it has one listener: Node.js warns of
 * more than ten as of a leak.
 * @type {WeakMap<AbortSignal, {actions: Set<(timedOut: boolean) => void>, listener: () => void}>}
 */
const awaiting = new WeakMap();

function isTimeout(signal) {
  try {
    return signal.reason?.name === "TimeoutError";
  } catch {
    // A reason can be anything, also an object that throws when it is looked at.
    return false;
  }
}

/** Calls `act` once when the signal is aborted, or at once if it was. What is returned takes that back. */
function onAbort(signal, act) {
  if (signal.aborted) {
    act(isTimeout(signal));
    return () => {};
  }
  const { actions, listener } = awaiting.get(signal) ?? listen(signal);
  actions.add(act);
  return () => {
    actions.delete(act);
    if (actions.size > 0) return;
    awaiting.delete(signal);
    signal.removeEventListener("abort", listener);
  };
}

function listen(signal) {
  const actions = new Set();
  const listener = () => {
    for (const act of actions) act(isTimeout(signal));
  };
  signal.addEventListener("abort", listener, { once: true });
  awaiting.set(signal, { actions, listener });
  return { actions, listener };
}

/** Runs a command by `start(stop, deliver)` and gives its result; an aborted signal ends it early. */
async function run(start, signal, log) {
  if (log != null && typeof log !== "function") throw parametersInvalid();
  const listens = typeof signal?.addEventListener === "function" && typeof signal.removeEventListener === "function";
  if (signal != null && !listens) throw parametersInvalid();
  const stop = new (native().NativeStop)();
  const forget = signal == null ? undefined : onAbort(signal, (timedOut) => stop.stop(timedOut));
  try {
    return await start(stop, log == null ? undefined : deliverer(log));
  } finally {
    forget?.();
  }
}

function resultOf({ exitCode, signal, timedOut, output, processId }) {
  const { stdout, stderr, truncated } = output;
  return {
    exitCode: exitCode ?? null, signal: signal ?? null, timedOut, stdout, stderr,
    metadata: { processId: processId ?? null, outputTruncated: truncated },
  };
}

/**
 * What `execute` is told: the lease's scope and the command.
 * @returns {[ReturnType<typeof scopeOf>, ReturnType<typeof commandOf>]}
 */
function executionOf(params) {
  return [leaseScopeOf(params), commandOf(params)];
}

async function execute(client, params, signal, log) {
  const outcome = await settled(execute, () => {
    const { native: inner, onEvent } = partsOf(client);
    const [scope, command] = executionOf(params);
    const observe = observer("execute", onEvent);
    return run((stop, deliver) => inner.execute(scope, command, signal == null, stop, deliver, observe), signal, log);
  });
  return resultOf(outcome);
}

/** Parameters that are an object. */
function checked(params) {
  if (!isObject(params)) throw parametersInvalid();
  return params;
}

/** Releases a lease, if there is one, and gives the receipt of its end. */
async function released(caller, provider, params, destroy, observe) {
  const { state } = await settled(caller, () => {
    const { providerLeaseId, leaseMetadata } = checked(params);
    return provider.release(scopeOf(params, providerLeaseId, leaseMetadata), surroundings(), destroy === true, observe);
  });
  return state && { providerLeaseId: params.providerLeaseId, state };
}

/** The parameters' own lease, as the addon's scope. */
function leaseScopeOf(params) {
  if (!isObject(checked(params).lease)) throw parametersInvalid();
  return scopeOf(params, params.lease.providerLeaseId, params.lease.metadata);
}

/** Tells `warn` what did not travel, in the async context of the call. A `warn` that fails undoes nothing. */
function tell(warn, { skipped, skippedMore }) {
  if (warn == null) return;
  const call = guarded(warn, "A CreateOS warning callback failed", "CREATEOS_WARN_CALLBACK", " Its sync ends as it would have.");
  for (const { entry, reason } of skipped) call(`CreateOS transfer skipped ${entry}: ${reason}.`, { entry, reason });
  if (skippedMore > 0) call(`CreateOS transfer skipped ${skippedMore} more entries.`, { more: skippedMore });
}

/** Moves files, whichever way. */
async function synced(caller, provider, params, out, warn, signal, observe) {
  const { operations } = await settled(caller, async () => {
    if (warn != null && typeof warn !== "function") throw parametersInvalid();
    const scope = leaseScopeOf(params);
    if (!Array.isArray(params.operations)) throw parametersInvalid();
    const batch = listOf(params.operations, operationOf);
    const outcome = await run((stop) => provider.sync(scope, batch, surroundings(), out, stop, observe), signal);
    tell(warn, outcome);
    return outcome;
  });
  return {
    operations: operations.map(({ files, bytes }, i) =>
      ({ operationId: params.operations[i].operationId, filesTransferred: files, bytesTransferred: bytes })),
  };
}

class CreateosProvider {
  #native;
  #onEvent;

  constructor(options) {
    const { NativeProvider } = sync(CreateosProvider, native);
    const { checked, onEvent } = optionsOf(options);
    this.#onEvent = onEvent;
    this.#native = new NativeProvider(checked);
  }

  #observer(call) {
    return observer(call, this.#onEvent);
  }

  async execute(params, log, signal) {
    const outcome = await settled(this.execute, () => {
      const [scope, command] = executionOf(params);
      const observe = this.#observer("execute");
      return run((stop, deliver) => this.#native.execute(scope, command, surroundings(), stop, deliver, observe), signal, log);
    });
    return resultOf(outcome);
  }

  async release(params, destroy) {
    await released(this.release, this.#native, params, destroy, this.#observer("release"));
  }

  async validateConfig(params) {
    const { config } = checked(params);
    try {
      return { ok: true, normalizedConfig: parseConfig(config) };
    } catch (error) {
      return { ok: false, errors: [/** @type {Error} */ (error).message] };
    }
  }

  async probe(params) {
    const { ok, summary } = await settled(this.probe, () =>
      this.#native.probe(scopeOf(checked(params)), surroundings(), this.#observer("probe")));
    return { ok, summary };
  }

  async acquireLease(params) {
    const { leaseId, marker, workspace, config } = await settled(this.acquireLease, () =>
      this.#native.acquire(scopeOf(checked(params)), surroundings(), Boolean(params.requestedExpiresAt), this.#observer("acquireLease")));
    const { apiUrl, shape, rootfs, region, reuseLease } = config;
    const { companyId, environmentId } = params;
    return {
      providerLeaseId: leaseId,
      metadata: {
        provider: "createos", apiUrl, companyId, environmentId, remoteCwd: workspace, shellCommand: "bash", marker,
        shape, rootfs: rootfs ?? null, region: region ?? null, reuseLease,
      },
    };
  }

  async resumeLease(params) {
    const { expired } = await settled(this.resumeLease, () => {
      const { providerLeaseId, leaseMetadata } = checked(params);
      const scope = scopeOf(params, providerLeaseId, leaseMetadata);
      return this.#native.resume(scope, claimsOf(leaseMetadata), surroundings(), this.#observer("resumeLease"));
    });
    if (expired) return { providerLeaseId: null, metadata: { expired: true } };
    return { providerLeaseId: params.providerLeaseId, metadata: { ...params.leaseMetadata, resumedLease: true } };
  }

  async releaseLease(params) {
    return released(this.releaseLease, this.#native, params, false, this.#observer("releaseLease"));
  }

  async destroyLease(params) {
    return released(this.destroyLease, this.#native, params, true, this.#observer("destroyLease"));
  }

  async realizeWorkspace(params) {
    const { workspace } = await settled(this.realizeWorkspace, () => this.#native.realize(leaseScopeOf(params)));
    return { cwd: workspace, metadata: { provider: "createos", remoteCwd: workspace } };
  }

  async syncIn(params, warn, signal) {
    return synced(this.syncIn, this.#native, params, false, warn, signal, this.#observer("syncIn"));
  }

  async syncOut(params, warn, signal) {
    return synced(this.syncOut, this.#native, params, true, warn, signal, this.#observer("syncOut"));
  }

  async health() {
    const { shutDown, running, unconfirmed } = this.#native.health();
    const details = { running, unconfirmed };
    if (shutDown) return { status: "error", message: "The CreateOS provider was shut down.", details };
    if (unconfirmed > 0) return { status: "degraded", message: "CreateOS leases with unconfirmed cleanup must be destroyed.", details };
    return { status: "ok", message: "The CreateOS provider is ready; a probe tells whether an environment works.", details };
  }

  async shutdown() {
    await this.#native.shutdown();
  }

  [inspect.custom]() {
    return "CreateosProvider {}";
  }
}

function createProvider(options) {
  return new CreateosProvider(options);
}

/** @type {ReturnType<typeof native>["NativeProvider"]["prototype"] | undefined} */
let processWide;
/** One for the whole process, worker threads included. */
const shared = () => (processWide ??= native().NativeProvider.processWide());

async function release(params, destroy) {
  await released(release, sync(release, shared), params, destroy, observer("release"));
}

async function shutdown() {
  await sync(shutdown, shared).shutdown();
}

module.exports = {
  CreateosApiError,
  CreateosCleanupError,
  CreateosClient,
  CreateosError,
  CreateosLoadError,
  CreateosProvider,
  createProvider,
  execute,
  parseConfig,
  release,
  shellQuote,
  shutdown,
};
