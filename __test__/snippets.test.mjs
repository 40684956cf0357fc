// The code on the project's pages does what they say: each block is taken from its page as it is there, compiled strictly if it
// is TypeScript, and run against the emulator. What cannot be run says why, on its page.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { bash } from "./support/environment.mjs";
import { PAGES, ROOT, blocksOf } from "./support/markdown.mjs";
import { createProvider } from "./support/package.mjs";
import { emulatorForFile } from "./support/sandbox.mjs";

const BLOCKS = PAGES.flatMap(blocksOf);
const taken = new Set();

/** The one block of a page that is of this language and has this text, as it is. */
function block(page, language, text) {
  const found = BLOCKS.filter((each) => each.page === page && each.language === language && each.code.includes(text));
  assert.equal(found.length, 1, `${page}: ${text}`);
  taken.add(found[0]);
  return found[0].code;
}

const TYPESCRIPT = {
  usage: block("README.md", "ts", "parseConfig(config)"),
  plugin: block("README.md", "ts", "environmentCalls"),
  failure: block("README.md", "ts", "function attempt"),
  events: block("README.md", "ts", "onEvent"),
  withEmulator: block("README.md", "ts", "startEmulator"),
  commands: block("docs/migration.md", "ts", "export async function run"),
  hooks: block("docs/migration.md", "ts", "startEmulator"),
};
const JAVASCRIPT = {
  start: block("docs/emulator.md", "js", "await startEmulator()"),
  hook: `${block("docs/emulator.md", "js", "const hooks")}\nexport { hooks };`,
  deleteLeftOver: block("docs/troubleshooting.md", "js", "deleteLeftOver"),
};

// Inside the package, where its own name can be imported as everywhere else.
mkdirSync(path.join(ROOT, "target"), { recursive: true });
const directory = mkdtempSync(path.join(ROOT, "target", "snippets-"));
after(() => rmSync(directory, { recursive: true, force: true }));
const runnable = (name) => path.join(directory, "out", `${name}.mjs`);
const load = (name) => import(pathToFileURL(runnable(name)).href);

/** Runs a program to its end and gives what it printed. Not synchronously: the endpoint is in this process. */
async function output(program, args, options) {
  const child = spawn(program, args, options);
  const seen = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].setEncoding("utf8").on("data", (text) => (seen[stream] += text));
  const status = await new Promise((resolve) => child.on("close", resolve));
  return { status, ...seen };
}

describe("the pages' code", async () => {
  const host = await emulatorForFile();

  before(() => {
    const compilerOptions = {
      strict: true, target: "es2022", lib: ["es2023"], module: "nodenext", moduleResolution: "nodenext", types: ["node"],
      skipLibCheck: false, noUnusedLocals: true, rootDir: ".", outDir: "out",
    };
    writeFileSync(path.join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.mts"] }));
    for (const [name, code] of Object.entries(TYPESCRIPT)) writeFileSync(path.join(directory, `${name}.mts`), code);
    const tsc = path.join(ROOT, "node_modules", "typescript", "bin", "tsc");
    const { status, stdout } = spawnSync(process.execPath, [tsc, "--project", directory, "--pretty", "false"], { encoding: "utf8" });
    assert.equal(status, 0, stdout);
    for (const [name, code] of Object.entries(JAVASCRIPT)) writeFileSync(runnable(name), code);
  });

  test("runs a command, in ten lines", async () => {
    assert.equal(TYPESCRIPT.usage.trim().split("\n").length, 10);
    const { id } = await host.sandbox();
    const endpoint = "https://api.sb.createos.sh";
    const code = readFileSync(runnable("usage"), "utf8");
    assert.ok(code.includes(endpoint));
    writeFileSync(runnable("usage"), code.replace(endpoint, host.url));
    const env = { ...process.env, CREATEOS_API_KEY: host.key, SANDBOX_ID: id };
    const stdout = `1\n2\n3\n0 "1\\n2\\n3\\n"\n`;
    assert.deepEqual(await output(process.execPath, [runnable("usage")], { env }), { status: 0, stdout, stderr: "" });
    delete env.SANDBOX_ID;
    const without = await output(process.execPath, [runnable("usage")], { env });
    assert.equal(without.status, 1);
    assert.match(without.stderr, /Error: Set SANDBOX_ID to the ID of a sandbox that runs\./);
  });

  test("makes a plugin of a provider", async () => {
    const { environmentCalls } = await load("plugin");
    const sandbox = await host.sandbox();
    const logged = [];
    const calls = environmentCalls({ execution: { log: (...chunk) => logged.push(chunk) } });
    const { exitCode } = await calls.onEnvironmentExecute(sandbox.params(bash("echo hi >&2; exit 4")));
    assert.equal(exitCode, 4);
    assert.deepEqual(logged, [["stderr", "hi\n"]]);
    sandbox.config.reuseLease = true;
    await calls.onEnvironmentReleaseLease(sandbox.held());
    assert.equal(await sandbox.state(), "paused");
    await calls.onEnvironmentDestroyLease(sandbox.held());
    assert.equal(await sandbox.state(), "destroyed");
    await calls.onShutdown();
    await assert.rejects(calls.onEnvironmentExecute(sandbox.params()), { message: "CreateOS lease is closing or requires cleanup." });
  });

  test("tells failures apart", async (t) => {
    const { attempt } = await load("failure");
    const sandbox = await host.sandbox();
    assert.equal(await attempt(sandbox.params({ command: "false" })), "exit code 1");
    assert.equal(await attempt(sandbox.params({ ...bash("echo a; exec sleep 600"), timeoutMs: 5_000 })), "timed out");
    const keyless = await host.sandbox({ apiKey: "another" });
    assert.equal(await attempt(keyless.params()), "check the API key");
    const body = '{"type":"data","seq":1,"stream":"stdout","data_base64":"aGk="}\n{"type":"error"}\n';
    host.interfere(t, ({ route }) => (route === "connect" ? { body, status: 200 } : undefined));
    assert.equal(await attempt(sandbox.params()), "CreateOS process stream reported an error. It had printed: hi");
    host.interfere(t, ({ route }) => (route === "create" ? { lost: true } : undefined));
    assert.equal(await attempt(sandbox.params()), "destroy the lease: something may still run there");
  });

  test("tells what happens", async (t) => {
    const { watched } = await load("events");
    const sandbox = await host.sandbox();
    const counted = [];
    const warned = [];
    const provider = watched((name) => counted.push(name), (message, { leaseId, processId }) => warned.push([message, leaseId, processId]));
    host.interfere(t, ({ route, attempt }) => (route === "connect" ? { cutAfter: attempt % 2 ? 10 : 1e6 } : undefined));
    for (let run = 0; run < 2; run++) await provider.execute(sandbox.params());
    assert.ok(counted.includes("createos:reconnecting"), `${counted}`);
    host.interfere(t, ({ route }) => (route === "create" ? { lost: true } : undefined));
    await assert.rejects(provider.execute(sandbox.params()));
    assert.deepEqual(warned, [["Destroy this lease.", sandbox.id, null]]);
  });

  test("gets all of a connection that is cut", () => load("withEmulator"));

  test("runs commands for a plugin that does the rest by itself", async (t) => {
    const { run } = await load("commands");
    // Of its own: the first client of a URL fixes its pacing.
    const other = await emulatorForFile();
    const sandbox = await other.sandbox();
    const logged = [];
    let unconfirmed = 0;
    const call = (params, signal = AbortSignal.timeout(60_000)) =>
      run(sandbox.params(params), signal, (...chunk) => logged.push(chunk), () => unconfirmed++);
    assert.equal((await call(bash("echo hi; exit 4"))).exitCode, 4);
    assert.deepEqual(logged, [["stdout", "hi\n"]]);
    await assert.rejects(call({}, AbortSignal.abort()), { message: "CreateOS command was cancelled." });
    assert.equal(unconfirmed, 0);
    other.interfere(t, ({ route }) => (route === "create" ? { status: 502 } : undefined));
    await assert.rejects(call({}), { name: "CreateosCleanupError" });
    assert.equal(unconfirmed, 1);
  });

  test("tests a provider by the emulator's hooks", () => load("hooks"));

  test("deletes a sandbox of which only an error's message knows", async (t) => {
    const { deleteLeftOver } = await load("deleteLeftOver");
    const provider = createProvider();
    const params = { ...(await host.sandbox()).scope, runId: "run" };
    host.interfere(t, ({ route }) => (["exec", "destroySandbox"].includes(route) ? { status: 500 } : undefined));
    const error = await provider.acquireLease(params).catch((error) => error);
    host.interfere(t, () => undefined);
    const { providerLeaseId, state } = await deleteLeftOver(provider, params, error);
    assert.equal(state, "destroyed");
    assert.equal((await host.call("GET", `/sandboxes/${providerLeaseId}`)).status, "destroyed");
  });

  test("starts an emulator and hands it hooks", async () => {
    await load("start");
    const { hooks } = await load("hook");
    assert.deepEqual([1, 2].map((attempt) => hooks.request({ route: "create", attempt })), [{ lost: true }, undefined]);
  });
});

test("the emulator is started from the command line", async (t) => {
  // As npm installs it; and at a port that nobody else has.
  mkdirSync(path.join(directory, "node_modules", ".bin"), { recursive: true });
  symlinkSync(path.join(ROOT, "emulator", "cli.mjs"), path.join(directory, "node_modules", ".bin", "createos-emulator"));
  writeFileSync(path.join(directory, "package.json"), "{}");
  const line = block("README.md", "sh", "npx createos-emulator");
  assert.ok(line.includes("--port 3109"));
  const child = spawn("bash", ["-c", line.replace("3109", "0")], { cwd: directory, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => process.kill(-child.pid, "SIGKILL"));
  let printed = "";
  await new Promise((resolve, reject) => {
    child.stdout.setEncoding("utf8").on("data", (text) => (printed += text).includes("\n") && resolve());
    child.on("close", () => reject(new Error(`It ended: ${printed}`)));
  });
  const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed);
  assert.equal((await fetch(`${url}/v1/sandboxes`, { headers: { "x-api-key": "secret" } })).status, 200);
});

test("vectors are recorded by the command that says so", async () => {
  const line = block("CONTRIBUTING.md", "sh", "--record");
  const [recorded] = /__test__\S*FILE\.json/.exec(line);
  const vectors = path.join(ROOT, "__test__", "conformance", "vectors", "utf8.json");
  const copy = path.join(directory, "vectors.json");
  cpSync(vectors, copy);
  const { status, stderr } = await output("bash", ["-c", line.replace(recorded, copy)], { cwd: ROOT });
  assert.deepEqual({ status, stderr }, { status: 0, stderr: "" });
  assert.equal(readFileSync(copy, "utf8"), readFileSync(vectors, "utf8"));
});

test("what is data on a page can be read as such", () => {
  for (const { page, line, code } of BLOCKS.filter(({ language }) => language === "json")) {
    for (const text of code.trim().split("\n")) assert.doesNotThrow(() => JSON.parse(text), `${page}:${line}`);
  }
});

test("every block of code was run, or says on its page why it was not, and few do", () => {
  const code = BLOCKS.filter(({ language }) => !["json", "mermaid", "text"].includes(language));
  const left = code.filter((each) => !taken.has(each));
  assert.deepEqual(left.filter(({ excuse }) => excuse === undefined).map(({ page, line }) => `${page}:${line}`), []);
  assert.deepEqual(left.filter(({ language }) => language !== "sh").map(({ page, line }) => `${page}:${line}`), [], "only commands can be excused");
  assert.ok(left.length * 3 <= code.length, `${left.length} of ${code.length} blocks are not run`);
});
