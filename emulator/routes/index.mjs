// The table of calls: which method and path is which call, and who answers it. The names are what `requests` and
// hooks speak of.
import { exec } from "./exec.mjs";
import { download, upload } from "./files.mjs";
import * as processes from "./processes.mjs";
import * as sandboxes from "./sandboxes.mjs";

/**
 * @typedef {object} Call
 * @property {import("../sandboxes.mjs").Sandboxes} sandboxes
 * @property {import("../sandbox.mjs").Surroundings} surroundings
 * @property {string[]} ids the path's identifiers, checked
 * @property {URLSearchParams} query
 * @property {Record<string, any>} body
 * @property {import("node:http").IncomingMessage} req
 * @property {import("../response.mjs").Response} out
 * @property {(data: unknown, status?: number) => void} success
 */

const SANDBOX = "/v1/sandboxes/([^/]+)";
const PROCESS = `${SANDBOX}/processes/([^/]+)`;
const path = (pattern) => new RegExp(`^${pattern}$`);

/** @type {Array<{route: string, method: string, pattern: RegExp, answer: (call: Call) => unknown, raw?: true}>} */
export const ROUTES = [
  { route: "createSandbox", method: "POST", pattern: path("/v1/sandboxes"), answer: sandboxes.create },
  { route: "listSandboxes", method: "GET", pattern: path("/v1/sandboxes"), answer: sandboxes.list },
  { route: "getSandbox", method: "GET", pattern: path(SANDBOX), answer: sandboxes.get },
  { route: "destroySandbox", method: "DELETE", pattern: path(SANDBOX), answer: sandboxes.destroy },
  { route: "pause", method: "POST", pattern: path(`${SANDBOX}/pause`), answer: sandboxes.pause },
  { route: "resume", method: "POST", pattern: path(`${SANDBOX}/resume`), answer: sandboxes.resume },
  { route: "egress", method: "PUT", pattern: path(`${SANDBOX}/egress`), answer: sandboxes.egress },
  { route: "exec", method: "POST", pattern: path(`${SANDBOX}/exec`), answer: exec },
  { route: "upload", method: "PUT", pattern: path(`${SANDBOX}/files`), answer: upload, raw: true },
  { route: "download", method: "GET", pattern: path(`${SANDBOX}/files`), answer: download },
  { route: "listProcesses", method: "GET", pattern: path(`${SANDBOX}/processes`), answer: processes.list },
  { route: "create", method: "POST", pattern: path(`${SANDBOX}/processes`), answer: processes.create },
  { route: "getProcess", method: "GET", pattern: path(PROCESS), answer: processes.get },
  { route: "terminate", method: "DELETE", pattern: path(PROCESS), answer: processes.terminate },
  { route: "stdinClose", method: "POST", pattern: path(`${PROCESS}/stdin/close`), answer: processes.closeInput },
  { route: "input", method: "POST", pattern: path(`${PROCESS}/input`), answer: processes.input },
  { route: "signal", method: "POST", pattern: path(`${PROCESS}/signal`), answer: processes.signal },
  { route: "resize", method: "POST", pattern: path(`${PROCESS}/resize`), answer: processes.resize },
  { route: "connect", method: "GET", pattern: path(`${PROCESS}/connect`), answer: processes.connect },
  { route: "wait", method: "GET", pattern: path(`${PROCESS}/wait`), answer: processes.wait },
];
