// Programs of their own that use the package: for what concerns a whole process, its output, its end, its memory.
import { spawn } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { conceal, scanText } from "./secrets.mjs";

const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), "..", "..");

/** What every program begins with: the package, and `run` for a command on the endpoint that it was given. */
const PRELUDE = {
  module: `
import * as addon from "./__test__/support/package.mjs";
import { Environment, bash } from "./__test__/support/environment.mjs";
const environment = new Environment({ url: process.env.TEST_URL, key: process.env.TEST_KEY }, {}, process.env.TEST_LEASE);
const client = environment.client();
const run = (command, log, signal) => addon.execute(client, environment.params(command), signal, log);
`,
  commonjs: `
const addon = require("./index.js");
const config = { apiUrl: process.env.TEST_URL, apiKey: process.env.TEST_KEY, shape: "s" };
const client = new addon.CreateosClient(addon.parseConfig(config), { pacing: false });
const run = (command, log, signal) => addon.execute(client, { companyId: "c", environmentId: "e", config, lease: { providerLeaseId: "sb_test" }, command: "true", ...command }, signal, log);
`,
};

/**
 * Starts a program whose endpoint is `endpoint`, by the command `under` if there is one. `exited` resolves to how it ended
 * and what it printed, in which there is no secret; `printed(text)` resolves, to all of its stdout, once it has printed that.
 */
export function startProgram(source, endpoint, { type = "module", flags = [], env = {}, lease = "sb_test", under = [] } = {}) {
  const [command, ...args] = [...under, process.execPath, ...flags, `--input-type=${type}`, "-e", PRELUDE[type] + source];
  const child = spawn(command, args, {
    cwd: ROOT, stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_OPTIONS: "", TEST_URL: endpoint.url, TEST_KEY: endpoint.key, TEST_LEASE: lease, ...env },
  });
  conceal(endpoint.key, new URL(endpoint.url).host);
  let stdout = "", stderr = "";
  const waiting = new Set();
  child.stdout.setEncoding("utf8").on("data", (text) => {
    stdout += text;
    for (const look of waiting) look();
  });
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  const exited = new Promise((resolve, reject) => {
    child.on("error", reject).on("close", (code, signal) => {
      try {
        for (const [of, text] of Object.entries({ stdout, stderr })) scanText(text, `A program's ${of}`);
        resolve({ code, signal, stdout, stderr });
      } catch (error) {
        reject(error);
      }
    });
  });
  const printed = (text) => new Promise((resolve, reject) => {
    const look = () => stdout.includes(text) && resolve(stdout);
    waiting.add(look);
    look();
    exited.then(() => reject(new Error(`The program ended before it printed ${text}: ${stdout}${stderr}`)), reject);
  });
  return { child, exited, printed };
}

export const runProgram = (...args) => startProgram(...args).exited;
