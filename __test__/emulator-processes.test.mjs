// The emulator's managed processes: start, input, signals, waiting, the end of leader and tree.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isAlive, pidsWith, ProcessClient, startFor, texts, uniqueSleep, until } from "./support/emulator.mjs";

test("a process is created, listed, and shown with its state", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("read line; echo $line; exit 5");
  const running = (await sandbox.call("GET", "/processes")).data.processes;
  assert.equal(running.length, 1);
  assert.match(running[0].process_id, /^[A-Za-z0-9_-]{1,200}$/);
  const { state, leader_exited, tree_exited, exit_code, signal, output } = running[0];
  assert.deepEqual({ state, leader_exited, tree_exited, exit_code, signal, output }, {
    state: "running", leader_exited: false, tree_exited: false, exit_code: null, signal: null,
    output: { oldest_seq: 0, newest_seq: 0, bytes: 0 },
  });
  await process.input("hello\n");
  const ended = await process.exited();
  assert.deepEqual([ended.state, ended.leader_exited, ended.tree_exited, ended.exit_code, ended.signal], ["exited", true, true, 5, null]);
  assert.deepEqual(ended.output, { oldest_seq: 1, newest_seq: 1, bytes: 6 });
  assert.equal((await process.call("GET")).data.exit_code, 5);
});

for (const [script, exit] of [
  ["exit 0", { exit_code: 0 }],
  ["exit 1", { exit_code: 1 }],
  ["exit 125", { exit_code: 125 }],
  ["exit 137", { exit_code: 137 }],
  ["exit 255", { exit_code: 255 }],
  ["kill -KILL $$", { signal: "SIGKILL" }],
  ["kill -TERM $$", { signal: "SIGTERM" }],
  ["kill -INT $$", { signal: "SIGINT" }],
  ["kill -HUP $$", { signal: "SIGHUP" }],
  ["kill -USR1 $$", { signal: "SIGUSR1" }],
  ["ulimit -c 0; kill -SEGV $$", { signal: "SIGSEGV" }],
  ["kill -KILL 0", { signal: "SIGKILL" }],
]) {
  test(`the end of \`${script}\` is reported as ${JSON.stringify(exit)}`, async (t) => {
    const sandbox = await (await startFor(t)).sandbox();
    const process = await sandbox.start(script);
    assert.deepEqual((await process.output()).last, { type: "exit", ...exit });
    const view = await process.exited();
    assert.deepEqual([view.exit_code, view.signal], [exit.exit_code ?? null, exit.signal ?? null]);
  });
}

test("a process that is stopped and continued by itself still reports its end", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("(sleep 0.1; kill -CONT $$) & kill -STOP $$; echo back; exit 6");
  const { stdout, last } = await process.output();
  assert.deepEqual([stdout, last], ["back\n", { type: "exit", exit_code: 6 }]);
});

test("a program that does not exist ends with 127 and says so", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const { data } = await sandbox.call("POST", "/processes", { cmd: "no-such-program" });
  const { stderr, last } = await new ProcessClient(sandbox, data.process_id).output();
  assert.match(stderr, /no-such-program.*not found/);
  assert.equal(last.exit_code, 127);
});

test("cwd is where a process runs, the workspace unless said otherwise; one that does not exist is refused", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  assert.equal((await (await sandbox.start("pwd", { cwd: "/usr" })).output()).stdout, "/usr\n");
  assert.equal((await (await sandbox.start("pwd")).output()).stdout, "/paperclip-workspace\n");
  assert.equal((await sandbox.call("POST", "/processes", { cmd: "pwd", cwd: "/missing" })).status, 400);
});

test("env overrides what was declared at the sandbox's creation, and nothing else", async (t) => {
  const sandbox = await (await startFor(t)).sandbox({ envs: { DECLARED: "before", KEPT: "kept" } });
  assert.equal((await (await sandbox.start("echo $DECLARED $KEPT")).output()).stdout, "before kept\n");
  assert.equal((await (await sandbox.start("echo $DECLARED $KEPT", { env: { DECLARED: "after" } })).output()).stdout, "after kept\n");
  for (const env of [{ OTHER: "1" }, { DECLARED: "1", PATH: "/" }, { toString: "1" }]) {
    assert.equal((await sandbox.call("POST", "/processes", { cmd: "true", env })).status, 400, JSON.stringify(env));
  }
});

test("the emulator's own environment is not passed on to commands", async (t) => {
  process.env.CREATEOS_EMULATOR_TEST_SECRET = "secret";
  t.after(() => delete process.env.CREATEOS_EMULATOR_TEST_SECRET);
  const sandbox = await (await startFor(t)).sandbox();
  const { stdout } = await sandbox.bash("env");
  assert.doesNotMatch(stdout, /secret/);
  assert.match(stdout, /^HOME=\/root$/m);
});

test("arguments near the kernel's limits get through, and past them are refused", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const large = "x".repeat(131_071);
  const { data } = await sandbox.call("POST", "/exec", { cmd: "bash", args: ["-c", "echo $# ${#1}", "bash", ...Array(8).fill(large)] });
  assert.equal(data.result.stdout, "8 131071\n");
  assert.equal((await sandbox.call("POST", "/processes", { cmd: "true", args: ["x".repeat(131_072)] })).status, 400);
});

test("input reaches the process, up to 256 KiB a call, until it is closed", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("wc -c");
  const whole = Buffer.alloc(256 * 1024, "x");
  assert.equal((await process.input(whole)).data.input_seq, 1);
  assert.equal((await process.input(Buffer.alloc(256 * 1024 + 1))).status, 413);
  assert.equal((await process.call("POST", "/input", { data_base64: "!" })).status, 400);
  assert.equal((await process.call("POST", "/input", {})).status, 400);
  assert.equal((await process.call("POST", "/stdin/close")).status, 200);
  assert.equal((await process.call("POST", "/stdin/close")).status, 409);
  assert.equal((await process.input("late")).status, 409);
  assert.equal((await process.output()).stdout, "262144\n");
});

test("input that a process never reads is refused before it fills the memory", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("sleep 1000");
  let status = 200;
  for (let count = 0; status === 200; count++) {
    assert.ok(count < 100);
    ({ status } = await process.input(Buffer.alloc(256 * 1024)));
  }
  assert.equal(status, 409);
});

test("closing the input of a process that has ended is no error the first time", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("exit 0");
  await process.exited();
  assert.equal((await process.call("POST", "/stdin/close")).status, 200);
  assert.equal((await process.call("POST", "/stdin/close")).status, 409);
});

test("a signal goes to the leader, and can be handled", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.01; done");
  const output = await process.connect();
  await output.next();
  assert.equal((await process.call("POST", "/signal", { signal: "SIGNONE" })).status, 400);
  assert.equal((await process.call("POST", "/signal", { signal: "SIGTERM" })).status, 200);
  assert.equal(Buffer.from((await output.next()).data_base64, "base64").toString(), "caught\n");
  assert.deepEqual(await output.next(), { type: "exit", exit_code: 9 });
  assert.equal((await process.call("POST", "/signal", { signal: "SIGTERM" })).status, 409);
});

test("wait answers at the leader's end, and for the tree only at the tree's", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("(while [ ! -e /tmp/go ]; do sleep 0.01; done) & read line");
  assert.equal((await process.call("GET", "/wait?timeout_ms=1")).status, 408);
  assert.equal((await process.call("GET", "/wait?scope=other")).status, 400);
  assert.equal((await process.call("GET", "/wait?timeout_ms=x")).status, 400);
  const leader = process.exited();
  await process.call("POST", "/stdin/close");
  const view = await leader;
  assert.deepEqual([view.leader_exited, view.tree_exited], [true, false]);
  assert.equal((await process.call("GET", "/wait?scope=tree&timeout_ms=1")).status, 408);
  const tree = process.call("GET", "/wait?scope=tree&timeout_ms=60000");
  await sandbox.bash("touch /tmp/go");
  assert.equal((await tree).data.tree_exited, true);
});

for (const isolation of ["auto", "shared"]) {
  test(`deleting a process ends daemons, new sessions and cleared environments with it (isolation: ${isolation})`, async (t) => {
    const client = await startFor(t, { isolation });
    const sandbox = await client.sandbox();
    const [mine, other] = [uniqueSleep(), uniqueSleep()];
    const bystander = await sandbox.start(`sleep ${other} & echo ready; wait`);
    await (await bystander.connect()).next();
    // Only a namespace follows a process that has cleared its environment and left its parents.
    const cleared = isolation === "auto" ? `(setsid env -i sleep ${mine} &)` : `sleep ${mine} &`;
    const process = await sandbox.start(`
      sleep ${mine} & (sleep ${mine} &) ; (setsid sleep ${mine} &) ; setsid nohup bash -c 'sleep ${mine} & sleep ${mine}' & ${cleared}
      trap '' TERM; (trap '' TERM; echo ready; while :; do sleep ${mine}; done) & exec sleep ${mine}`);
    await (await process.connect()).next();
    await until(() => pidsWith(mine).filter((pid) => pid).length >= 7);
    const pids = pidsWith(mine);
    const bystanders = pidsWith(`sleep\0${other}`);
    const { data } = await process.call("DELETE", "?grace_ms=100");
    assert.equal(data.tree_exited, true);
    assert.deepEqual(pids.filter(isAlive), []);
    assert.equal(bystanders.length, 1);
    assert.ok(isAlive(bystanders[0]), "another command of the sandbox lives on");
    assert.equal((await process.call("DELETE")).status, 404);
    assert.equal((await process.call("GET", "/wait")).status, 404);
  });
}

test("a tree that ends by SIGTERM is not kept waiting for the grace period", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  const output = await process.connect();
  await output.next();
  const { data } = await process.call("DELETE", "?grace_ms=60000");
  assert.deepEqual([data.tree_exited, data.exit_code], [true, 7]);
  const { stdout, last } = texts(await output.all());
  assert.deepEqual([stdout, last], ["bye\n", { type: "exit", exit_code: 7 }]);
});

test("a tree that keeps forking is ended all the same", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("f() { while :; do (setsid bash -c 'sleep 0.02; exit' &); sleep 0.001; done; }; f & f & echo ready; wait");
  await (await process.connect()).next();
  assert.equal((await process.call("DELETE", "?grace_ms=0")).data.tree_exited, true);
  assert.deepEqual(await sandbox.client.emulator.hostPids(), []);
});

test("the second of two deletions at once gets the same confirmation or 404", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("sleep 1000");
  const answers = await Promise.all([process.call("DELETE", "?grace_ms=50"), process.call("DELETE", "?grace_ms=50")]);
  for (const { status, data } of answers) assert.ok(status === 404 || data.tree_exited === true);
});

test("many processes at once each get their own output and end", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  await Promise.all(Array.from({ length: 40 }, async (_, at) => {
    const process = await sandbox.start(`echo ${at}; echo err${at} >&2; exit ${at}`);
    const { stdout, stderr, last } = await process.output();
    assert.deepEqual([stdout, stderr, last.exit_code], [`${at}\n`, `err${at}\n`, at]);
  }));
});
