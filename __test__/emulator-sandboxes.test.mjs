// The emulator's sandboxes: their states, one-shot commands, and files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { read, startFor, until } from "./support/emulator.mjs";

test("a call without the API key, or with another one, is answered with 401", async (t) => {
  const client = await startFor(t, { key: "right" });
  for (const headers of [{ "x-api-key": "wrong" }, { "x-api-key": "" }]) {
    const { status, envelope } = await client.call("POST", "/sandboxes", { shape: "s" }, { headers });
    assert.equal(status, 401);
    assert.equal(envelope.status, "fail");
  }
  assert.equal((await client.call("GET", "/sandboxes")).status, 200);
});

test("two emulators have different keys unless they are told", async (t) => {
  const [one, other] = await Promise.all([startFor(t), startFor(t)]);
  assert.notEqual(one.key, other.key);
});

test("unusable identifiers are refused with 400, unknown ones with 404, and unknown calls with 404", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  for (const id of ["a%2Fb", "a.b", "%00", "x".repeat(201), "%zz"]) {
    assert.equal((await client.call("GET", `/sandboxes/${id}`)).status, 400, id);
    assert.equal((await sandbox.call("GET", `/processes/${id}/connect`)).status, 400, id);
  }
  assert.equal((await client.call("GET", "/sandboxes/sb_unknown")).status, 404);
  assert.equal((await client.call("POST", "/sandboxes/sb_unknown/exec", { cmd: "true" })).status, 404);
  assert.equal((await sandbox.call("GET", "/processes/proc_unknown/wait")).status, 404);
  assert.equal((await client.call("GET", "/nothing")).status, 404);
});

test("a sandbox is created, becomes running, and is gone after its deletion", async (t) => {
  const client = await startFor(t, { stateDelayMs: 50 });
  const created = await client.call("POST", "/sandboxes", { shape: "s-2vcpu-4gb", ingress_enabled: false });
  assert.equal(created.status, 200);
  assert.equal(created.envelope.status, "success");
  assert.match(created.data.id, /^[A-Za-z0-9_-]{1,200}$/);
  assert.equal(created.data.status, "creating");
  const route = `/sandboxes/${created.data.id}`;
  await until(async () => (await client.call("GET", route)).data.status === "running");
  assert.equal((await client.call("GET", route)).data.mem_mib, 4096);
  assert.equal((await client.call("DELETE", route)).status, 200);
  assert.equal((await client.call("GET", route)).data.status, "destroyed");
  assert.equal((await client.call("DELETE", route)).status, 404);
  assert.equal((await client.call("POST", `${route}/exec`, { cmd: "true" })).status, 404);
});

test("a command for a sandbox that is still being created waits for it", async (t) => {
  const client = await startFor(t, { stateDelayMs: 200 });
  const { data } = await client.call("POST", "/sandboxes", { shape: "s" });
  const result = await client.call("POST", `/sandboxes/${data.id}/exec`, { cmd: "echo", args: ["ready"] });
  assert.equal(result.data.result.stdout, "ready\n");
});

test("bad create requests are refused with 400", async (t) => {
  const client = await startFor(t);
  for (const body of [{}, { shape: "" }, { shape: 1 }, { shape: "s", rootfs: 1 }, { shape: "s", envs: { A: 1 } }, { shape: "s", envs: { "A=B": "1" } }]) {
    assert.equal((await client.call("POST", "/sandboxes", body)).status, 400, JSON.stringify(body));
  }
  for (const raw of ["{", "[]", "null", "1"]) {
    assert.equal((await client.call("POST", "/sandboxes", undefined, { raw })).status, 400, raw);
  }
});

test("sandboxes are listed, page by page and by state", async (t) => {
  const client = await startFor(t);
  const ids = [(await client.sandbox()).id, (await client.sandbox()).id];
  const { data } = await client.call("GET", "/sandboxes");
  assert.deepEqual(data.data.map(({ id }) => id).sort(), ids.sort());
  assert.equal((await client.call("GET", "/sandboxes?limit=1&offset=1")).data.data.length, 1);
  assert.equal((await client.call("GET", "/sandboxes?status=paused")).data.pagination.total, 0);
});

test("pausing stops every process of the sandbox, and resuming lets it go on", async (t) => {
  const client = await startFor(t, { stateDelayMs: 1 });
  const sandbox = await client.sandbox();
  const process = await sandbox.start("(while :; do date +%s%N > /tmp/beat; sleep 0.01; done) & read line; echo $line");
  await until(async () => (await sandbox.bash("cat /tmp/beat")).exit_code === 0);
  assert.equal((await sandbox.call("POST", "/resume")).status, 409);
  const paused = await sandbox.call("POST", "/pause");
  assert.equal(paused.status, 202);
  assert.equal(paused.data.status, "pausing");
  await sandbox.reaches("paused");
  const pids = await client.emulator.hostPids();
  assert.ok(pids.length >= 2);
  for (const pid of pids) assert.match(readFileSync(`/proc/${pid}/stat`, "latin1"), /\) T /);

  assert.equal((await sandbox.call("POST", "/pause")).status, 409);
  assert.equal((await sandbox.call("POST", "/exec", { cmd: "true" })).status, 409);
  assert.equal((await sandbox.call("POST", "/processes", { cmd: "true" })).status, 409);
  assert.equal((await process.input("x\n")).status, 409);
  assert.equal((await sandbox.call("PUT", "/files?path=/tmp/x", undefined, { raw: "x" })).status, 409);

  const resumed = await sandbox.call("POST", "/resume");
  assert.equal(resumed.status, 202);
  assert.equal(resumed.data.status, "resuming");
  await sandbox.reaches("running");
  assert.equal((await process.input("still here\n")).status, 200);
  assert.equal((await process.output()).stdout, "still here\n");
  const before = (await sandbox.bash("cat /tmp/beat")).stdout;
  await until(async () => ![before, ""].includes((await sandbox.bash("cat /tmp/beat")).stdout));
});

test("a paused sandbox's processes can be terminated", async (t) => {
  const client = await startFor(t, { stateDelayMs: 1 });
  const sandbox = await client.sandbox();
  const process = await sandbox.start("sleep 1000 & sleep 1000");
  await sandbox.call("POST", "/pause");
  await sandbox.reaches("paused");
  assert.equal((await process.call("DELETE", "?grace_ms=1")).data.tree_exited, true);
});

test("egress and terminals are honestly not there", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  assert.equal((await sandbox.call("PUT", "/egress", { egress: [] })).status, 501);
  assert.equal((await sandbox.call("POST", "/processes", { cmd: "true", pty: { rows: 1, cols: 1 } })).status, 501);
});

test("exec answers with output, exit code, and 128 + the number of a deadly signal", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  assert.deepEqual(await sandbox.bash("echo out; echo err >&2; exit 3"), { exit_code: 3, stdout: "out\n", stderr: "err\n" });
  assert.equal((await sandbox.bash("exit 137")).exit_code, 137);
  assert.equal((await sandbox.bash("kill -KILL $$")).exit_code, 137);
  assert.equal((await sandbox.bash("kill -TERM $$")).exit_code, 143);
  assert.equal((await sandbox.bash("cat; wc -c", { stdin: "some input" })).stdout, "some input0\n");
  assert.equal((await sandbox.bash("cat")).stdout, "");
  const missing = await sandbox.call("POST", "/exec", { cmd: "no-such-program" });
  assert.equal(missing.data.result.exit_code, 127);
});

test("exec can open its standard streams again by name", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const { stdout, stderr } = await sandbox.bash("echo one > /dev/stdout; echo two > /dev/stderr; cat /dev/stdin", { stdin: "three" });
  assert.deepEqual([stdout, stderr], ["one\nthree", "two\n"]);
});

test("exec passes arguments byte for byte, empty and odd ones too", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const args = ["", "a b", "'\"$HOME`x`\\", "*", "\n\t", "ü€𝄞", "-n", "--"];
  const { data } = await sandbox.call("POST", "/exec", { cmd: "printf", args: ["<%s>", ...args] });
  assert.equal(data.result.stdout, args.map((arg) => `<${arg}>`).join(""));
});

test("exec refuses what is no command with 400", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const bad = [{}, { cmd: "" }, { cmd: 1 }, { cmd: "a\0b" }, { cmd: "a", args: "b" }, { cmd: "a", args: [1] }, { cmd: "a", args: ["\0"] }, { cmd: "cat", stdin: 1 }, { cmd: "a", env: [] }];
  for (const body of bad) assert.equal((await sandbox.call("POST", "/exec", body)).status, 400, JSON.stringify(body));
});

test("exec streams lines as they come, characters whole, and the exit code last", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  const script = "printf '\\xe2\\x82'; while [ ! -e /tmp/go ]; do sleep 0.01; done; printf '\\xac'; echo err >&2; exit 4";
  const response = await client.request("POST", `/sandboxes/${sandbox.id}/exec?stream=true`, { body: JSON.stringify({ cmd: "bash", args: ["-c", script] }) });
  await sandbox.bash("touch /tmp/go");
  const lines = (await read(response)).toString().trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(lines.map(({ stdout }) => stdout ?? "").join(""), "€");
  assert.equal(lines.map(({ stderr }) => stderr ?? "").join(""), "err\n");
  assert.deepEqual(lines.at(-1), { exit_code: 4 });
});

test("a silent exec stream has heartbeats", async (t) => {
  const client = await startFor(t, { clock: { speed: 1000 } });
  const sandbox = await client.sandbox();
  const response = await client.request("POST", `/sandboxes/${sandbox.id}/exec?stream=true`, { body: JSON.stringify({ cmd: "sleep", args: ["1000"] }) });
  for await (const chunk of response) {
    assert.deepEqual(JSON.parse(chunk), { hb: true });
    break;
  }
});

test("an exec whose caller leaves is ended", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  const response = await client.request("POST", `/sandboxes/${sandbox.id}/exec?stream=true`, { body: JSON.stringify({ cmd: "bash", args: ["-c", "echo on; sleep 1000"] }) });
  await new Promise((resolve) => response.once("data", resolve));
  assert.notEqual((await client.emulator.hostPids()).length, 0);
  response.destroy();
  await until(async () => (await client.emulator.hostPids()).length === 0);
});

test("exec of a large output is whole, buffered and streamed", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  assert.equal((await sandbox.bash("seq 1 300000")).stdout.length, 1988895);
  const response = await client.request("POST", `/sandboxes/${sandbox.id}/exec?stream=true`, { body: JSON.stringify({ cmd: "seq", args: ["1", "300000"] }) });
  const lines = (await read(response)).toString().trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(lines.map(({ stdout }) => stdout ?? "").join("").length, 1988895);
});

test("files are written with their parent directories and read back, byte for byte", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  const bytes = Buffer.alloc(3_000_000, Uint8Array.from({ length: 256 }, (_, at) => at));
  for (const file of ["/tmp/a/b/c.bin", "/paperclip-workspace/x/y", "/root/z"]) {
    const route = `/files?path=${encodeURIComponent(file)}`;
    assert.equal((await sandbox.call("PUT", route, undefined, { raw: bytes })).status, 200);
    assert.equal((await sandbox.bash(`wc -c < ${file}`)).stdout, "3000000\n");
    const answer = await sandbox.call("GET", route);
    assert.equal(answer.status, 200);
    assert.ok(answer.bytes.equals(bytes));
  }
  assert.equal((await sandbox.call("PUT", "/files?path=/tmp/empty", undefined, { raw: "" })).status, 200);
  assert.equal((await sandbox.call("GET", "/files?path=/tmp/empty")).bytes.length, 0);
});

test("files are found where a command would find them, through the sandbox's own links", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  await sandbox.bash("mkdir /tmp/real; echo inside > /tmp/real/file; ln -s /tmp/real /paperclip-workspace/absolute; ln -s ../tmp/real /paperclip-workspace/relative; ln -s loop /tmp/loop; mkfifo /tmp/fifo");
  for (const name of ["absolute", "relative"]) {
    assert.equal((await sandbox.call("GET", `/files?path=/paperclip-workspace/${name}/file`)).bytes.toString(), "inside\n");
  }
  assert.equal((await sandbox.call("PUT", "/files?path=/paperclip-workspace/absolute/new", undefined, { raw: "new" })).status, 200);
  assert.equal((await sandbox.bash("cat /tmp/real/new")).stdout, "new");
  assert.equal((await sandbox.call("GET", "/files?path=/tmp/loop")).status, 400);
  assert.equal((await sandbox.call("GET", "/files?path=/tmp/fifo")).status, 400);
  assert.equal((await sandbox.call("GET", "/files?path=/tmp/real")).status, 400);
  assert.equal((await sandbox.call("GET", "/files?path=/tmp/missing")).status, 404);
  assert.equal((await sandbox.call("PUT", "/files?path=/tmp/real/file/below", undefined, { raw: "x" })).status, 400);
  for (const name of ["relative", "", "%00/tmp"]) assert.equal((await sandbox.call("GET", `/files?path=${name}`)).status, 400);
  assert.equal((await sandbox.call("GET", "/files")).status, 400);
});
