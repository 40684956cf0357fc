// The emulator's streams where they are more than a connection takes at once: they go on as soon as there is room, for
// readers that keep up and for readers that pause, and the silence after them is filled with heartbeats.
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";
import { startFor, texts } from "./support/emulator.mjs";

const LINES = 1_000_000;
const COUNTED = Array.from({ length: LINES }, (_, at) => `${at + 1}\n`).join("");
/** Nothing may be evicted before a reader comes to it, however slow this machine is. */
const PATIENT = { readerGraceMs: 60_000 };

/** A body as `fetch` reads it; one that stops in the middle is a failure, not an endless test. */
async function fetched({ url, key }, method, route, body) {
  const response = await fetch(`${url}/v1${route}`, {
    method, headers: { "x-api-key": key, "content-type": "application/json" },
    body: body && JSON.stringify(body), signal: AbortSignal.timeout(60_000),
  });
  assert.equal(response.status, 200);
  return response.text();
}

const framesIn = (body) => body.trimEnd().split("\n").map((line) => JSON.parse(line));

test("an output of a process that fills the connection many times over arrives whole", async (t) => {
  const client = await startFor(t, PATIENT);
  const sandbox = await client.sandbox();
  const process = await sandbox.start(`seq ${LINES}`);
  const { stdout, last } = texts(framesIn(await fetched(client, "GET", `/sandboxes/${sandbox.id}/processes/${process.id}/connect?after=0`)));
  assert.ok(stdout === COUNTED, `${stdout.length} of ${COUNTED.length} characters`);
  assert.deepEqual(last, { type: "exit", exit_code: 0 });
});

test("an output that is replayed arrives whole, though it is more than a connection takes at once", async (t) => {
  const client = await startFor(t, { readerGraceMs: 0 });
  const sandbox = await client.sandbox();
  const process = await sandbox.start("seq 100000");
  await process.exited();
  const body = await fetched(client, "GET", `/sandboxes/${sandbox.id}/processes/${process.id}/connect?after=0`);
  assert.ok(texts(framesIn(body)).stdout === COUNTED.slice(0, COUNTED.indexOf("\n100001\n") + 1));
});

test("a one-shot command's stream fills the connection many times over and arrives whole", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  const lines = framesIn(await fetched(client, "POST", `/sandboxes/${sandbox.id}/exec?stream=true`, { cmd: "seq", args: [String(LINES)] }));
  assert.ok(lines.map(({ stdout = "" }) => stdout).join("") === COUNTED);
  assert.deepEqual(lines.at(-1), { exit_code: 0 });
});

test("a file that fills the connection many times over arrives whole", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  await sandbox.bash(`seq ${LINES} > /tmp/counted`);
  assert.ok(await fetched(client, "GET", `/sandboxes/${sandbox.id}/files?path=/tmp/counted`) === COUNTED);
});

test("a reader that pauses until the process has to wait loses nothing, and gets heartbeats once it has all", async (t) => {
  const sandbox = await (await startFor(t, { ...PATIENT, clock: { speed: 1000 } })).sandbox();
  // Some 40 MiB of frames: more than the buffers at both ends of a connection hold.
  const process = await sandbox.start(`for i in 1 2 3 4; do seq ${LINES}; done; touch /tmp/written; read go; echo over`);
  const output = await process.connect();
  const written = async () => (await sandbox.bash("test -e /tmp/written")).exit_code === 0;
  const data = [];
  for (let bytes = 0, pauses = 0; bytes < COUNTED.length * 4;) {
    if (pauses < 3 && bytes >= pauses * COUNTED.length) {
      await standstill(process);
      if (pauses++ === 0) assert.equal(await written(), false);
    }
    const frame = await output.next();
    if (frame.type === "heartbeat") continue;
    assert.equal(frame.type, "data");
    data.push(Buffer.from(frame.data_base64, "base64"));
    bytes += data.at(-1).length;
  }
  assert.ok(Buffer.concat(data).toString() === COUNTED.repeat(4));
  assert.deepEqual(await output.next(), { type: "heartbeat" });
  assert.deepEqual(await output.next(), { type: "heartbeat" });
  await process.input("\n");
  const rest = (await output.all()).filter(({ type }) => type !== "heartbeat");
  assert.equal(texts(rest).stdout, "over\n");
  assert.deepEqual(rest.at(-1), { type: "exit", exit_code: 0 });
});

/** Resolves when the process has no more frames than a moment ago. */
async function standstill(process) {
  for (let before = -1, now; ; before = now) {
    now = (await process.call("GET")).data.output.newest_seq;
    if (now === before) return;
    await delay(100);
  }
}
