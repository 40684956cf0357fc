// What users read, held to what there is: the README's code compiles strictly and does what it says, its tables of errors
// name each message once, and links lead somewhere.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { bash } from "./support/environment.mjs";
import { emulatorForFile } from "./support/sandbox.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const read = (file) => readFileSync(path.join(ROOT, file), "utf8");
const README = read("README.md");
const PAGES = [...readdirSync(ROOT), ...readdirSync(path.join(ROOT, "docs")).map((file) => `docs/${file}`)].filter((file) => file.endsWith(".md"));

/** The fenced blocks of a language. */
function blocksOf(markdown, language) {
  return [...markdown.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(([, name]) => name === language).map(([, , code]) => code);
}

/** Inside the package, where its own name can be imported as everywhere else. */
function scratchDirectory() {
  mkdirSync(path.join(ROOT, "target"), { recursive: true });
  const directory = mkdtempSync(path.join(ROOT, "target", "readme-"));
  after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

describe("the README's code", async () => {
  const host = await emulatorForFile();
  const [usage, plugin, failure, withEmulator, ...more] = blocksOf(README, "ts");
  const sources = { usage, plugin, failure, withEmulator };
  const directory = scratchDirectory();
  const compiled = (name) => path.join(directory, "out", `${name}.mjs`);
  const load = (name) => import(pathToFileURL(compiled(name)).href);

  before(() => {
    assert.deepEqual(more, [], "a block that no test runs");
    const compilerOptions = {
      strict: true, target: "es2022", lib: ["es2023"], module: "nodenext", moduleResolution: "nodenext", types: ["node"],
      skipLibCheck: false, noUnusedLocals: true, rootDir: ".", outDir: "out",
    };
    writeFileSync(path.join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.mts"] }));
    for (const [name, code] of Object.entries(sources)) writeFileSync(path.join(directory, `${name}.mts`), code);
    const tsc = path.join(ROOT, "node_modules", "typescript", "bin", "tsc");
    const { status, stdout } = spawnSync(process.execPath, [tsc, "--project", directory, "--pretty", "false"], { encoding: "utf8" });
    assert.equal(status, 0, stdout);
  });

  test("runs a command, in ten lines", async () => {
    assert.equal(usage.trim().split("\n").length, 10);
    const { id } = await host.sandbox();
    const endpoint = "https://api.sb.createos.sh";
    const code = readFileSync(compiled("usage"), "utf8");
    assert.ok(code.includes(endpoint));
    writeFileSync(compiled("usage"), code.replace(endpoint, host.url));
    // Not synchronously: the endpoint is in this process.
    const child = spawn(process.execPath, [compiled("usage")], { env: { ...process.env, CREATEOS_API_KEY: host.key, SANDBOX_ID: id } });
    const seen = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"]) child[stream].setEncoding("utf8").on("data", (text) => (seen[stream] += text));
    const status = await new Promise((resolve) => child.on("close", resolve));
    assert.deepEqual({ status, ...seen }, { status: 0, stdout: `1\n2\n3\n0 "1\\n2\\n3\\n"\n`, stderr: "" });
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
    host.interfere(t, ({ route }) => (route === "connect" ? { body: '{"type":"data","seq":1,"stream":"stdout","data_base64":"aGk="}\n{"type":"error"}\n', status: 200 } : undefined));
    assert.equal(await attempt(sandbox.params()), "CreateOS process stream reported an error. It had printed: hi");
    host.interfere(t, ({ route }) => (route === "create" ? { lost: true } : undefined));
    assert.equal(await attempt(sandbox.params()), "destroy the lease: something may still run there");
  });

  test("runs against an emulator, and gets all of a connection that is cut", () => load("withEmulator"));
});

test("the emulator's page has code that runs", async () => {
  const directory = scratchDirectory();
  const [start, hook] = blocksOf(read("docs/emulator.md"), "js");
  writeFileSync(path.join(directory, "start.mjs"), start);
  writeFileSync(path.join(directory, "hook.mjs"), `${hook}\nexport { hooks };`);
  await import(pathToFileURL(path.join(directory, "start.mjs")).href);
  const { hooks } = await import(pathToFileURL(path.join(directory, "hook.mjs")).href);
  assert.deepEqual([1, 2].map((attempt) => hooks.request({ route: "create", attempt })), [{ lost: true }, undefined]);
});

test("each message of the code is in the README's tables once, and there is no other", () => {
  const source = read("src/error.rs");
  const faults = source.slice(source.indexOf("pub enum Fault {"), source.indexOf("impl Fault {"));
  const messages = [...faults.matchAll(/#\[error\(\s*"([^"]*)"\s*\)\]/g)].map(([, message]) => message.replaceAll(/\\\n\s*/g, "").replaceAll(/\{\w+\}/g, "…"));
  const errors = README.slice(README.indexOf("\n## Errors\n"), README.indexOf("\n## What is guaranteed\n"));
  const rows = [...errors.matchAll(/^\| `(.*?)` \| (.+) \|$/gm)];
  const documented = rows.map(([, message]) => message.replaceAll(/\b(NAME|STATUS|OPERATION|STATE|SANDBOX|REASON|N)\b/g, "…"));
  assert.ok(messages.length > 40);
  assert.deepEqual(documented.toSorted(), messages.toSorted());
  for (const [, message, remedy] of rows) assert.ok(remedy.length > 8, message);
});

test("what the README says of operations, options and failures is what the code says", async () => {
  const source = read("src/error.rs");
  const words = (from, to) => [...source.slice(source.indexOf(from), source.indexOf(to)).matchAll(/=> "(.*)",/g)].map(([, word]) => word);
  const operations = words("impl Operation {", "impl fmt::Display for Operation");
  const failures = words("impl Failure {", "How one request ended");
  assert.equal(operations.length + failures.length, 13);
  for (const word of [...operations, ...failures]) assert.ok(README.includes(`\`${word}\``), word);

  const { createProvider } = await import("../index.js");
  const rows = [...README.matchAll(/^\| `(\w+)(?:\.(\w+))?` \| ([\d,]+) \| ([\d,]+) to ([\d,]+) \|/gm)];
  assert.equal(rows.length, 6);
  for (const [, name, member, ...numbers] of rows) {
    const [, least, most] = numbers.map((number) => Number(number.replaceAll(",", "")));
    const given = (value) => ({ [name]: member ? { [member]: value } : value });
    createProvider(given(least));
    createProvider(given(most));
    const message = `${[name, member].filter(Boolean).join(".")} must be an integer from ${least} to ${most}`;
    for (const value of [least - 1, most + 1, 1.5, "1"]) assert.throws(() => createProvider(given(value)), { name: "RangeError", message });
  }
});

test("the test command is in the README, and each npm command that a page names exists", () => {
  const { scripts } = JSON.parse(read("package.json"));
  assert.match(README, /The test command is `npm test`\./);
  for (const page of PAGES) {
    for (const [, name] of read(page).matchAll(/\bnpm (?:run ([\w:]+))/g)) assert.ok(name in scripts, `${page}: npm run ${name}`);
  }
});

/** The anchors of a page, as they are made of its headings. */
function anchorsOf(file) {
  const headings = [...read(file).replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ (.*)$/gm)];
  return headings.map(([, text]) => text.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-"));
}

for (const page of PAGES) {
  test(`the links of ${page} lead somewhere`, () => {
    for (const [, target] of read(page).matchAll(/\]\(([^)]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [file, anchor] = target.split("#");
      const found = file === "" ? page : path.relative(ROOT, path.join(ROOT, path.dirname(page), file));
      assert.ok(existsSync(path.join(ROOT, found)), target);
      if (anchor !== undefined) assert.ok(anchorsOf(found).includes(anchor), target);
    }
  });
}
