// Nothing is left of an emulator, however it ends: no process, no file, no mount.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { canIsolate, Client, CLI, isAlive, pidsWith, startFor, startProgram, uniqueSleep, until } from "./support/emulator.mjs";

const LEFT_BEHIND = (mark) => `
  sleep ${mark} & (setsid sleep ${mark} &); (setsid env -i bash -c 'trap "" TERM HUP; sleep ${mark}; sleep ${mark}' &)
  setsid bash -c '(sleep ${mark} &)' ; trap '' TERM HUP INT; echo ready; sleep ${mark}`;

/** Starts processes that do all they can to stay; resolves to their numbers on the host. */
async function leaveBehind(client, mark) {
  const sandbox = await client.sandbox();
  const process = await sandbox.start(LEFT_BEHIND(mark));
  await (await process.connect()).next();
  await until(() => pidsWith(`sleep\0${mark}`).length >= 5);
  return pidsWith(mark);
}

/** A directory for temporary files that only this test's emulators use. */
function temporary(t) {
  const directory = mkdtempSync(path.join(tmpdir(), "emulator-test-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return { directory, options: { env: { ...process.env, TMPDIR: directory } } };
}

/** Programs started by the emulator's own process: what holds sandboxes and waits for commands. */
const helpers = (directory) => pidsWith(directory);

test("close ends all processes and responses and removes all files", async (t) => {
  const client = await startFor(t);
  const mark = uniqueSleep();
  const pids = await leaveBehind(client, mark);
  const waiting = client.call("GET", "/sandboxes").then(({ data }) => data.data[0].id)
    .then(async (id) => client.call("GET", `/sandboxes/${id}/processes`).then(({ data }) => [id, data.processes[0].process_id]))
    .then(([id, process]) => client.request("GET", `/sandboxes/${id}/processes/${process}/connect?after=1`));
  const response = await waiting;
  response.resume();
  const ended = once(response, "close");
  await client.emulator.close();
  assert.deepEqual(pids.filter(isAlive), []);
  await ended;
  await client.emulator.close();
  await assert.rejects(client.call("GET", "/sandboxes"));
  assert.deepEqual(readdirSync(tmpdir()).filter((name) => name.startsWith(`createos-emulator-${process.pid}-`)), []);
});

for (const signal of ["SIGTERM", "SIGINT"]) {
  test(`${signal} ends the program with code 0 and leaves nothing behind`, async (t) => {
    const { directory, options } = temporary(t);
    const program = await startProgram(t, ["--key", "secret"], options);
    const pids = await leaveBehind(new Client({ url: program.url, key: "secret" }), uniqueSleep());
    program.child.kill(signal);
    assert.deepEqual(await program.exited, { code: 0, signal: null });
    assert.deepEqual(pids.filter(isAlive), []);
    assert.deepEqual(helpers(directory), []);
    assert.deepEqual(readdirSync(directory), []);
    assert.equal(program.stderr(), "");
  });
}

test("kill -9 of the emulator ends every process, and its files go at the next start", async (t) => {
  if (!(await canIsolate("namespaces"))) return t.skip("namespaces do not work on this host");
  const { directory, options } = temporary(t);
  const program = await startProgram(t, [], options);
  const pids = await leaveBehind(new Client(program), uniqueSleep());
  assert.ok(helpers(directory).length > 0);
  program.child.kill("SIGKILL");
  await program.exited;
  await until(() => !pids.some(isAlive), "processes were left");
  await until(() => helpers(directory).length === 0, "helpers were left");
  assert.doesNotMatch(readFileSync("/proc/self/mounts", "utf8"), new RegExp(directory));
  const abandoned = readdirSync(directory);
  assert.equal(abandoned.length, 1);

  const alive = await startProgram(t, [], options);
  const next = await startProgram(t, [], options);
  assert.equal(existsSync(path.join(directory, abandoned[0])), false);
  assert.equal(readdirSync(directory).length, 2, "the directory of a living emulator stays");
  for (const { child, exited } of [alive, next]) {
    child.kill("SIGTERM");
    await exited;
  }
  assert.deepEqual(readdirSync(directory), []);
});

test("kill -9 right after the start of a sandbox or a command leaves nothing", async (t) => {
  if (!(await canIsolate("namespaces"))) return t.skip("namespaces do not work on this host");
  const { directory, options } = temporary(t);
  for (const wait of [0, 5, 20, 60]) {
    const program = await startProgram(t, [], options);
    const client = new Client(program);
    const mark = uniqueSleep();
    client.call("POST", "/sandboxes", { shape: "s" }).then(({ data }) =>
      client.call("POST", `/sandboxes/${data.id}/processes`, { cmd: "sleep", args: [mark] })).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, wait));
    program.child.kill("SIGKILL");
    await program.exited;
    await until(() => helpers(directory).length === 0 && pidsWith(mark).length === 0, "something was left");
  }
});

test("a program that ends without closing its emulator leaves nothing behind", async (t) => {
  const { directory, options } = temporary(t);
  const mark = uniqueSleep();
  const script = `
    const { startEmulator } = await import(${JSON.stringify(path.join(path.dirname(CLI), "index.mjs"))});
    const { Client } = await import(${JSON.stringify(new URL("support/emulator.mjs", import.meta.url))});
    const client = new Client(await startEmulator());
    const sandbox = await client.sandbox();
    const process_ = await sandbox.start("(setsid sleep ${mark} &); echo ready; sleep ${mark}");
    await (await process_.connect()).next();
    process.exit(3);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "inherit", ...options });
  const [code] = await once(child, "exit");
  assert.equal(code, 3);
  await until(() => pidsWith(mark).length === 0 && helpers(directory).length === 0, "processes were left");
  assert.deepEqual(readdirSync(directory), []);
});

test("files that a command made inaccessible are removed, too", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  await sandbox.bash("mkdir -p /tmp/a/b; touch /tmp/a/b/c; chmod 000 /tmp/a/b /tmp/a");
  assert.equal((await sandbox.call("DELETE")).status, 200);
});

test("the program prints one line, and its key only if it made it up", async (t) => {
  const random = await startProgram(t);
  assert.match(random.stdout(), /^createos-emulator listening on http:\/\/127\.0\.0\.1:\d+ with API key \S{32}\n$/);
  assert.equal((await new Client(random).call("GET", "/sandboxes")).status, 200);
  const told = await startProgram(t, ["--port", "0", "--key", "told"]);
  assert.match(told.stdout(), /^createos-emulator listening on http:\/\/127\.0\.0\.1:\d+\n$/);
  assert.equal((await new Client({ url: told.url, key: "told" }).call("GET", "/sandboxes")).status, 200);
});

test("the program refuses arguments that it does not know, and a port that is taken", async (t) => {
  const run = async (...args) => {
    const child = spawn(process.execPath, [CLI, ...args], { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (text) => (stderr += text));
    const [code] = await once(child, "close");
    return { code, stderr };
  };
  for (const args of [["--port", "x"], ["--port", "70000"], ["--key", ""], ["--other"], ["stray"]]) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 2, args.join(" "));
    assert.match(stderr, /Usage: createos-emulator/);
  }
  const program = await startProgram(t);
  const { code, stderr } = await run("--port", new URL(program.url).port);
  assert.equal(code, 1);
  assert.match(stderr, /could not start: .*EADDRINUSE/);
});
