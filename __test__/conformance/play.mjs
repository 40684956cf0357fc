// Plays a conformance vector against an implementation: what a caller can observe of it (the settled value or error, the
// live log, the requests), and whether that is what the vector expects. Knows neither files nor how results are shown.

import { chmod, lstat, mkdir, mkdtemp, readFile, readdir, readlink, rm, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { listTar, startServer } from "./server.mjs";

/** The key of every vector. */
export const SECRET = "test-secret";
const MARKER = "11111111-2222-4333-8444-555555555555";
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const digest = (text) => typeof text === "string" && text.length > 256
  ? { length: text.length, sha256: createHash("sha256").update(Buffer.from(text, "utf16le")).digest("hex"), head: text.slice(0, 16), tail: text.slice(-16) }
  : text;

function substitute(value, url, temp) {
  if (typeof value === "string") return value.replaceAll("$APIURL", url).replaceAll("$TMP", temp);
  if (Array.isArray(value)) return value.map((item) => substitute(item, url, temp));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, substitute(v, url, temp)]));
  return value;
}

/** Makes a vector's files below `temp`: {path, text|base64|link|dir, mode}. */
async function makeTree(temp, entries) {
  for (const entry of entries) {
    const at = path.join(temp, entry.path);
    await mkdir(path.dirname(at), { recursive: true });
    if (entry.dir) await mkdir(at, { recursive: true });
    else if (entry.link !== undefined) await symlink(entry.link.replaceAll("$TMP", temp), at);
    else await writeFile(at, entry.base64 !== undefined ? Buffer.from(entry.base64, "base64") : entry.text ?? "");
    if (entry.mode !== undefined) await chmod(at, entry.mode);
  }
}

/** Everything below `dir`, sorted, as a comparable list. */
async function describeTree(dir, temp, base = dir) {
  const found = [];
  for (const name of (await readdir(dir).catch(() => [])).sort()) {
    const at = path.join(dir, name), info = await lstat(at), entry = { path: path.relative(base, at) };
    if (info.isSymbolicLink()) found.push({ ...entry, link: (await readlink(at)).replaceAll(temp, "$TMP") });
    else if (info.isDirectory()) found.push({ ...entry, dir: true, mode: info.mode & 0o777 }, ...await describeTree(at, temp, base));
    else found.push({ ...entry, mode: info.mode & 0o777, content: digest((await readFile(at)).toString("latin1")) });
  }
  return found;
}

/** Joins neighbouring chunks of one stream: chunk boundaries are free, their order is not. */
function mergeLog(log) {
  const merged = [];
  for (const [stream, text] of log) {
    if (merged.at(-1)?.[0] === stream) merged.at(-1)[1] += text;
    else merged.push([stream, text]);
  }
  return merged.map(([stream, text]) => [stream, digest(text)]);
}

/** Requests in order, without repeats of one and the same request in a row (retries are free) and without mere questions about processes. */
function collapse(requests) {
  const lines = requests.filter((r) => r.route !== "listProcesses" && r.route !== "wait").map((r) => `${r.method} ${r.path.replace(UUID, "<uuid>")}`);
  return lines.filter((line, i) => line !== lines[i - 1]);
}

function describeError(error) {
  return {
    message: error?.message ?? String(error),
    class: ["CreateosApiError", "CreateosCleanupError"].find((name) => error?.constructor?.name === name || error?.name === name) ?? "Error",
    ...(typeof error?.status === "number" ? { status: error.status } : {}),
  };
}

function describeResult(result) {
  if (result === undefined || result === null) return null;
  if (!("stdout" in result)) return result;
  return {
    exitCode: result.exitCode, signal: result.signal ?? null, timedOut: result.timedOut,
    stdout: digest(result.stdout), stderr: digest(result.stderr),
    processId: result.metadata?.processId ?? null, outputTruncated: result.metadata?.outputTruncated ?? false,
  };
}

function abortSignal(abort) {
  const controller = new AbortController();
  if (!abort) return { signal: controller.signal, clear() {} };
  const fire = () => controller.abort(abort.kind === "timeout"
    ? new DOMException("The operation was aborted due to timeout", "TimeoutError") : undefined);
  if (abort.afterMs === 0) { fire(); return { signal: controller.signal, clear() {} }; }
  const timer = setTimeout(fire, abort.afterMs);
  return { signal: controller.signal, clear: () => clearTimeout(timer) };
}

/**
 * What a caller can observe when `vector` is played; JSON, comparable to `vector.expect`.
 */
export async function play(vector, api) {
  const server = await startServer(vector.server ?? {});
  const temp = await mkdtemp(path.join(os.tmpdir(), "vector-"));
  await makeTree(temp, vector.tree ?? []);
  const clean = (value) => JSON.parse(JSON.stringify(value ?? null).replaceAll(server.url, "$APIURL").replaceAll(temp, "$TMP").replaceAll(UUID, "<uuid>"));
  const config = { apiUrl: server.url, apiKey: SECRET, shape: "test-shape", timeoutMs: 5000, ...(vector.config ?? {}) };
  const base = { driverKey: "createos", companyId: "company-a", environmentId: "env-a", config };
  const metadata = { provider: "createos", companyId: "company-a", environmentId: "env-a", apiUrl: server.url };
  const provider = api.createProvider();
  const background = new Map();
  const observed = [];
  const settle = async (promise, log) => {
    const seen = {};
    try { seen.result = clean(describeResult(await promise)); } catch (error) { seen.error = describeError(error); }
    if (log) seen.log = mergeLog(log);
    if (JSON.stringify(seen).includes(SECRET)) seen.leaked = true;
    return seen;
  };
  try {
    for (const step of vector.steps) {
      const params = substitute(step.params ?? {}, server.url, temp);
      const call = (defaults) => {
        const merged = { ...defaults, ...params };
        for (const key of step.omit ?? []) delete merged[key];
        return merged;
      };
      const start = () => {
        if (step.do === "execute") {
          const log = [];
          const { signal, clear } = abortSignal(step.abort);
          const running = Promise.resolve().then(() => api.execute(
            api.makeClient({ ...config, ...params.config }),
            call({ ...base, lease: { providerLeaseId: "sb_test" }, command: "echo", args: ["hello"] }),
            signal, (stream, text) => log.push([stream, text])));
          return settle(running.finally(clear), log);
        }
        if (step.do === "provider.execute") {
          const log = [];
          const running = Promise.resolve().then(() => provider.execute(
            call({ ...base, lease: { providerLeaseId: "sb_test", metadata }, command: "echo", args: ["hello"] }),
            (stream, text) => log.push([stream, text])));
          return settle(running, log);
        }
        if (step.do === "provider.release") {
          return settle(Promise.resolve().then(() => provider.release(
            call({ ...base, providerLeaseId: "sb_test", leaseMetadata: metadata }), step.destroy === true)));
        }
        const lease = { providerLeaseId: "sb_test", metadata };
        const hook = { acquire: {}, probe: {}, validate: {}, realize: { lease, workspace: { localPath: "/private/host/path" } },
          resume: { providerLeaseId: "sb_test", leaseMetadata: { ...metadata, remoteCwd: "/paperclip-workspace", shellCommand: "bash", marker: MARKER,
            shape: "test-shape", rootfs: null, region: null, reuseLease: false } },
          syncIn: { lease }, syncOut: { lease } }[step.do.replace("provider.", "")];
        if (hook) return settle(Promise.resolve().then(async () => {
          const result = await provider[step.do.replace("provider.", "")](call({ ...base, runId: "run-a", ...hook }));
          // how large an archive is, is the implementation's own affair
          for (const [i, op] of (params.operations ?? []).entries()) if (op.files.some((f) => f.kind === "directory")) delete result.operations[i]?.bytesTransferred;
          return result;
        }));
        if (step.do === "parseConfig") {
          return settle(Promise.resolve().then(() => api.parseConfig(params)));
        }
        throw new Error(`unknown step ${step.do}`);
      };
      if (step.do === "waitRequest") { await server.waitFor(step.route, step.count ?? 1); continue; }
      if (step.do === "sleep") { await new Promise((resolve) => setTimeout(resolve, step.ms)); continue; }
      if (step.do === "join") { observed.push(await background.get(step.as)); continue; }
      if (step.background) { background.set(step.as, start()); continue; }
      observed.push(await start());
    }
    const bodies = (vector.checkBodies ?? []).map((route) => server.requests.filter((r) => r.route === route)
      .map((r) => { const text = r.body.toString().replace(UUID, "<uuid>"); try { return JSON.parse(text); } catch { return text; } }));
    return {
      steps: observed,
      ...(vector.ignoreRequests ? {} : { requests: collapse(server.requests) }),
      ...(vector.checkBodies ? { bodies } : {}),
      ...(vector.checkTree ? { tree: await describeTree(path.join(temp, vector.checkTree), temp) } : {}),
      ...(vector.checkUploads ? { uploads: server.requests.filter((r) => r.route === "upload").map((r) => listTar(r.body) ?? digest(r.body.toString("latin1"))) } : {}),
      keySent: server.requests.every((r) => r.headers["x-api-key"] === SECRET),
    };
  } finally {
    await Promise.allSettled(background.values());
    await provider.shutdown?.();
    await server.close();
    await rm(temp, { recursive: true, force: true });
  }
}

/** The observation as it is compared: where a vector accepts any error, an observed one becomes the expected one. */
export function relax(observed, expected) {
  const relaxed = JSON.parse(JSON.stringify(observed));
  for (const [i, step] of (expected.steps ?? []).entries()) {
    if (step.error?.__any && relaxed.steps?.[i]?.error) relaxed.steps[i].error = step.error;
  }
  return relaxed;
}

/** Whether what was observed is what `vector` expects. */
export function matches(observed, expected) {
  return isDeepStrictEqual(relax(observed, expected), expected);
}
