// The demo: what its tour claims, that it notices when something is wrong, and its other ways to be called.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { cleanEnvironment, npmCommand } from "../scripts/npm.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** The demo without its installing and building; the first word is a list of hooks. */
const MAIN = `
  import { main } from "./scripts/demo/main.mjs";
  const [hook, ...words] = process.argv.slice(1);
  process.exitCode = await main(words, hook ? { request: eval(hook) } : undefined);`;

/** Environment of a demo that is not to know whatever endpoint the developer has set. */
function environment(extra = {}) {
  const { CREATEOS_API_URL, CREATEOS_API_KEY, CREATEOS_SHAPE, ...rest } = cleanEnvironment();
  return { ...rest, ...extra };
}

function start(program, args, env = {}) {
  const child = spawn(program, args, { cwd: ROOT, env: environment(env), stdio: ["ignore", "pipe", "pipe"] });
  const seen = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].setEncoding("utf8").on("data", (text) => (seen[stream] += text));
  const ended = once(child, "close").then(([status, signal]) => ({ status, signal, ...seen }));
  return { child, seen, ended };
}

/** Waits until a program has printed something, and says what it said instead if it ends before. */
async function printed({ child, seen, ended }, text) {
  const over = ended.then((outcome) => {
    throw new Error(`it ended without printing ${JSON.stringify(text)}: ${JSON.stringify(outcome)}`);
  });
  while (!seen.stdout.includes(text)) await Promise.race([once(child.stdout, "data"), over]);
  over.catch(() => {});
}

/** Runs the demo to its end. */
function demo(words, { hook = "", env } = {}) {
  return start(process.execPath, ["--input-type=module", "-e", MAIN, "--", hook, ...words], env).ended;
}

/** The lines of the summary, and its last one. */
function summaryOf({ stdout }) {
  const lines = stdout.slice(stdout.indexOf("\nSummary\n")).trim().split("\n").slice(1).map((line) => line.trim());
  return { checks: lines.slice(0, -2), total: lines.at(-1) };
}

test("the tour passes all of its checks and its summary repeats each of them", async () => {
  const outcome = await demo([]);
  const { checks, total } = summaryOf(outcome);
  assert.equal(total, "19 passed, 0 failed", outcome.stdout);
  assert.equal(checks.length, 19);
  for (const check of checks) {
    assert.match(check, /^✓ /);
    assert.equal(outcome.stdout.split(`${check}\n`).length - 1, 2, `${check} is told where it was made and in the summary`);
  }
  assert.match(outcome.stdout, /s {2}stdout {2}What is the answer\?/);
  assert.match(outcome.stdout, /s {2}stderr {2}There is also a second stream\./);
  assert.equal(outcome.status, 0);
  assert.equal(outcome.stderr, "");
});

for (const { title, hook, failed } of [
  {
    title: "a frame that holds another number than the command printed",
    hook: `({route}) => route === "connect" ? {transform: (line) => line.toString().replace("MQoyCjMK", "MQo5CjMK")} : undefined`,
    failed: /^✗ all 100000 lines came live, in order, none lost and none twice \(found: 100000 lines, 1 missing\)$/,
  },
  {
    title: "a frame that cannot be read",
    hook: `({route}) => route === "connect" ? {transform: (line) => line.toString().replace("MQoyCjMK", "MQoy!jMK")} : undefined`,
    failed: /^✗ A connection that is cut, twice: the scene was played to its end \(found: CreateOS process output is invalid\.\)$/,
  },
]) {
  test(`the tour fails by ${title}`, async () => {
    const outcome = await demo([], { hook });
    assert.equal(outcome.status, 1, outcome.stdout);
    const { checks, total } = summaryOf(outcome);
    assert.match(checks.find((check) => check.startsWith("✗")) ?? "", failed);
    const count = (mark) => checks.filter((check) => check.startsWith(mark)).length;
    assert.equal(total, `${count("✓")} passed, ${count("✗")} failed`);
  });
}

test("a termination that the endpoint refuses fails the tour, which still ends", async () => {
  const outcome = await demo([], { hook: `({route}) => route === "terminate" ? {status: 403} : undefined` });
  assert.equal(outcome.status, 1);
  assert.ok(summaryOf(outcome).checks.includes(
    "✗ A timeout: the scene was played to its end (found: CreateOS command cleanup failed; process termination is unconfirmed.)"));
});

test("one command runs with its words as they are, its streams apart and its exit code passed on", async () => {
  const words = ["a  b", "it's", "$HOME `x`", "", "-n", "\\", "ü\n"];
  const outcome = await demo(["bash", "-c", `printf '<%s>' "$@"; echo oops >&2; exit 3`, "bash", ...words]);
  assert.deepEqual(outcome, { status: 3, signal: null, stdout: words.map((word) => `<${word}>`).join(""), stderr: "oops\n" });
});

test("a command that a signal ends gives the status that shells give", async () => {
  assert.equal((await demo(["bash", "-c", "kill -KILL $$"])).status, 137);
});

test("npm run demo -- CMD ARGS… keeps what a shell would split", async () => {
  const [npm, ...first] = npmCommand();
  const outcome = await start(npm, [...first, "run", "--silent", "demo", "--", "printf", "<%s>", "a  b", "it's", "$HOME"]).ended;
  assert.equal(outcome.stdout, "<a  b><it's><$HOME>", outcome.stderr);
  assert.equal(outcome.status, 0);
});

test("an interrupted command is ended in the sandbox, too", async () => {
  const running = start(process.execPath, ["--input-type=module", "-e", MAIN, "--", "", "bash", "-c", "echo started; exec sleep 600"]);
  await printed(running, "started\n");
  running.child.kill("SIGINT");
  assert.deepEqual(await running.ended, { status: 130, signal: null, stdout: "started\n", stderr: "" });
});

test("with an endpoint named the tour uses that one, says what it skips and deletes its sandbox", async (t) => {
  const emulator = start(process.execPath, ["emulator/cli.mjs", "--key", "k"]);
  t.after(() => emulator.child.kill());
  await printed(emulator, "\n");
  const [url] = /http:\S+/.exec(emulator.seen.stdout) ?? [];
  const env = { CREATEOS_API_URL: `${url}/v1`, CREATEOS_API_KEY: "k", CREATEOS_SHAPE: "s-1vcpu-1gb" };
  const outcome = await demo([], { env });
  assert.equal(outcome.status, 0, `${outcome.stdout}${outcome.stderr}${emulator.seen.stderr}`);
  assert.match(outcome.stdout, /a sandbox of the endpoint that CREATEOS_API_URL names/);
  const { checks, total } = summaryOf(outcome);
  assert.equal(total, "14 passed, 0 failed, 1 skipped");
  assert.ok(checks.includes("– skipped: cutting a connection takes a hook of the emulator"));
  const sandboxes = await (await fetch(`${url}/v1/sandboxes`, { headers: { "x-api-key": "k" } })).json();
  assert.deepEqual(sandboxes.data.data.filter(({ status }) => status !== "destroyed"), []);

  assert.deepEqual(await demo(["echo", "hi"], { env }), { status: 0, signal: null, stdout: "hi\n", stderr: "" });
});

test("an endpoint without key or shape is refused in one sentence", async () => {
  const outcome = await demo([], { env: { CREATEOS_API_URL: "https://createos.example.test", CREATEOS_API_KEY: "" } });
  assert.equal(outcome.status, 1);
  assert.equal(outcome.stderr, "CREATEOS_API_URL is set, but CREATEOS_API_KEY and CREATEOS_SHAPE are not.\n");
});
