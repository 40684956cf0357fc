// Wiring for the tests of the emulator: starts one for a test and ends it with the test, speaks its HTTP in a few words,
// and looks at processes by their number. What is right or wrong is the tests' business.
import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import http from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startEmulator } from "../../emulator/index.mjs";

const CLI = fileURLToPath(new URL("../../emulator/cli.mjs", import.meta.url));

/** Starts an emulator that lives as long as the test. */
async function startFor(t, options) {
  const emulator = await startEmulator(options);
  t.after(() => emulator.close());
  return new Client(emulator);
}

class Client {
  constructor({ url, key, ...rest }) {
    this.url = url;
    this.key = key;
    this.emulator = { url, key, ...rest };
  }

  /** A call whose body and answer are JSON. */
  async call(method, route, body, { headers = {}, raw } = {}) {
    const response = await this.request(method, route, {
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)), headers,
    });
    const bytes = await read(response);
    let envelope = null;
    try {
      envelope = JSON.parse(bytes.toString());
    } catch {
      // Not every answer is JSON.
    }
    return { status: response.statusCode, headers: response.headers, bytes, envelope, data: envelope?.data };
  }

  /** A call on a connection of its own; resolves to the response as a stream. */
  request(method, route, { body, headers = {} } = {}) {
    return new Promise((resolve, reject) => {
      const request = http.request(`${this.url}/v1${route}`, {
        method, agent: false, headers: { "x-api-key": this.key, "content-type": "application/json", ...headers },
      }, resolve);
      request.on("error", reject);
      request.end(body);
    });
  }

  /** A new sandbox, running. */
  async sandbox(body = {}) {
    const { data } = await this.call("POST", "/sandboxes", { shape: "s-1vcpu-1gb", ingress_enabled: false, ...body });
    const sandbox = new SandboxClient(this, data.id);
    await sandbox.reaches("running");
    return sandbox;
  }
}

class SandboxClient {
  constructor(client, id) {
    this.client = client;
    this.id = id;
  }

  call(method, route = "", body, options) {
    return this.client.call(method, `/sandboxes/${this.id}${route}`, body, options);
  }

  reaches(status) {
    return until(async () => (await this.call("GET")).data.status === status);
  }

  /** Runs a script by Bash, in one call. */
  async bash(script, more = {}) {
    const { data } = await this.call("POST", "/exec", { cmd: "/bin/bash", args: ["-c", script], ...more });
    return data.result;
  }

  /** Starts a script by Bash as a managed process. */
  async start(script, more = {}) {
    const { status, data } = await this.call("POST", "/processes", { cmd: "/bin/bash", args: ["-c", script], ...more });
    if (status !== 200) throw new Error(`The process was not created: ${status}`);
    return new ProcessClient(this, data.process_id);
  }
}

class ProcessClient {
  constructor(sandbox, id) {
    this.sandbox = sandbox;
    this.id = id;
  }

  call(method, route = "", body) {
    return this.sandbox.call(method, `/processes/${this.id}${route}`, body);
  }

  input(text) {
    return this.call("POST", "/input", { data_base64: Buffer.from(text).toString("base64") });
  }

  async exited() {
    return (await this.call("GET", "/wait?scope=leader&timeout_ms=60000")).data;
  }

  /** Opens the output stream. */
  async connect(after = 0) {
    const response = await this.sandbox.client.request("GET", `/sandboxes/${this.sandbox.id}/processes/${this.id}/connect?after=${after}`);
    return new Output(response);
  }

  /** All of the output, by stream, once the process has exited. */
  async output(after = 0) {
    const frames = await (await this.connect(after)).all();
    return { frames, ...texts(frames) };
  }
}

/** An output stream, frame by frame. */
class Output {
  #rest = "";
  #lines = [];
  #chunks;

  constructor(response) {
    this.response = response;
    this.status = response.statusCode;
    this.#chunks = response[Symbol.asyncIterator]();
  }

  /** The next frame; null at the end. */
  async next() {
    while (this.#lines.length === 0) {
      const { value, done } = await this.#chunks.next();
      if (done) return null;
      this.#rest += value.toString("latin1");
      const lines = this.#rest.split("\n");
      this.#rest = lines.pop();
      this.#lines.push(...lines);
    }
    return JSON.parse(this.#lines.shift());
  }

  async all() {
    const frames = [];
    for (let frame; (frame = await this.next());) frames.push(frame);
    return frames;
  }

  close() {
    this.response.destroy();
  }
}

function texts(frames) {
  const of = (stream) => Buffer.concat(frames.filter((frame) => frame.stream === stream)
    .map((frame) => Buffer.from(frame.data_base64, "base64"))).toString();
  return { stdout: of("stdout"), stderr: of("stderr"), last: frames.at(-1) };
}

async function read(response) {
  const chunks = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Asks again and again until the answer is yes; for things that report themselves in no other way. */
async function until(question, what = "it did not happen") {
  for (const end = Date.now() + 60_000; Date.now() < end;) {
    if (await question()) return;
    await delay(20);
  }
  throw new Error(`After a minute ${what}.`);
}

/** Whether a process lives; one that only waits to be reaped does not. */
function isAlive(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2)[0] !== "Z";
  } catch {
    return false;
  }
}

/** The host's living processes that have `marker` among their arguments. */
function pidsWith(marker) {
  return readdirSync("/proc").map(Number).filter((pid) => Number.isInteger(pid) && isAlive(pid)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(marker);
    } catch {
      return false;
    }
  });
}

let markers = 0;
/** A duration for `sleep` that no other process has: it tells a test's own processes from all others. */
const uniqueSleep = () => `9${process.pid}.${Date.now() % 100_000}${String(markers++).padStart(3, "0")}`;

/** Starts `createos-emulator` as a program of its own; resolves once it is ready. */
async function startProgram(t, args = [], options = {}) {
  const child = spawn(process.execPath, [CLI, ...args], { stdio: ["ignore", "pipe", "pipe"], ...options });
  t.after(() => child.kill("SIGKILL"));
  const exited = new Promise((resolve) => child.on("exit", (code, signal) => resolve({ code, signal })));
  let stdout = "", stderr = "";
  child.stderr.on("data", (text) => (stderr += text));
  await new Promise((resolve, reject) => {
    child.stdout.on("data", (text) => (stdout += text).includes("\n") && resolve());
    exited.then(() => reject(new Error(`createos-emulator ended: ${stderr}`)));
  });
  const [, url, key] = /^createos-emulator listening on (http:\S+)(?: with API key (\S+))?\n$/.exec(stdout) ?? [];
  return { child, exited, url, key, stdout: () => stdout, stderr: () => stderr };
}

/** Whether this host can isolate sandboxes in this way. */
async function canIsolate(kind) {
  const { chooseIsolation } = await import("../../emulator/isolation/index.mjs");
  return chooseIsolation(kind).then(() => true, () => false);
}

export {
  startFor, startProgram, canIsolate, Client, SandboxClient, ProcessClient, read, texts, until, isAlive, pidsWith, uniqueSleep,
  CLI,
};
