// How the emulator keeps sandboxes apart, from each other and from the host, in every way that this host offers.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { canIsolate, isAlive, startFor, uniqueSleep, until } from "./support/emulator.mjs";

for (const isolation of ["namespaces", "bubblewrap"]) {
  const check = (title, body) => test(`${title} (${isolation})`, async (t) => {
    if (!(await canIsolate(isolation))) return t.skip(`${isolation} does not work on this host`);
    await body(await startFor(t, { isolation }), t);
  });

  check("two sandboxes have their own workspace, temporary files and home, at the same paths", async (client) => {
    assert.equal(client.emulator.isolation, isolation);
    assert.deepEqual(client.emulator.warnings, []);
    const [one, other] = await Promise.all([client.sandbox(), client.sandbox()]);
    for (const directory of ["/paperclip-workspace", "/tmp", "/root"]) {
      assert.equal((await one.bash(`ls -A ${directory}; echo mine > ${directory}/file`)).stdout, "");
      assert.equal((await other.bash(`ls -A ${directory}`)).stdout, "");
      assert.equal((await one.bash(`cat ${directory}/file`)).stdout, "mine\n");
    }
  });

  check("the host has no workspace because of it", async (client) => {
    const before = existsSync("/paperclip-workspace");
    await client.sandbox();
    assert.equal(existsSync("/paperclip-workspace"), before);
  });

  check("the host's programs are there, and temporary files of the host are not", async (client) => {
    const sandbox = await client.sandbox();
    assert.equal((await sandbox.bash("ls /usr/bin/env && id -u")).stdout, "/usr/bin/env\n0\n");
    assert.equal((await sandbox.bash("ls -A /tmp")).stdout, "");
    assert.ok(readdirSync(tmpdir()).length > 0);
  });

  check("the commands of a sandbox see each other's processes by number, and those of no other", async (client) => {
    const [one, other] = await Promise.all([client.sandbox(), client.sandbox()]);
    const mark = uniqueSleep();
    const process = await one.start(`sleep ${mark} & echo $!; wait`);
    const pid = Buffer.from((await (await process.connect()).next()).data_base64, "base64").toString().trim();
    assert.match((await one.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout, new RegExp(`sleep ${mark}`));
    assert.doesNotMatch((await other.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout, new RegExp(`sleep ${mark}`));
    assert.equal((await one.bash(`kill -0 ${pid}`)).exit_code, 0);
    assert.equal((await one.bash(`kill ${pid}`)).exit_code, 0);
    assert.equal((await process.exited()).leader_exited, true);
  });

  check("a command's own number is the one that its process is shown with", async (client) => {
    const sandbox = await client.sandbox();
    const process = await sandbox.start("echo $$; readlink /proc/self >&2; cat");
    const { data } = await process.call("GET");
    await process.call("POST", "/stdin/close");
    assert.equal((await process.output()).stdout, `${data.pid}\n`);
  });

  check("killing everything in one sandbox harms neither the sandbox nor another one", async (client) => {
    const [one, other] = await Promise.all([client.sandbox(), client.sandbox()]);
    const bystander = await other.start("read line; echo $line");
    const victim = await one.start("sleep 1000");
    await one.bash("kill -KILL -1; kill -KILL 1");
    assert.equal((await victim.output()).last.signal, "SIGKILL");
    assert.equal((await one.bash("echo usable")).stdout, "usable\n");
    await bystander.input("fine\n");
    assert.equal((await bystander.output()).stdout, "fine\n");
  });

  check("orphans are reaped", async (client) => {
    const sandbox = await client.sandbox();
    await sandbox.bash("for i in 1 2 3 4 5; do (sleep 0 &); done");
    await until(async () => !(await sandbox.bash("cat /proc/[0-9]*/stat 2>/dev/null")).stdout.match(/\(sleep\) Z/));
  });

  check("destroying a sandbox ends all of its processes before it is answered", async (client) => {
    const sandbox = await client.sandbox();
    const process = await sandbox.start("(setsid sleep 1000 &); setsid env -i sleep 1000 & trap '' TERM; echo ready; sleep 1000");
    await (await process.connect()).next();
    const pids = await client.emulator.hostPids();
    assert.ok(pids.length >= 3);
    await sandbox.call("DELETE");
    assert.deepEqual(pids.filter(isAlive), []);
  });
}

test("without isolation commands still run, with their own ends and trees", async (t) => {
  const client = await startFor(t, { isolation: "shared" });
  assert.equal(client.emulator.isolation, "shared");
  const sandbox = await client.sandbox();
  const process = await sandbox.start("kill -KILL $$");
  assert.equal((await process.output()).last.signal, "SIGKILL");
  assert.deepEqual(await sandbox.bash("cat; exit 4", { stdin: "in" }), { exit_code: 4, stdout: "in", stderr: "" });
  const left = await sandbox.start(`setsid sleep ${uniqueSleep()} & echo ready; sleep 1000`);
  await (await left.connect()).next();
  const pids = await client.emulator.hostPids();
  assert.ok(pids.length >= 2);
  await client.emulator.close();
  assert.deepEqual(pids.filter(isAlive), []);
});

test("asking for an isolation that this host does not have is an error", async (t) => {
  if (await canIsolate("bubblewrap")) return t.skip("this host has all of them");
  const { startEmulator } = await import("../emulator/index.mjs");
  await assert.rejects(startEmulator({ isolation: "bubblewrap" }), /cannot isolate sandboxes as asked for/);
});
