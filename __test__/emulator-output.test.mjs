// The emulator's output streams: frames, replay, eviction, heartbeats, and the exit frame's place.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { startFor, texts, uniqueSleep, until } from "./support/emulator.mjs";

const MIB = 1024 * 1024;

test("frames are numbered from 1 over both streams, without holes, and the exit frame is last", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("for i in 1 2 3; do echo out$i; read go; echo err$i >&2; read go; done");
  const output = await process.connect();
  assert.equal(output.response.headers["content-type"], "application/x-ndjson");
  for (let seq = 1; seq <= 6; seq++) {
    const stream = seq % 2 === 1 ? "stdout" : "stderr";
    const text = `${stream.slice(3)}${Math.ceil(seq / 2)}\n`;
    assert.deepEqual(await output.next(), { type: "data", seq, stream, data_base64: Buffer.from(text).toString("base64") });
    await process.input("\n");
  }
  assert.deepEqual(await output.next(), { type: "exit", exit_code: 0 });
  assert.equal(await output.next(), null);
});

test("a connection replays what comes after the given number, then goes on live", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("echo one; read go; echo two; read go; echo three");
  const first = await process.connect();
  await first.next();
  await process.input("\n");
  await first.next();
  first.close();
  const second = await process.connect(1);
  const frame = await second.next();
  assert.deepEqual([frame.seq, frame.data_base64], [2, Buffer.from("two\n").toString("base64")]);
  await process.input("\n");
  assert.equal((await second.next()).seq, 3);
  assert.equal((await second.next()).type, "exit");
  assert.deepEqual((await process.output(3)).frames, [{ type: "exit", exit_code: 0 }]);
  assert.equal((await process.output(0)).stdout, "one\ntwo\nthree\n");
  for (const after of ["-1", "x", "1.5"]) assert.equal((await process.call("GET", `/connect?after=${after}`)).status, 400);
});

test("closing a connection does not stop the process", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("echo ready; read line; echo $line");
  const output = await process.connect();
  await output.next();
  output.close();
  await process.input("alive\n");
  assert.equal((await process.output()).stdout, "ready\nalive\n");
});

test("several connections each get all of the output", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("read go; seq 1 20000");
  const outputs = await Promise.all([process.connect(), process.connect(), process.connect()]);
  const all = outputs.map((output) => output.all());
  await process.input("\n");
  const expected = Array.from({ length: 20000 }, (_, at) => `${at + 1}\n`).join("");
  for (const frames of await Promise.all(all)) assert.equal(texts(frames).stdout, expected);
});

for (const mebibytes of [30, 64]) {
  test(`an output of ${mebibytes} MiB arrives whole at a reader that keeps reading`, async (t) => {
    const sandbox = await (await startFor(t, { readerGraceMs: 60_000 })).sandbox();
    const process = await sandbox.start(`read go; head -c ${mebibytes * MIB} /dev/zero`);
    const output = await process.connect();
    await process.input("\n");
    let bytes = 0, seq = 0;
    for (let frame; (frame = await output.next());) {
      if (frame.type !== "data") {
        assert.deepEqual(frame, { type: "exit", exit_code: 0 });
        continue;
      }
      assert.equal(frame.seq, ++seq);
      bytes += Buffer.byteLength(frame.data_base64, "base64");
    }
    assert.equal(bytes, mebibytes * MIB);
  });
}

for (const how of ["reset", "end"]) {
  test(`a reader that is cut off (${how}) and comes back loses nothing of a fast output`, async (t) => {
    const hooks = { request: ({ route, attempt }) => (route === "connect" && attempt < 6 ? { cutAfter: attempt * 700_000, how } : undefined) };
    const sandbox = await (await startFor(t, { readerGraceMs: 60_000, hooks })).sandbox();
    const process = await sandbox.start(`head -c ${8 * MIB} /dev/zero`);
    let seq = 0, bytes = 0, last;
    for (let connection = 0; last?.type !== "exit"; connection++) {
      assert.ok(connection < 6);
      const output = await process.connect(seq);
      assert.equal(output.status, 200);
      try {
        while ((last = await output.next())?.type === "data") {
          assert.equal(last.seq, ++seq);
          bytes += Buffer.byteLength(last.data_base64, "base64");
        }
      } catch (error) {
        assert.equal(error.code, "ECONNRESET");
      }
    }
    assert.equal(bytes, 8 * MIB);
  });
}

test("a silent stream has heartbeats, which do not count as frames", async (t) => {
  const sandbox = await (await startFor(t, { clock: { speed: 1000 } })).sandbox();
  const process = await sandbox.start("read line; echo $line");
  const output = await process.connect();
  assert.deepEqual(await output.next(), { type: "heartbeat" });
  assert.deepEqual(await output.next(), { type: "heartbeat" });
  await process.input("x\n");
  let frame;
  while ((frame = await output.next()).type === "heartbeat");
  assert.equal(frame.seq, 1);
});

test("the journal keeps the newest MiB when nobody reads, and older numbers are answered with 410", async (t) => {
  const sandbox = await (await startFor(t, { readerGraceMs: 0 })).sandbox();
  const process = await sandbox.start("head -c 3145728 /dev/zero");
  const { output } = await process.exited();
  assert.ok(output.bytes <= MIB && output.bytes > MIB - 64 * 1024, String(output.bytes));
  assert.ok(output.oldest_seq > 1 && output.newest_seq > output.oldest_seq);
  for (const after of [0, output.oldest_seq - 2]) {
    const { status, data } = await process.call("GET", `/connect?after=${after}`);
    assert.equal(status, 410);
    assert.equal(data.oldest_available_seq, output.oldest_seq);
  }
  const { frames } = await process.output(output.oldest_seq - 1);
  assert.equal(frames[0].seq, output.oldest_seq);
  assert.equal(frames.at(-2).seq, output.newest_seq);
});

test("a process is not held up by a journal that nobody reads", async (t) => {
  const sandbox = await (await startFor(t, { readerGraceMs: 50 })).sandbox();
  const process = await sandbox.start("head -c 20000000 /dev/zero; echo done >&2");
  assert.equal((await process.exited()).exit_code, 0);
});

for (const readerGraceMs of [0, 50]) {
  test(`a reader that stops reading is told what it lost (readerGraceMs: ${readerGraceMs})`, async (t) => {
    const sandbox = await (await startFor(t, { readerGraceMs })).sandbox();
    const process = await sandbox.start("read go; head -c 100000000 /dev/zero");
    const output = await process.connect();
    output.response.pause();
    await process.input("\n");
    const view = await process.exited();
    const frames = await output.all();
    const last = frames.at(-1);
    assert.equal(last.type, "error");
    assert.equal(last.error, "output_offset_expired");
    // What was the oldest frame when the reader was told may be evicted, too, by now.
    assert.ok(last.oldest_available_seq > frames.length && last.oldest_available_seq <= view.output.oldest_seq);
    frames.slice(0, -1).forEach((frame, at) => assert.equal(frame.seq, at + 1));
    const rest = await process.output(view.output.oldest_seq - 1);
    assert.equal(rest.last.type, "exit");
  });
}

test("the exit frame comes at the leader's end, though a daemon holds the pipe open", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start(`sleep ${uniqueSleep()} & echo said; exit 3`);
  const { stdout, last } = await process.output();
  assert.deepEqual([stdout, last], ["said\n", { type: "exit", exit_code: 3 }]);
  assert.equal((await process.call("GET", "/wait?scope=tree&timeout_ms=1")).status, 408);
});

test("all that a leader wrote comes before the exit frame, however full the pipe was", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  await Promise.all(Array.from({ length: 10 }, async () => {
    const process = await sandbox.start(`sleep ${uniqueSleep()} & head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; exit 1`);
    const { frames, last } = await process.output();
    const bytes = (stream) => frames.filter((frame) => frame.stream === stream).reduce((sum, frame) => sum + Buffer.byteLength(frame.data_base64, "base64"), 0);
    assert.deepEqual([bytes("stdout"), bytes("stderr"), last.exit_code], [60000, 60000, 1]);
  }));
});

test("what a daemon writes after its leader's end is dropped, and does not stop it", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("(while [ ! -e /tmp/go ]; do sleep 0.01; done; head -c 1000000 /dev/zero; touch /tmp/wrote) & echo early");
  const ended = await process.exited();
  await sandbox.bash("touch /tmp/go");
  await until(async () => (await sandbox.bash("test -e /tmp/wrote")).exit_code === 0);
  assert.deepEqual((await process.call("GET")).data.output, ended.output);
  assert.equal((await process.output()).stdout, "early\n");
});

test("arbitrary bytes arrive as they were", async (t) => {
  const sandbox = await (await startFor(t)).sandbox();
  const process = await sandbox.start("printf '\\x00\\xff\\xe2\\x82'; printf '\\r\\n\\x00' >&2");
  const { frames } = await process.output();
  const of = (stream) => Buffer.concat(frames.filter((frame) => frame.stream === stream).map((frame) => Buffer.from(frame.data_base64, "base64")));
  assert.deepEqual([...of("stdout")], [0, 255, 0xe2, 0x82]);
  assert.deepEqual([...of("stderr")], [13, 10, 0]);
});

test("the end of the sandbox ends its streams", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  const process = await sandbox.start("echo ready; sleep 1000");
  const output = await process.connect();
  await output.next();
  await sandbox.call("DELETE");
  assert.deepEqual(await output.next(), { type: "exit", signal: "SIGKILL" });
  if (!output.response.closed) await once(output.response, "close");
});
